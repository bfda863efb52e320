-- +goose Up
-- Which instances the last passes over a wide run have changed, so that a process
-- that remembers it reads these and not all; empty where one process decides.
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'dag_run' AND column_name = 'change_log') > 0, 'DO 0',
 'ALTER TABLE dag_run ADD COLUMN change_log VARCHAR(4000) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT ''''');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
