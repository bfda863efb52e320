package store

import "context"

// SetPaused implements Desk.
func (s *Store) SetPaused(ctx context.Context, dagID string, paused bool) (changed bool, err error) {
	err = s.write(ctx, "pause or unpause "+dagID, func(ctx context.Context, t *tx) error {
		changed = false
		for look, lock := range []string{"", s.db.ForUpdate()} {
			var was []bool
			if err := t.SelectContext(ctx, &was, "SELECT is_paused FROM dag WHERE dag_id = ?"+lock, dagID); err != nil {
				return err
			}
			if len(was) == 0 {
				return noDAG(dagID)
			}
			if was[0] == paused {
				return nil
			}
			// Passes hold runs when they ask for the DAG of those that start or end: its
			// runs come first here, too. Those that begin in between come after.
			if look == 0 {
				if err := t.wakeDAG(ctx, dagID, paused); err != nil {
					return err
				}
			}
		}
		changed = true
		return t.setPaused(ctx, dagID, paused)
	})
	return changed, err
}

// setPaused pauses or unpauses a DAG, whose row is locked or will be.
func (t *tx) setPaused(ctx context.Context, dagID string, paused bool) error {
	if _, err := t.exec(ctx, "UPDATE dag SET is_paused = ?, updated_at = ? WHERE dag_id = ?", boolInt(paused), t.at, dagID); err != nil {
		return err
	}
	if paused {
		if err := t.takeBackOf(ctx, []string{dagID}); err != nil {
			return err
		}
	}
	if !t.s.db.IsSQLite() { // which has no second writer
		t.switched = append(t.switched, dagID)
	}
	return t.wakeFree(ctx, dagID, paused)
}

// wakeDAG lets the scheduler look at the DAG's unfinished runs, and waits for
// passes that hold some: the DAG's row must not be locked.
func (t *tx) wakeDAG(ctx context.Context, dagID string, paused bool) error {
	var ids []int64
	if err := t.SelectContext(ctx, &ids, "SELECT id FROM dag_run WHERE "+switchedRuns(paused)+" ORDER BY id", dagID); err != nil {
		return err
	}
	return t.wakeRuns(ctx, ids)
}

// wakeFree wakes the same runs, but those that another pass holds: the DAG's row
// is locked.
func (t *tx) wakeFree(ctx context.Context, dagID string, paused bool) error {
	ids, err := t.freeRuns(ctx, switchedRuns(paused), dagID)
	if err != nil {
		return err
	}
	return t.wakeRuns(ctx, ids)
}

// switchedRuns are the runs of a DAG that learn of its being paused or not. Of one
// that is paused those that run, which somebody may remember: the others, of which
// a backfill may have very many, are passed over from now on.
func switchedRuns(paused bool) string {
	if paused {
		return "dag_id = ? AND state = 'running'"
	}
	return "dag_id = ? AND state IN ('queued', 'running')"
}

// wakeSwitched wakes, after the transaction that paused or unpaused some DAGs, the
// runs that passes held then: who remembers one has to see that it has changed. In
// that transaction, which holds the DAGs' rows, it would be a deadlock with a pass
// that has one of the runs and asks for its DAG. A queued run that is due may be
// held by a pass that starts it without the DAG's row: one that is replayed.
func (s *Store) wakeSwitched(ctx context.Context, dagIDs []string) {
	for _, dagID := range dagIDs {
		err := s.write(ctx, "wake the runs of "+dagID, func(ctx context.Context, t *tx) error {
			var ids []int64
			if err := t.SelectContext(ctx, &ids, "SELECT id FROM dag_run WHERE dag_id = ? AND (state = 'running' OR state = 'queued' AND next_eval_at <= ?) ORDER BY id",
				dagID, t.at); err != nil {
				return err
			}
			return t.wakeRuns(ctx, ids)
		})
		if err != nil {
			s.log.WarnContext(ctx, "a DAG was paused or unpaused; runs that were being looked at may learn of it late", "dag_id", dagID, "error", err)
		}
	}
}
