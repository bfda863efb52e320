-- +goose Up
-- The task instance that asked for a run (trigger_dag_run): while it may look at
-- the run, or ask for it again, the run stays.
ALTER TABLE dag_run ADD COLUMN asked_by INTEGER;
