-- +goose Up
-- What a running attempt measures besides how far it is: frames a second, speed.
ALTER TABLE task_progress ADD COLUMN measures TEXT NOT NULL DEFAULT '';
