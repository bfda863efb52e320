-- +goose Up
-- Incidents that failures opened at receivers which can close them: one for each
-- failure and receiver, with the event that opened it. Whoever sees that no open
-- letter of the failure is left tells the receiver so.
CREATE TABLE IF NOT EXISTS letter_incident (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  fingerprint VARCHAR(100) NOT NULL,
  receiver CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  dag_id VARCHAR(250) NOT NULL,
  task_id VARCHAR(250) NOT NULL,
  callback LONGTEXT NOT NULL,
  context LONGTEXT NOT NULL,
  state VARCHAR(24) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  turns BIGINT NOT NULL,
  changed_at DATETIME(6) NOT NULL,
  CONSTRAINT letter_incident_state CHECK (state IN ('open', 'resolved')),
  UNIQUE KEY u_incident (fingerprint, receiver),
  KEY k_state (state, changed_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
