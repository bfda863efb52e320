-- +goose Up
-- The letters about a media file, for skip_sealed.
CREATE INDEX IF NOT EXISTS dead_letter_asset ON dead_letter (asset_sha256) WHERE asset_sha256 IS NOT NULL;
