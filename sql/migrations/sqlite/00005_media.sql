-- +goose Up
-- Failures of media inputs, counted by content whatever task met them, and
-- which attempt has which input open (so that a lost worker's is known).

CREATE TABLE IF NOT EXISTS media_input (
  asset_sha256 TEXT NOT NULL PRIMARY KEY,
  failures INTEGER NOT NULL,
  total_failures INTEGER NOT NULL,
  first_failed_at TEXT NOT NULL,
  last_failed_at TEXT NOT NULL,
  last_error_code TEXT NOT NULL,
  last_job_id TEXT NOT NULL,
  released_at TEXT,
  released_by TEXT NOT NULL,
  CONSTRAINT media_input_failures CHECK (failures >= 0 AND total_failures >= failures)
) STRICT;
CREATE INDEX IF NOT EXISTS media_input_failed ON media_input (failures, last_failed_at);

CREATE TABLE IF NOT EXISTS media_input_use (
  task_instance_id INTEGER NOT NULL PRIMARY KEY,
  fence INTEGER NOT NULL,
  asset_sha256 TEXT NOT NULL,
  opened_at TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS media_input_use_opened ON media_input_use (opened_at);
