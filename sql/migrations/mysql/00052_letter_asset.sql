-- +goose Up
-- The letters about a media file, for skip_sealed.
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'dead_letter' AND index_name = 'k_asset') > 0, 'DO 0',
 'ALTER TABLE dead_letter ADD KEY k_asset (asset_sha256)');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
