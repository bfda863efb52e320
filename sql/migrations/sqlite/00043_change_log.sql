-- +goose Up
-- Which instances the last passes over a wide run have changed, so that a process
-- that remembers it reads these and not all; empty where one process decides.
ALTER TABLE dag_run ADD COLUMN change_log TEXT NOT NULL DEFAULT '';
