-- +goose Up
-- The running count of letters by group, kept in the transactions that change
-- letters: each adds a row with what it changed, and a sum over few rows takes
-- the place of a count over all letters. A row with a decision counts rows of
-- dead_letter_audit. The first row is empty, as on the servers.
--
-- Each replay's end stands with the decision of the drain that made it.
--
-- The indexes follow: groups are counted no more, the newest and the oldest
-- letter of each is looked up; what expires is found by when it does.

CREATE TABLE IF NOT EXISTS dead_letter_tally (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  fingerprint TEXT NOT NULL,
  dag_id TEXT NOT NULL,
  task_id TEXT NOT NULL,
  queue TEXT NOT NULL,
  error_class TEXT NOT NULL,
  error_code TEXT NOT NULL,
  decision TEXT NOT NULL,
  sealed INTEGER NOT NULL,
  quarantined INTEGER NOT NULL,
  replaying INTEGER NOT NULL,
  resolved INTEGER NOT NULL,
  dropped INTEGER NOT NULL,
  expired INTEGER NOT NULL,
  came_back INTEGER NOT NULL,
  decided INTEGER NOT NULL
) STRICT;
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

ALTER TABLE dead_letter_audit ADD COLUMN outcome TEXT;
UPDATE dead_letter_audit SET outcome = (SELECT
  CASE WHEN l.drain_id = dead_letter_audit.drain_id AND l.status = 'replaying' THEN 'in_flight'
   WHEN l.drain_id = dead_letter_audit.drain_id AND l.status = 'resolved' THEN 'resolved' ELSE 'back' END
  FROM dead_letter l WHERE l.id = dead_letter_audit.dead_letter_id) WHERE decision = 'replayed' AND drain_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS dead_letter_audit_outcome ON dead_letter_audit (drain_id, outcome);

CREATE INDEX IF NOT EXISTS dead_letter_newest ON dead_letter (status, fingerprint, enqueued_at);
CREATE INDEX IF NOT EXISTS dead_letter_expiry ON dead_letter (status, expires_at, queue);
DROP INDEX IF EXISTS dead_letter_group;
DROP INDEX IF EXISTS dead_letter_queue;
DROP INDEX IF EXISTS dead_letter_drain;
DROP INDEX IF EXISTS dead_letter_audit_decision;
