-- +goose Up
-- What a running attempt measures besides how far it is: frames a second, speed.
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'task_progress' AND column_name = 'measures') > 0, 'DO 0',
 'ALTER TABLE task_progress ADD COLUMN measures VARCHAR(500) NOT NULL DEFAULT ''''');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
