-- +goose Up
-- The workers that take work now, and from which queues. A notice: nothing that is
-- decided depends on it.

CREATE TABLE IF NOT EXISTS worker (
  worker_id VARCHAR(250) NOT NULL PRIMARY KEY,
  hostname VARCHAR(250) NOT NULL,
  queues TEXT NOT NULL, -- a JSON list; [] for all
  concurrency BIGINT NOT NULL,
  started_at DATETIME(6) NOT NULL,
  alive_until DATETIME(6) NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
