-- +goose Up
-- The state database of Airlock on SQLite.
--
-- Instants are UTC text, YYYY-MM-DD HH:MM:SS.ffffff, so that text order is time
-- order. Durations are microseconds (columns ending in _us). JSON stands in
-- text columns.

CREATE TABLE IF NOT EXISTS dag (
  dag_id TEXT NOT NULL PRIMARY KEY,
  fileloc TEXT NOT NULL,
  owner TEXT NOT NULL,
  schedule TEXT NOT NULL,
  description TEXT NOT NULL,
  tags TEXT NOT NULL,
  is_paused INTEGER NOT NULL,
  is_stale INTEGER NOT NULL,
  stale_reason TEXT NOT NULL,
  version_id INTEGER NOT NULL,
  max_active_runs INTEGER NOT NULL,
  next_logical_date TEXT,
  next_interval_start TEXT,
  next_interval_end TEXT,
  next_run_after TEXT,
  updated_at TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS dag_due ON dag (is_paused, is_stale, next_run_after);

CREATE TABLE IF NOT EXISTS dag_version (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  dag_id TEXT NOT NULL,
  hash TEXT NOT NULL,
  source TEXT NOT NULL,
  content TEXT NOT NULL,
  created_at TEXT NOT NULL,
  CONSTRAINT u_content UNIQUE (dag_id, hash)
) STRICT;

CREATE TABLE IF NOT EXISTS dag_run (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  dag_id TEXT NOT NULL,
  run_id TEXT NOT NULL,
  run_type TEXT NOT NULL,
  state TEXT NOT NULL,
  logical_date TEXT,
  data_interval_start TEXT,
  data_interval_end TEXT,
  run_after TEXT NOT NULL,
  queued_at TEXT,
  start_date TEXT,
  end_date TEXT,
  reason TEXT NOT NULL,
  conf TEXT,
  triggered_by TEXT NOT NULL,
  note TEXT NOT NULL,
  clear_number INTEGER NOT NULL,
  dag_version_id INTEGER NOT NULL,
  next_eval_at TEXT,
  updated_at TEXT NOT NULL,
  CONSTRAINT dag_run_run_type CHECK (run_type IN ('scheduled', 'manual', 'backfill')),
  CONSTRAINT dag_run_state CHECK (state IN ('queued', 'running', 'success', 'failed')),
  CONSTRAINT u_run UNIQUE (dag_id, run_id),
  CONSTRAINT u_logical_date UNIQUE (dag_id, logical_date),
  CONSTRAINT dag_run_ended CHECK ((state IN ('success', 'failed')) = (end_date IS NOT NULL))
) STRICT;
CREATE INDEX IF NOT EXISTS dag_run_eval ON dag_run (next_eval_at, id);
CREATE INDEX IF NOT EXISTS dag_run_state ON dag_run (state, dag_id);

CREATE TABLE IF NOT EXISTS task_instance (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  dag_run_id INTEGER NOT NULL,
  dag_id TEXT NOT NULL,
  run_id TEXT NOT NULL,
  task_id TEXT NOT NULL,
  map_index INTEGER NOT NULL,
  state TEXT NOT NULL,
  try_number INTEGER NOT NULL,
  max_tries INTEGER NOT NULL,
  failure_count INTEGER NOT NULL,
  crash_count INTEGER NOT NULL,
  generation INTEGER NOT NULL DEFAULT 0,
  throttled_us INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  operator TEXT NOT NULL,
  queue TEXT NOT NULL,
  pool TEXT NOT NULL,
  pool_slots INTEGER NOT NULL,
  priority_weight INTEGER NOT NULL,
  claim_rank INTEGER NOT NULL,
  payload TEXT,
  skip_tasks TEXT,
  dag_version_id INTEGER NOT NULL,
  worker_id TEXT NOT NULL,
  hostname TEXT NOT NULL,
  scheduled_at TEXT,
  queued_at TEXT,
  start_date TEXT,
  end_date TEXT,
  next_try_at TEXT,
  lease_until TEXT,
  first_failed_at TEXT,
  updated_at TEXT NOT NULL,
  CONSTRAINT task_instance_state CHECK (state IN ('none', 'scheduled', 'queued', 'running', 'success', 'failed', 'skipped', 'upstream_failed', 'up_for_retry', 'up_for_reschedule', 'deferred', 'removed', 'restarting')),
  CONSTRAINT task_instance_pool_slots CHECK (pool_slots >= 1),
  CONSTRAINT u_instance UNIQUE (dag_run_id, task_id, map_index),
  CONSTRAINT task_instance_lease CHECK (state <> 'running' OR lease_until IS NOT NULL),
  CONSTRAINT task_instance_rank CHECK (claim_rank = -priority_weight)
) STRICT;
CREATE INDEX IF NOT EXISTS task_instance_claim ON task_instance (state, claim_rank, id, queue);

CREATE TABLE IF NOT EXISTS task_attempt (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  task_instance_id INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  try_number INTEGER NOT NULL,
  state TEXT NOT NULL,
  worker_id TEXT NOT NULL,
  hostname TEXT NOT NULL,
  start_date TEXT NOT NULL,
  end_date TEXT NOT NULL,
  error_class TEXT NOT NULL,
  error_code TEXT NOT NULL,
  error_message TEXT NOT NULL,
  exit_code INTEGER,
  delay_ceiling_us INTEGER NOT NULL,
  delay_us INTEGER NOT NULL,
  log_path TEXT NOT NULL,
  detail TEXT,
  CONSTRAINT task_attempt_state CHECK (state IN ('success', 'failed', 'skipped', 'up_for_retry', 'restarting')),
  CONSTRAINT u_attempt UNIQUE (task_instance_id, fence)
) STRICT;

CREATE TABLE IF NOT EXISTS dead_letter (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  job_id TEXT NOT NULL,
  task_instance_id INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  dag_id TEXT NOT NULL,
  run_id TEXT NOT NULL,
  task_id TEXT NOT NULL,
  map_index INTEGER NOT NULL,
  logical_date TEXT,
  queue TEXT NOT NULL,
  attempt_count INTEGER NOT NULL,
  error_class TEXT NOT NULL,
  error_code TEXT NOT NULL,
  error_message TEXT NOT NULL,
  stack_trace TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  payload TEXT NOT NULL,
  original_payload_hash TEXT NOT NULL,
  asset_sha256 TEXT,
  idempotency_key TEXT NOT NULL,
  return_count INTEGER NOT NULL,
  status TEXT NOT NULL,
  schema_version INTEGER NOT NULL,
  first_failed_at TEXT NOT NULL,
  enqueued_at TEXT NOT NULL,
  expires_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  CONSTRAINT dead_letter_attempt_count CHECK (attempt_count >= 1),
  CONSTRAINT dead_letter_error_class CHECK (error_class IN ('permanent', 'exhausted', 'poison', 'configuration', 'capability', 'crash_loop')),
  CONSTRAINT dead_letter_status CHECK (status IN ('sealed', 'quarantined', 'replaying', 'resolved', 'dropped', 'expired')),
  CONSTRAINT u_attempt UNIQUE (task_instance_id, fence)
) STRICT;
CREATE INDEX IF NOT EXISTS dead_letter_status ON dead_letter (status, error_class, enqueued_at, id);
CREATE INDEX IF NOT EXISTS dead_letter_run ON dead_letter (dag_id, run_id);
CREATE INDEX IF NOT EXISTS dead_letter_fingerprint ON dead_letter (fingerprint, id);
CREATE INDEX IF NOT EXISTS dead_letter_queue ON dead_letter (status, queue);

CREATE TABLE IF NOT EXISTS dead_letter_audit (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  drain_id TEXT,
  dead_letter_id INTEGER NOT NULL,
  decision TEXT NOT NULL,
  idempotency_key TEXT NOT NULL,
  reason TEXT NOT NULL,
  actor TEXT NOT NULL,
  decided_at TEXT NOT NULL,
  CONSTRAINT dead_letter_audit_decision CHECK (decision IN ('replayed', 'drop_duplicate', 'quarantine', 'deferred', 'rejected', 'expired', 'released', 'resolved')),
  CONSTRAINT u_decision UNIQUE (drain_id, dead_letter_id)
) STRICT;
CREATE INDEX IF NOT EXISTS dead_letter_audit_letter ON dead_letter_audit (dead_letter_id, id);

CREATE TABLE IF NOT EXISTS xcom (
  dag_run_id INTEGER NOT NULL,
  task_id TEXT NOT NULL,
  map_index INTEGER NOT NULL,
  xcom_key TEXT NOT NULL,
  dag_id TEXT NOT NULL,
  run_id TEXT NOT NULL,
  value TEXT NOT NULL,
  created_at TEXT NOT NULL,
  PRIMARY KEY (dag_run_id, task_id, map_index, xcom_key)
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS pool (
  name TEXT NOT NULL PRIMARY KEY,
  slots INTEGER NOT NULL,
  description TEXT NOT NULL,
  include_deferred INTEGER NOT NULL,
  CONSTRAINT pool_slots CHECK (slots >= -1)
) STRICT;

CREATE TABLE IF NOT EXISTS variable (
  name TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL,
  description TEXT NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS connection (
  connection_id TEXT NOT NULL PRIMARY KEY,
  conn_type TEXT NOT NULL,
  description TEXT NOT NULL,
  host TEXT NOT NULL,
  port INTEGER NOT NULL,
  login TEXT NOT NULL,
  password TEXT NOT NULL,
  schema_name TEXT NOT NULL,
  extra TEXT NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS callback_event (
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
  status TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  next_attempt_at TEXT NOT NULL,
  owner TEXT NOT NULL,
  last_error TEXT NOT NULL,
  created_at TEXT NOT NULL,
  delivered_at TEXT,
  CONSTRAINT callback_event_kind CHECK (kind IN ('on_execute_callback', 'on_success_callback', 'on_failure_callback', 'on_retry_callback', 'on_skipped_callback')),
  CONSTRAINT callback_event_status CHECK (status IN ('pending', 'delivered', 'dead')),
  CONSTRAINT u_dedup UNIQUE (dedup_key)
) STRICT;
CREATE INDEX IF NOT EXISTS callback_event_pending ON callback_event (status, next_attempt_at, id);

CREATE TABLE IF NOT EXISTS effect (
  idempotency_key TEXT NOT NULL PRIMARY KEY,
  fingerprint TEXT NOT NULL,
  fence INTEGER NOT NULL,
  status TEXT NOT NULL,
  rows_read INTEGER NOT NULL,
  rows_merged INTEGER NOT NULL,
  rows_unchanged INTEGER NOT NULL,
  rows_quarantined INTEGER NOT NULL,
  result TEXT,
  committed_at TEXT NOT NULL,
  expires_at TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS effect_expires ON effect (expires_at);

CREATE TABLE IF NOT EXISTS import_error (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  file TEXT NOT NULL,
  line INTEGER NOT NULL,
  col INTEGER NOT NULL,
  path TEXT NOT NULL,
  severity TEXT NOT NULL,
  code TEXT NOT NULL,
  message TEXT NOT NULL,
  hint TEXT NOT NULL,
  recorded_at TEXT NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS audit_log (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  at TEXT NOT NULL,
  actor TEXT NOT NULL,
  action TEXT NOT NULL,
  subject TEXT NOT NULL,
  detail TEXT
) STRICT;
CREATE INDEX IF NOT EXISTS audit_log_action ON audit_log (action, id);

INSERT INTO pool (name, slots, description, include_deferred) VALUES ('default_pool', 128, 'Default pool', 0)
  ON CONFLICT (name) DO NOTHING;
