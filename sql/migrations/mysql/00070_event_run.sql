-- +goose Up
-- The events of a run, for its history and for the clean that waits for them.
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'callback_event' AND index_name = 'k_run') > 0, 'DO 0',
 'ALTER TABLE callback_event ADD KEY k_run (dag_id, run_id)');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
