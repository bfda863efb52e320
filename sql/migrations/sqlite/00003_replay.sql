-- +goose Up
-- Replays of dead letters: the drains, what edits changed, and the marks that a
-- replay leaves on instance, run and letter.

CREATE TABLE IF NOT EXISTS replay_drain (
  id TEXT NOT NULL PRIMARY KEY,
  state TEXT NOT NULL,
  reason TEXT NOT NULL,
  filter TEXT NOT NULL,
  where_expr TEXT NOT NULL,
  rate REAL NOT NULL,
  burst INTEGER NOT NULL,
  max_in_flight INTEGER NOT NULL,
  max_letters INTEGER NOT NULL,
  canary INTEGER NOT NULL,
  canary_passed INTEGER NOT NULL,
  max_returns INTEGER NOT NULL,
  pause_share REAL NOT NULL,
  max_id INTEGER NOT NULL,
  cursor_id INTEGER NOT NULL,
  total INTEGER NOT NULL,
  replayed INTEGER NOT NULL,
  drop_duplicate INTEGER NOT NULL,
  quarantine INTEGER NOT NULL,
  deferred INTEGER NOT NULL,
  rejected INTEGER NOT NULL,
  next_at TEXT,
  slow_until TEXT,
  actor TEXT NOT NULL,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  ended_at TEXT,
  CONSTRAINT replay_drain_state CHECK (state IN ('running', 'paused', 'stopped', 'done')),
  CONSTRAINT replay_drain_ended CHECK ((state = 'done') = (ended_at IS NOT NULL))
) STRICT;
CREATE INDEX IF NOT EXISTS replay_drain_created ON replay_drain (created_at);

CREATE TABLE IF NOT EXISTS dead_letter_edit (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  dead_letter_id INTEGER NOT NULL,
  old_payload TEXT NOT NULL,
  old_payload_hash TEXT NOT NULL,
  new_payload_hash TEXT NOT NULL,
  diff TEXT NOT NULL,
  reason TEXT NOT NULL,
  actor TEXT NOT NULL,
  edited_at TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS dead_letter_edit_letter ON dead_letter_edit (dead_letter_id, id);

ALTER TABLE task_instance ADD COLUMN replays INTEGER NOT NULL DEFAULT 0;
ALTER TABLE task_instance ADD COLUMN replaying INTEGER NOT NULL DEFAULT 0;
ALTER TABLE dag_run ADD COLUMN is_replay INTEGER NOT NULL DEFAULT 0;
ALTER TABLE dead_letter ADD COLUMN drain_id TEXT;
ALTER TABLE dead_letter ADD COLUMN payload_edit TEXT;
CREATE INDEX IF NOT EXISTS dead_letter_open ON dead_letter (status, id);
CREATE INDEX IF NOT EXISTS dead_letter_drain ON dead_letter (drain_id, status);
CREATE INDEX IF NOT EXISTS dead_letter_effect ON dead_letter (idempotency_key);

INSERT INTO pool (name, slots, description, include_deferred) VALUES ('replay_pool', 16, 'Replays of dead letters, besides their own pools', 0)
  ON CONFLICT (name) DO NOTHING;
