-- +goose Up
-- Incidents that failures opened at receivers which can close them: one for each
-- failure and receiver, with the event that opened it. Whoever sees that no open
-- letter of the failure is left tells the receiver so.
CREATE TABLE IF NOT EXISTS letter_incident (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  fingerprint TEXT NOT NULL,
  receiver TEXT NOT NULL,
  dag_id TEXT NOT NULL,
  task_id TEXT NOT NULL,
  callback TEXT NOT NULL,
  context TEXT NOT NULL,
  state TEXT NOT NULL,
  turns INTEGER NOT NULL,
  changed_at TEXT NOT NULL,
  CONSTRAINT letter_incident_state CHECK (state IN ('open', 'resolved')),
  CONSTRAINT u_incident UNIQUE (fingerprint, receiver)
) STRICT;
CREATE INDEX IF NOT EXISTS letter_incident_state_at ON letter_incident (state, changed_at);
