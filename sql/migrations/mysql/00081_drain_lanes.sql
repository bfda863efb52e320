-- +goose Up
-- A drain goes through letters of GPU queues and through the others side by
-- side, each with a cursor. What a receiver asked a drain to rest stands in a
-- table of its own: the attempt that was told so and the drain's step would lock
-- the drain's row and the instance in opposite orders. The column slow_until of
-- replay_drain is not used any more.
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'replay_drain' AND column_name = 'gpu_cursor_id') > 0, 'DO 0',
 'ALTER TABLE replay_drain ADD COLUMN gpu_cursor_id BIGINT NOT NULL DEFAULT 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
UPDATE replay_drain SET gpu_cursor_id = cursor_id WHERE gpu_cursor_id = 0;

CREATE TABLE IF NOT EXISTS replay_drain_rest (
  drain_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  rest_until DATETIME(6) NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin ROW_FORMAT=DYNAMIC;
