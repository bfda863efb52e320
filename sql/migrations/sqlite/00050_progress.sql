-- +goose Up
-- How far running attempts are. A notice: nothing depends on it.

CREATE TABLE IF NOT EXISTS task_progress (
  task_instance_id INTEGER NOT NULL PRIMARY KEY,
  fence INTEGER NOT NULL,
  fraction_ppm INTEGER NOT NULL,
  eta_us INTEGER NOT NULL,
  text TEXT NOT NULL,
  updated_at TEXT NOT NULL
) STRICT;
