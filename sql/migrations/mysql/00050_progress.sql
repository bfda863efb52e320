-- +goose Up
-- How far running attempts are. A notice: nothing depends on it.

CREATE TABLE IF NOT EXISTS task_progress (
  task_instance_id BIGINT NOT NULL PRIMARY KEY,
  fence BIGINT NOT NULL,
  fraction_ppm BIGINT NOT NULL,
  eta_us BIGINT NOT NULL,
  text VARCHAR(250) NOT NULL,
  updated_at DATETIME(6) NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
