-- +goose Up
-- Circuit breakers, alerts of theirs in the outbox, and the order of events:
-- lane is the same for all events of one task instance (run, circuit) to one
-- receiver. Rows from before have an empty one.

CREATE TABLE IF NOT EXISTS circuit_breaker (
  name VARCHAR(250) NOT NULL PRIMARY KEY,
  state VARCHAR(24) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  version BIGINT NOT NULL,
  openings BIGINT NOT NULL,
  by_hand TINYINT NOT NULL,
  opened_at DATETIME(6) NULL,
  retry_at DATETIME(6) NULL,
  probes BIGINT NOT NULL,
  probe_until DATETIME(6) NULL,
  successes BIGINT NOT NULL,
  reason MEDIUMTEXT NOT NULL,
  policy LONGTEXT NOT NULL,
  changed_at DATETIME(6) NOT NULL,
  updated_at DATETIME(6) NOT NULL,
  CONSTRAINT circuit_breaker_state CHECK (state IN ('closed', 'open', 'half_open')),
  CONSTRAINT circuit_breaker_opened CHECK (state = 'closed' OR opened_at IS NOT NULL),
  CONSTRAINT circuit_breaker_counts CHECK (version >= 0 AND openings >= 0 AND probes >= 0 AND successes >= 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;

CREATE TABLE IF NOT EXISTS circuit_window (
  name VARCHAR(250) NOT NULL,
  bucket DATETIME(6) NOT NULL,
  calls BIGINT NOT NULL,
  failures BIGINT NOT NULL,
  PRIMARY KEY (name, bucket),
  CONSTRAINT circuit_window_counts CHECK (failures >= 0 AND failures <= calls)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;

-- An index cannot be made "if it does not exist" on MySQL, and this file must
-- bear being run again after it was cut off.
SET @airlock = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'dead_letter'
  AND index_name = 'k_depth') = 0, 'CREATE INDEX k_depth ON dead_letter (status, queue, enqueued_at, expires_at)', 'DO 0');
PREPARE airlock FROM @airlock;
EXECUTE airlock;
DEALLOCATE PREPARE airlock;
SET @airlock = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'dead_letter_audit'
  AND index_name = 'k_decision') = 0, 'CREATE INDEX k_decision ON dead_letter_audit (decision)', 'DO 0');
PREPARE airlock FROM @airlock;
EXECUTE airlock;
DEALLOCATE PREPARE airlock;

-- The list of kinds is a CHECK, which not every server can change in place. The
-- table is there at every moment: the two change names in one step.
DROP TABLE IF EXISTS callback_event_new;
CREATE TABLE callback_event_new (
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
  lane VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  status VARCHAR(24) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  attempts BIGINT NOT NULL,
  next_attempt_at DATETIME(6) NOT NULL,
  owner VARCHAR(250) NOT NULL,
  last_error MEDIUMTEXT NOT NULL,
  created_at DATETIME(6) NOT NULL,
  delivered_at DATETIME(6) NULL,
  CHECK (kind IN ('on_execute_callback', 'on_success_callback', 'on_failure_callback', 'on_retry_callback', 'on_skipped_callback', 'on_circuit_open', 'on_circuit_close')),
  CHECK (status IN ('pending', 'delivered', 'dead')),
  UNIQUE KEY u_dedup (dedup_key),
  KEY k_pending (status, next_attempt_at, id),
  KEY k_lane (lane, status, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
INSERT INTO callback_event_new (id, dedup_key, dag_id, run_id, task_id, map_index, try_number, kind, callback, context, lane, status,
  attempts, next_attempt_at, owner, last_error, created_at, delivered_at)
  SELECT id, dedup_key, dag_id, run_id, task_id, map_index, try_number, kind, callback, context, '', status,
  attempts, next_attempt_at, owner, last_error, created_at, delivered_at FROM callback_event ORDER BY id;
DROP TABLE IF EXISTS callback_event_old;
RENAME TABLE callback_event TO callback_event_old, callback_event_new TO callback_event;
DROP TABLE IF EXISTS callback_event_old;
