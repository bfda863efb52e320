-- +goose Up
-- The state database of Airlock on MySQL 8+ and MariaDB 10.6+.
--
-- Instants are UTC with microseconds. Ids compare by their bytes. Durations
-- are microseconds (columns ending in _us). JSON stands in text columns: the
-- servers' own JSON types reorder keys, and one of them refuses documents that
-- are nested more than 32 deep, which would keep a letter from being sealed.
-- DDL commits by itself here, so each statement can be run twice.

CREATE TABLE IF NOT EXISTS dag (
  dag_id VARCHAR(250) NOT NULL PRIMARY KEY,
  fileloc MEDIUMTEXT NOT NULL,
  owner VARCHAR(500) NOT NULL,
  schedule MEDIUMTEXT NOT NULL,
  description MEDIUMTEXT NOT NULL,
  tags MEDIUMTEXT NOT NULL,
  is_paused TINYINT NOT NULL,
  is_stale TINYINT NOT NULL,
  stale_reason MEDIUMTEXT NOT NULL,
  version_id BIGINT NOT NULL,
  max_active_runs BIGINT NOT NULL,
  next_logical_date DATETIME(6) NULL,
  next_interval_start DATETIME(6) NULL,
  next_interval_end DATETIME(6) NULL,
  next_run_after DATETIME(6) NULL,
  updated_at DATETIME(6) NOT NULL,
  KEY k_due (is_paused, is_stale, next_run_after)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;

CREATE TABLE IF NOT EXISTS dag_version (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  dag_id VARCHAR(250) NOT NULL,
  hash CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  source VARCHAR(500) NOT NULL,
  content LONGTEXT NOT NULL,
  created_at DATETIME(6) NOT NULL,
  UNIQUE KEY u_content (dag_id, hash)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;

CREATE TABLE IF NOT EXISTS dag_run (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  dag_id VARCHAR(250) NOT NULL,
  run_id VARCHAR(250) NOT NULL,
  run_type VARCHAR(24) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  state VARCHAR(24) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  logical_date DATETIME(6) NULL,
  data_interval_start DATETIME(6) NULL,
  data_interval_end DATETIME(6) NULL,
  run_after DATETIME(6) NOT NULL,
  queued_at DATETIME(6) NULL,
  start_date DATETIME(6) NULL,
  end_date DATETIME(6) NULL,
  reason VARCHAR(100) NOT NULL,
  conf LONGTEXT NULL,
  triggered_by VARCHAR(250) NOT NULL,
  note MEDIUMTEXT NOT NULL,
  clear_number BIGINT NOT NULL,
  dag_version_id BIGINT NOT NULL,
  next_eval_at DATETIME(6) NULL,
  updated_at DATETIME(6) NOT NULL,
  CONSTRAINT dag_run_run_type CHECK (run_type IN ('scheduled', 'manual', 'backfill')),
  CONSTRAINT dag_run_state CHECK (state IN ('queued', 'running', 'success', 'failed')),
  UNIQUE KEY u_run (dag_id, run_id),
  UNIQUE KEY u_logical_date (dag_id, logical_date),
  KEY k_eval (next_eval_at, id),
  KEY k_state (state, dag_id),
  CONSTRAINT dag_run_ended CHECK ((state IN ('success', 'failed')) = (end_date IS NOT NULL))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;

CREATE TABLE IF NOT EXISTS task_instance (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  dag_run_id BIGINT NOT NULL,
  dag_id VARCHAR(250) NOT NULL,
  run_id VARCHAR(250) NOT NULL,
  task_id VARCHAR(250) NOT NULL,
  map_index BIGINT NOT NULL,
  state VARCHAR(24) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  try_number BIGINT NOT NULL,
  max_tries BIGINT NOT NULL,
  failure_count BIGINT NOT NULL,
  crash_count BIGINT NOT NULL,
  generation BIGINT NOT NULL DEFAULT 0,
  throttled_us BIGINT NOT NULL,
  fence BIGINT NOT NULL,
  operator VARCHAR(250) NOT NULL,
  queue VARCHAR(250) NOT NULL,
  pool VARCHAR(250) NOT NULL,
  pool_slots BIGINT NOT NULL,
  priority_weight BIGINT NOT NULL,
  claim_rank BIGINT NOT NULL,
  payload LONGTEXT NULL,
  skip_tasks LONGTEXT NULL,
  dag_version_id BIGINT NOT NULL,
  worker_id VARCHAR(250) NOT NULL,
  hostname VARCHAR(250) NOT NULL,
  scheduled_at DATETIME(6) NULL,
  queued_at DATETIME(6) NULL,
  start_date DATETIME(6) NULL,
  end_date DATETIME(6) NULL,
  next_try_at DATETIME(6) NULL,
  lease_until DATETIME(6) NULL,
  first_failed_at DATETIME(6) NULL,
  updated_at DATETIME(6) NOT NULL,
  CONSTRAINT task_instance_state CHECK (state IN ('none', 'scheduled', 'queued', 'running', 'success', 'failed', 'skipped', 'upstream_failed', 'up_for_retry', 'up_for_reschedule', 'deferred', 'removed', 'restarting')),
  CONSTRAINT task_instance_pool_slots CHECK (pool_slots >= 1),
  UNIQUE KEY u_instance (dag_run_id, task_id, map_index),
  KEY k_claim (state, claim_rank, id, queue),
  CONSTRAINT task_instance_lease CHECK (state <> 'running' OR lease_until IS NOT NULL),
  CONSTRAINT task_instance_rank CHECK (claim_rank = -priority_weight)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;

CREATE TABLE IF NOT EXISTS task_attempt (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  task_instance_id BIGINT NOT NULL,
  fence BIGINT NOT NULL,
  try_number BIGINT NOT NULL,
  state VARCHAR(24) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  worker_id VARCHAR(250) NOT NULL,
  hostname VARCHAR(250) NOT NULL,
  start_date DATETIME(6) NOT NULL,
  end_date DATETIME(6) NOT NULL,
  error_class VARCHAR(24) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  error_code VARCHAR(100) NOT NULL,
  error_message MEDIUMTEXT NOT NULL,
  exit_code BIGINT NULL,
  delay_ceiling_us BIGINT NOT NULL,
  delay_us BIGINT NOT NULL,
  log_path MEDIUMTEXT NOT NULL,
  detail LONGTEXT NULL,
  CONSTRAINT task_attempt_state CHECK (state IN ('success', 'failed', 'skipped', 'up_for_retry', 'restarting')),
  UNIQUE KEY u_attempt (task_instance_id, fence)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;

CREATE TABLE IF NOT EXISTS dead_letter (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  job_id VARCHAR(1024) NOT NULL,
  task_instance_id BIGINT NOT NULL,
  fence BIGINT NOT NULL,
  dag_id VARCHAR(250) NOT NULL,
  run_id VARCHAR(250) NOT NULL,
  task_id VARCHAR(250) NOT NULL,
  map_index BIGINT NOT NULL,
  logical_date DATETIME(6) NULL,
  queue VARCHAR(250) NOT NULL,
  attempt_count BIGINT NOT NULL,
  error_class VARCHAR(24) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  error_code VARCHAR(100) NOT NULL,
  error_message MEDIUMTEXT NOT NULL,
  stack_trace MEDIUMTEXT NOT NULL,
  fingerprint VARCHAR(100) NOT NULL,
  payload LONGTEXT NOT NULL,
  original_payload_hash CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  asset_sha256 CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
  idempotency_key VARCHAR(1024) NOT NULL,
  return_count BIGINT NOT NULL,
  status VARCHAR(24) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  schema_version BIGINT NOT NULL,
  first_failed_at DATETIME(6) NOT NULL,
  enqueued_at DATETIME(6) NOT NULL,
  expires_at DATETIME(6) NOT NULL,
  updated_at DATETIME(6) NOT NULL,
  CONSTRAINT dead_letter_attempt_count CHECK (attempt_count >= 1),
  CONSTRAINT dead_letter_error_class CHECK (error_class IN ('permanent', 'exhausted', 'poison', 'configuration', 'capability', 'crash_loop')),
  CONSTRAINT dead_letter_status CHECK (status IN ('sealed', 'quarantined', 'replaying', 'resolved', 'dropped', 'expired')),
  UNIQUE KEY u_attempt (task_instance_id, fence),
  KEY k_status (status, error_class, enqueued_at, id),
  KEY k_run (dag_id, run_id),
  KEY k_fingerprint (fingerprint, id),
  KEY k_queue (status, queue)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;

CREATE TABLE IF NOT EXISTS dead_letter_audit (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  drain_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
  dead_letter_id BIGINT NOT NULL,
  decision VARCHAR(24) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  idempotency_key VARCHAR(1024) NOT NULL,
  reason MEDIUMTEXT NOT NULL,
  actor VARCHAR(250) NOT NULL,
  decided_at DATETIME(6) NOT NULL,
  CONSTRAINT dead_letter_audit_decision CHECK (decision IN ('replayed', 'drop_duplicate', 'quarantine', 'deferred', 'rejected', 'expired', 'released', 'resolved')),
  UNIQUE KEY u_decision (drain_id, dead_letter_id),
  KEY k_letter (dead_letter_id, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;

CREATE TABLE IF NOT EXISTS xcom (
  dag_run_id BIGINT NOT NULL,
  task_id VARCHAR(250) NOT NULL,
  map_index BIGINT NOT NULL,
  xcom_key VARCHAR(250) NOT NULL,
  dag_id VARCHAR(250) NOT NULL,
  run_id VARCHAR(250) NOT NULL,
  value LONGTEXT NOT NULL,
  created_at DATETIME(6) NOT NULL,
  PRIMARY KEY (dag_run_id, task_id, map_index, xcom_key)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;

CREATE TABLE IF NOT EXISTS pool (
  name VARCHAR(250) NOT NULL PRIMARY KEY,
  slots BIGINT NOT NULL,
  description MEDIUMTEXT NOT NULL,
  include_deferred TINYINT NOT NULL,
  CONSTRAINT pool_slots CHECK (slots >= -1)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;

CREATE TABLE IF NOT EXISTS variable (
  name VARCHAR(250) NOT NULL PRIMARY KEY,
  value LONGTEXT NOT NULL,
  description MEDIUMTEXT NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;

CREATE TABLE IF NOT EXISTS connection (
  connection_id VARCHAR(250) NOT NULL PRIMARY KEY,
  conn_type VARCHAR(100) NOT NULL,
  description MEDIUMTEXT NOT NULL,
  host MEDIUMTEXT NOT NULL,
  port BIGINT NOT NULL,
  login MEDIUMTEXT NOT NULL,
  password MEDIUMTEXT NOT NULL,
  schema_name MEDIUMTEXT NOT NULL,
  extra MEDIUMTEXT NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;

CREATE TABLE IF NOT EXISTS callback_event (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  dedup_key VARCHAR(750) NOT NULL,
  dag_id VARCHAR(250) NOT NULL,
  run_id VARCHAR(250) NOT NULL,
  task_id VARCHAR(250) NOT NULL,
  map_index BIGINT NOT NULL,
  try_number BIGINT NOT NULL,
  kind VARCHAR(24) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  callback LONGTEXT NOT NULL,
  context LONGTEXT NOT NULL,
  status VARCHAR(24) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  attempts BIGINT NOT NULL,
  next_attempt_at DATETIME(6) NOT NULL,
  owner VARCHAR(250) NOT NULL,
  last_error MEDIUMTEXT NOT NULL,
  created_at DATETIME(6) NOT NULL,
  delivered_at DATETIME(6) NULL,
  CONSTRAINT callback_event_kind CHECK (kind IN ('on_execute_callback', 'on_success_callback', 'on_failure_callback', 'on_retry_callback', 'on_skipped_callback')),
  CONSTRAINT callback_event_status CHECK (status IN ('pending', 'delivered', 'dead')),
  UNIQUE KEY u_dedup (dedup_key),
  KEY k_pending (status, next_attempt_at, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;

CREATE TABLE IF NOT EXISTS effect (
  idempotency_key VARCHAR(750) NOT NULL PRIMARY KEY,
  fingerprint VARCHAR(100) NOT NULL,
  fence BIGINT NOT NULL,
  status VARCHAR(24) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  rows_read BIGINT NOT NULL,
  rows_merged BIGINT NOT NULL,
  rows_unchanged BIGINT NOT NULL,
  rows_quarantined BIGINT NOT NULL,
  result LONGTEXT NULL,
  committed_at DATETIME(6) NOT NULL,
  expires_at DATETIME(6) NOT NULL,
  KEY k_expires (expires_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;

CREATE TABLE IF NOT EXISTS import_error (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  file MEDIUMTEXT NOT NULL,
  line BIGINT NOT NULL,
  col BIGINT NOT NULL,
  path MEDIUMTEXT NOT NULL,
  severity VARCHAR(24) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  code VARCHAR(100) NOT NULL,
  message MEDIUMTEXT NOT NULL,
  hint MEDIUMTEXT NOT NULL,
  recorded_at DATETIME(6) NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;

CREATE TABLE IF NOT EXISTS audit_log (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  at DATETIME(6) NOT NULL,
  actor VARCHAR(250) NOT NULL,
  action VARCHAR(100) NOT NULL,
  subject VARCHAR(1024) NOT NULL,
  detail LONGTEXT NULL,
  KEY k_action (action, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;

INSERT INTO pool (name, slots, description, include_deferred) VALUES ('default_pool', 128, 'Default pool', 0)
  ON DUPLICATE KEY UPDATE name = name;
