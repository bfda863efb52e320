-- +goose Up
-- Groups of open letters are counted by this index alone.
CREATE INDEX IF NOT EXISTS dead_letter_group ON dead_letter (status, fingerprint, return_count, enqueued_at);
