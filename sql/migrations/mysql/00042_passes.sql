-- +goose Up
-- Passes that hand out slots are numbered in the row of the default pool: a
-- process that made the one before need not count again what is in use.
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'pool' AND column_name = 'passes') > 0, 'DO 0',
 'ALTER TABLE pool ADD COLUMN passes BIGINT NOT NULL DEFAULT 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
