package store

import (
	"context"
	"errors"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// A slot is free when the result that frees it is committed. A pass of another
// process that counts before that finds none and leaves what is ready waiting; the
// results' transaction looks for what waits before that pass has committed, and sees
// nothing. Neither would give the slot away, and it stayed free until somebody
// looked again. Passes hold the lock of the pools from before they count until
// they have committed: who asks for it after a result's commit and then looks sees
// what the passes before left waiting, and the passes after count the slot as free.

// freed gives a worker, after its results are committed, what waits for the slots
// that they have freed. It is asked where the worker has room left and its
// transaction saw neither anything that became ready nor anything that waits. An
// error means that it is not known what the worker got; else Left says in the
// report that somebody has to look.
func (s *Store) freed(ctx context.Context, p dag.ClaimParams, report *dag.ScheduleReport) ([]dag.Claim, error) {
	var passes []int64
	err := s.db.Writer().SelectContext(ctx, &passes, "SELECT passes FROM pool WHERE name = ?"+s.db.ForUpdate(), dag.DefaultPool)
	found := false
	if err == nil {
		found, err = s.finds(ctx, "SELECT id FROM task_instance WHERE state = 'scheduled' LIMIT 1")
	}
	if err != nil || !found {
		report.Left = report.Left || err != nil
		return nil, nil
	}
	var claims []dag.Claim
	var queued int
	var never []dag.NeverFit
	err = s.write(ctx, "give what was freed", func(ctx context.Context, t *tx) error {
		var err error
		claims = nil
		if queued, never, err = t.queue(ctx, nil, nil, p.OnlyRun); err == nil && queued > 0 {
			claims, err = t.takeWork(ctx, p, nil, queued)
		}
		return err
	})
	if lost := err; dialect.LostCommit(lost) {
		report.Left = true
		if claims, err = s.claimed(ctx, claims); err != nil {
			return nil, errors.Join(lost, err)
		}
		return claims, nil
	}
	if err != nil {
		report.Left = true
		return nil, nil //nolint:nilerr // nothing has changed, and Left says that somebody has to look
	}
	report.Queued += queued
	report.NeverFit = append(report.NeverFit, never...)
	return claims, nil
}
