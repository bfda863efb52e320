-- +goose Up
-- The task instance that asked for a run (trigger_dag_run): while it may look at
-- the run, or ask for it again, the run stays.
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'dag_run' AND column_name = 'asked_by') > 0, 'DO 0',
 'ALTER TABLE dag_run ADD COLUMN asked_by BIGINT');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
