-- +goose Up
-- Failures of media inputs, counted by content whatever task met them, and
-- which attempt has which input open (so that a lost worker's is known).

CREATE TABLE IF NOT EXISTS media_input (
  asset_sha256 CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  failures BIGINT NOT NULL,
  total_failures BIGINT NOT NULL,
  first_failed_at DATETIME(6) NOT NULL,
  last_failed_at DATETIME(6) NOT NULL,
  last_error_code VARCHAR(100) NOT NULL,
  last_job_id VARCHAR(1024) NOT NULL,
  released_at DATETIME(6) NULL,
  released_by VARCHAR(250) NOT NULL,
  CONSTRAINT media_input_failures CHECK (failures >= 0 AND total_failures >= failures),
  KEY k_failed (failures, last_failed_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;

CREATE TABLE IF NOT EXISTS media_input_use (
  task_instance_id BIGINT NOT NULL PRIMARY KEY,
  fence BIGINT NOT NULL,
  asset_sha256 CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  opened_at DATETIME(6) NOT NULL,
  KEY k_opened (opened_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
