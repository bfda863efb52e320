-- +goose Up
-- Passes are numbered on servers only; a file has a version of its own. The
-- column is here so that the tables are alike.
ALTER TABLE pool ADD COLUMN passes INTEGER NOT NULL DEFAULT 0;
