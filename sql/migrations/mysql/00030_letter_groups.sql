-- +goose Up
-- Groups of open letters are counted by this index alone.
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'dead_letter' AND index_name = 'k_group') > 0, 'DO 0',
 'ALTER TABLE dead_letter ADD KEY k_group (status, fingerprint, return_count, enqueued_at)');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
