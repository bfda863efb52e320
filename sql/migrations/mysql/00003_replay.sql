-- +goose Up
-- Replays of dead letters: the drains, what edits changed, and the marks that a
-- replay leaves on instance, run and letter. A column is added only where it is
-- not there yet: DDL commits by itself, and the file must be able to start over.

CREATE TABLE IF NOT EXISTS replay_drain (
  id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  state VARCHAR(24) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  reason MEDIUMTEXT NOT NULL,
  filter LONGTEXT NOT NULL,
  where_expr MEDIUMTEXT NOT NULL,
  rate DOUBLE NOT NULL,
  burst BIGINT NOT NULL,
  max_in_flight BIGINT NOT NULL,
  max_letters BIGINT NOT NULL,
  canary BIGINT NOT NULL,
  canary_passed TINYINT NOT NULL,
  max_returns BIGINT NOT NULL,
  pause_share DOUBLE NOT NULL,
  max_id BIGINT NOT NULL,
  cursor_id BIGINT NOT NULL,
  total BIGINT NOT NULL,
  replayed BIGINT NOT NULL,
  drop_duplicate BIGINT NOT NULL,
  quarantine BIGINT NOT NULL,
  deferred BIGINT NOT NULL,
  rejected BIGINT NOT NULL,
  next_at DATETIME(6) NULL,
  slow_until DATETIME(6) NULL,
  actor VARCHAR(250) NOT NULL,
  created_at DATETIME(6) NOT NULL,
  updated_at DATETIME(6) NOT NULL,
  ended_at DATETIME(6) NULL,
  CONSTRAINT replay_drain_state CHECK (state IN ('running', 'paused', 'stopped', 'done')),
  CONSTRAINT replay_drain_ended CHECK ((state = 'done') = (ended_at IS NOT NULL)),
  KEY k_created (created_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;

CREATE TABLE IF NOT EXISTS dead_letter_edit (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  dead_letter_id BIGINT NOT NULL,
  old_payload LONGTEXT NOT NULL,
  old_payload_hash CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  new_payload_hash CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  diff LONGTEXT NOT NULL,
  reason MEDIUMTEXT NOT NULL,
  actor VARCHAR(250) NOT NULL,
  edited_at DATETIME(6) NOT NULL,
  KEY k_letter (dead_letter_id, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;

SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'task_instance' AND column_name = 'replaying') > 0, 'DO 0',
 'ALTER TABLE task_instance ADD COLUMN replays BIGINT NOT NULL DEFAULT 0, ADD COLUMN replaying TINYINT NOT NULL DEFAULT 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'dag_run' AND column_name = 'is_replay') > 0, 'DO 0',
 'ALTER TABLE dag_run ADD COLUMN is_replay TINYINT NOT NULL DEFAULT 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'dead_letter' AND column_name = 'drain_id') > 0, 'DO 0',
 'ALTER TABLE dead_letter ADD COLUMN drain_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL, ADD COLUMN payload_edit LONGTEXT NULL, ADD KEY k_open (status, id), ADD KEY k_drain (drain_id, status), ADD KEY k_effect (idempotency_key(150))');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

INSERT INTO pool (name, slots, description, include_deferred) VALUES ('replay_pool', 16, 'Replays of dead letters, besides their own pools', 0)
  ON DUPLICATE KEY UPDATE name = name;
