-- +goose Up
-- Turns: in what order instances of one priority are claimed, so that no DAG
-- keeps the workers from the others.
ALTER TABLE task_instance ADD COLUMN turn INTEGER NOT NULL DEFAULT 0;
DROP INDEX IF EXISTS task_instance_claim;
CREATE INDEX IF NOT EXISTS task_instance_claim ON task_instance (state, claim_rank, turn, id, queue);
