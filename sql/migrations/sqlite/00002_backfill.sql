-- +goose Up
-- Backfills: what was asked for, and one row for each date that it went through
-- (dag_run_id is NULL for a date whose run was left alone).

CREATE TABLE IF NOT EXISTS backfill (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  dag_id TEXT NOT NULL,
  from_date TEXT NOT NULL,
  to_date TEXT NOT NULL,
  max_active_runs INTEGER NOT NULL,
  reprocess_behavior TEXT NOT NULL,
  run_backwards INTEGER NOT NULL,
  conf TEXT,
  actor TEXT NOT NULL,
  created_at TEXT NOT NULL,
  CONSTRAINT backfill_limit CHECK (max_active_runs >= 1),
  CONSTRAINT backfill_reprocess CHECK (reprocess_behavior IN ('none', 'failed', 'completed'))
) STRICT;
CREATE INDEX IF NOT EXISTS backfill_dag ON backfill (dag_id, id);

CREATE TABLE IF NOT EXISTS backfill_run (
  backfill_id INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  logical_date TEXT NOT NULL,
  dag_run_id INTEGER,
  action TEXT NOT NULL,
  PRIMARY KEY (backfill_id, ordinal),
  CONSTRAINT backfill_run_action CHECK (action IN ('create', 'clear', 'exists', 'in_flight'))
) STRICT;
CREATE INDEX IF NOT EXISTS backfill_run_run ON backfill_run (dag_run_id);
