-- +goose Up
-- A drain goes through letters of GPU queues and through the others side by
-- side, each with a cursor. What a receiver asked a drain to rest stands in a
-- table of its own, as on the servers. The column slow_until of replay_drain is
-- not used any more.
ALTER TABLE replay_drain ADD COLUMN gpu_cursor_id INTEGER NOT NULL DEFAULT 0;
UPDATE replay_drain SET gpu_cursor_id = cursor_id;

CREATE TABLE IF NOT EXISTS replay_drain_rest (
  drain_id TEXT NOT NULL PRIMARY KEY,
  rest_until TEXT NOT NULL
) STRICT, WITHOUT ROWID;
