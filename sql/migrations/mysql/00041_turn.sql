-- +goose Up
-- Turns: in what order instances of one priority are claimed, so that no DAG
-- keeps the workers from the others.
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'task_instance' AND column_name = 'turn') > 0, 'DO 0',
 'ALTER TABLE task_instance ADD COLUMN turn BIGINT NOT NULL DEFAULT 0, DROP KEY k_claim, ADD KEY k_claim (state, claim_rank, turn, id, queue)');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
