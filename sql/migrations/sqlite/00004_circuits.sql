-- +goose Up
-- Circuit breakers, alerts of theirs in the outbox, and the order of events:
-- lane is the same for all events of one task instance (run, circuit) to one
-- receiver. Rows from before have an empty one.

CREATE TABLE IF NOT EXISTS circuit_breaker (
  name TEXT NOT NULL PRIMARY KEY,
  state TEXT NOT NULL,
  version INTEGER NOT NULL,
  openings INTEGER NOT NULL,
  by_hand INTEGER NOT NULL,
  opened_at TEXT,
  retry_at TEXT,
  probes INTEGER NOT NULL,
  probe_until TEXT,
  successes INTEGER NOT NULL,
  reason TEXT NOT NULL,
  policy TEXT NOT NULL,
  changed_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  CONSTRAINT circuit_breaker_state CHECK (state IN ('closed', 'open', 'half_open')),
  CONSTRAINT circuit_breaker_opened CHECK (state = 'closed' OR opened_at IS NOT NULL),
  CONSTRAINT circuit_breaker_counts CHECK (version >= 0 AND openings >= 0 AND probes >= 0 AND successes >= 0)
) STRICT;

CREATE TABLE IF NOT EXISTS circuit_window (
  name TEXT NOT NULL,
  bucket TEXT NOT NULL,
  calls INTEGER NOT NULL,
  failures INTEGER NOT NULL,
  PRIMARY KEY (name, bucket),
  CONSTRAINT circuit_window_counts CHECK (failures >= 0 AND failures <= calls)
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS dead_letter_depth ON dead_letter (status, queue, enqueued_at, expires_at);
CREATE INDEX IF NOT EXISTS dead_letter_audit_decision ON dead_letter_audit (decision);

DROP TABLE IF EXISTS callback_event_new;
CREATE TABLE callback_event_new (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  dedup_key TEXT NOT NULL,
  dag_id TEXT NOT NULL,
  run_id TEXT NOT NULL,
  task_id TEXT NOT NULL,
  map_index INTEGER NOT NULL,
  try_number INTEGER NOT NULL,
  kind TEXT NOT NULL,
  callback TEXT NOT NULL,
  context TEXT NOT NULL,
  lane TEXT NOT NULL,
  status TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  next_attempt_at TEXT NOT NULL,
  owner TEXT NOT NULL,
  last_error TEXT NOT NULL,
  created_at TEXT NOT NULL,
  delivered_at TEXT,
  CHECK (kind IN ('on_execute_callback', 'on_success_callback', 'on_failure_callback', 'on_retry_callback', 'on_skipped_callback', 'on_circuit_open', 'on_circuit_close')),
  CHECK (status IN ('pending', 'delivered', 'dead')),
  CONSTRAINT u_dedup UNIQUE (dedup_key)
) STRICT;
INSERT INTO callback_event_new (id, dedup_key, dag_id, run_id, task_id, map_index, try_number, kind, callback, context, lane, status,
  attempts, next_attempt_at, owner, last_error, created_at, delivered_at)
  SELECT id, dedup_key, dag_id, run_id, task_id, map_index, try_number, kind, callback, context, '', status,
  attempts, next_attempt_at, owner, last_error, created_at, delivered_at FROM callback_event ORDER BY id;
DROP TABLE callback_event;
ALTER TABLE callback_event_new RENAME TO callback_event;
CREATE INDEX callback_event_pending ON callback_event (status, next_attempt_at, id);
CREATE INDEX callback_event_lane ON callback_event (lane, status, id);
