-- +goose Up
-- Backfills: what was asked for, and one row for each date that it went through
-- (dag_run_id is NULL for a date whose run was left alone).

CREATE TABLE IF NOT EXISTS backfill (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  dag_id VARCHAR(250) NOT NULL,
  from_date DATETIME(6) NOT NULL,
  to_date DATETIME(6) NOT NULL,
  max_active_runs BIGINT NOT NULL,
  reprocess_behavior VARCHAR(24) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  run_backwards TINYINT NOT NULL,
  conf LONGTEXT NULL,
  actor VARCHAR(250) NOT NULL,
  created_at DATETIME(6) NOT NULL,
  CONSTRAINT backfill_limit CHECK (max_active_runs >= 1),
  CONSTRAINT backfill_reprocess CHECK (reprocess_behavior IN ('none', 'failed', 'completed')),
  KEY k_dag (dag_id, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;

CREATE TABLE IF NOT EXISTS backfill_run (
  backfill_id BIGINT NOT NULL,
  ordinal BIGINT NOT NULL,
  logical_date DATETIME(6) NOT NULL,
  dag_run_id BIGINT NULL,
  action VARCHAR(24) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  PRIMARY KEY (backfill_id, ordinal),
  CONSTRAINT backfill_run_action CHECK (action IN ('create', 'clear', 'exists', 'in_flight')),
  KEY k_run (dag_run_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
