-- +goose Up
-- The workers that take work now, and from which queues. A notice: nothing that is
-- decided depends on it.

CREATE TABLE IF NOT EXISTS worker (
  worker_id TEXT NOT NULL PRIMARY KEY,
  hostname TEXT NOT NULL,
  queues TEXT NOT NULL, -- a JSON list; [] for all
  concurrency INTEGER NOT NULL,
  started_at TEXT NOT NULL,
  alive_until TEXT NOT NULL
) STRICT;
