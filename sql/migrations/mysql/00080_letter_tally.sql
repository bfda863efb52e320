-- +goose Up
-- The running count of letters by group, kept in the transactions that change
-- letters: each adds a row with what it changed, so that no two of them wait for
-- each other, and a sum over few rows takes the place of a count over all
-- letters. A row with a decision counts rows of dead_letter_audit. The first row
-- is empty: whoever draws rows together holds it.
--
-- Each replay's end stands with the decision of the drain that made it.
--
-- The indexes follow: groups are counted no more, the newest and the oldest
-- letter of each is looked up; what expires is found by when it does.

CREATE TABLE IF NOT EXISTS dead_letter_tally (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  fingerprint VARCHAR(100) NOT NULL,
  dag_id VARCHAR(250) NOT NULL,
  task_id VARCHAR(250) NOT NULL,
  queue VARCHAR(250) NOT NULL,
  error_class VARCHAR(24) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  error_code VARCHAR(100) NOT NULL,
  decision VARCHAR(24) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  sealed BIGINT NOT NULL,
  quarantined BIGINT NOT NULL,
  replaying BIGINT NOT NULL,
  resolved BIGINT NOT NULL,
  dropped BIGINT NOT NULL,
  expired BIGINT NOT NULL,
  came_back BIGINT NOT NULL,
  decided BIGINT NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
DELETE FROM dead_letter_tally;
INSERT INTO dead_letter_tally (id, fingerprint, dag_id, task_id, queue, error_class, error_code, decision, sealed, quarantined, replaying, resolved,
  dropped, expired, came_back, decided) VALUES (1, '', '', '', '', '', '', '', 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO dead_letter_tally (fingerprint, dag_id, task_id, queue, error_class, error_code, decision, sealed, quarantined, replaying, resolved,
  dropped, expired, came_back, decided)
  SELECT fingerprint, dag_id, task_id, queue, error_class, error_code, '', SUM(status = 'sealed'), SUM(status = 'quarantined'), SUM(status = 'replaying'),
  SUM(status = 'resolved'), SUM(status = 'dropped'), SUM(status = 'expired'), SUM(return_count > 0 AND status IN ('sealed', 'quarantined')), 0
  FROM dead_letter GROUP BY fingerprint, dag_id, task_id, queue, error_class, error_code;
INSERT INTO dead_letter_tally (fingerprint, dag_id, task_id, queue, error_class, error_code, decision, sealed, quarantined, replaying, resolved,
  dropped, expired, came_back, decided)
  SELECT '', '', '', '', '', '', decision, 0, 0, 0, 0, 0, 0, 0, COUNT(*) FROM dead_letter_audit GROUP BY decision;

SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'dead_letter_audit' AND column_name = 'outcome') > 0, 'DO 0',
 'ALTER TABLE dead_letter_audit ADD COLUMN outcome VARCHAR(24) CHARACTER SET ascii COLLATE ascii_bin NULL, ADD KEY k_outcome (drain_id, outcome)');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
UPDATE dead_letter_audit a JOIN dead_letter l ON l.id = a.dead_letter_id SET a.outcome =
  CASE WHEN l.drain_id = a.drain_id AND l.status = 'replaying' THEN 'in_flight' WHEN l.drain_id = a.drain_id AND l.status = 'resolved' THEN 'resolved' ELSE 'back' END
  WHERE a.decision = 'replayed' AND a.drain_id IS NOT NULL AND a.outcome IS NULL;

SET @ddl = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'dead_letter' AND index_name = 'k_newest') > 0, 'DO 0',
 'ALTER TABLE dead_letter ADD KEY k_newest (status, fingerprint, enqueued_at), ADD KEY k_expiry (status, expires_at, queue)');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'dead_letter' AND index_name = 'k_group') = 0, 'DO 0',
 'ALTER TABLE dead_letter DROP KEY k_group');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'dead_letter' AND index_name = 'k_queue') = 0, 'DO 0',
 'ALTER TABLE dead_letter DROP KEY k_queue');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'dead_letter' AND index_name = 'k_drain') = 0, 'DO 0',
 'ALTER TABLE dead_letter DROP KEY k_drain');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'dead_letter_audit' AND index_name = 'k_decision') = 0, 'DO 0',
 'ALTER TABLE dead_letter_audit DROP KEY k_decision');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
