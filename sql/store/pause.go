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
			// runs come first here, too. A pass that comes later reads the DAG's row.
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
	if !paused {
		return nil
	}
	return t.takeBackOf(ctx, []string{dagID})
}

// wakeDAG lets the scheduler look at the DAG's unfinished runs, and waits for
// passes that hold some: the DAG's row must not be locked. Of one that is being
// paused it takes those that run: the others, of which a backfill may have very
// many, are passed over from now on, and a pass that wanted to start one leaves it
// (see lockRoom) until the DAG goes on.
func (t *tx) wakeDAG(ctx context.Context, dagID string, paused bool) error {
	which := "dag_id = ? AND state IN ('queued', 'running')"
	if paused {
		which = "dag_id = ? AND state = 'running'"
	}
	var ids []int64
	if err := t.SelectContext(ctx, &ids, "SELECT id FROM dag_run WHERE "+which+" ORDER BY id", dagID); err != nil {
		return err
	}
	return t.wakeRuns(ctx, ids)
}
