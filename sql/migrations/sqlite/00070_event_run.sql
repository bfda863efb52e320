-- +goose Up
-- The events of a run, for its history and for the clean that waits for them.
CREATE INDEX IF NOT EXISTS callback_event_run ON callback_event (dag_id, run_id);
