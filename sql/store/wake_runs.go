package store

import (
	"context"
	"slices"
)

// wakeRuns lets the scheduler look at runs that have not ended. It moves
// updated_at on, so that who remembers a run sees that it has changed.
func (t *tx) wakeRuns(ctx context.Context, ids []int64) error {
	t.woke = t.woke || len(ids) > 0
	t.s.memory.forget(ids)
	updated := "MAX(?, updated_at)" // which a pass may have moved beyond the clock
	if !t.s.db.IsSQLite() {         // there transactions begin side by side, and may bear one instant
		updated = "GREATEST(?, updated_at + INTERVAL 1 MICROSECOND)"
	}
	for part := range slices.Chunk(ids, chunk) {
		in, args := t.s.among(part)
		err := t.later(ctx, nil, "UPDATE dag_run"+t.force("PRIMARY")+" SET next_eval_at = ?, updated_at = "+updated+" WHERE id IN "+in+
			" AND state IN ('queued', 'running')", append([]any{t.at, t.at}, args...)...)
		if err != nil {
			return err
		}
	}
	return nil
}

// wakeFound wakes runs that were found without locks, while the DAG's row is
// locked. It waits for none that somebody holds, who may ask for that row; and who
// does may have looked already at what this transaction changes, or may have looked
// at the run alone. So those are woken after it.
func (t *tx) wakeFound(ctx context.Context, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	free, err := t.unheld(ctx, ids, "state IN ('queued', 'running')")
	if err != nil {
		return err
	}
	for _, id := range ids {
		if _, found := slices.BinarySearch(free, id); !found {
			t.woke, t.late = true, append(t.late, id)
		}
	}
	return t.wakeRuns(ctx, free)
}

// wakeLate wakes the runs that others held, once the transaction that changed what
// they wait for is committed, or may be. Nobody else would wake them.
func (s *Store) wakeLate(ctx context.Context, ids []int64) {
	if len(ids) == 0 {
		return
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if err := againIfLost(func() error {
		return s.write(context.WithoutCancel(ctx), "wake runs", func(ctx context.Context, t *tx) error { return t.wakeRuns(ctx, ids) })
	}); err != nil {
		s.log.WarnContext(ctx, "runs that were being looked at may not learn that they can go on", "runs", ids, "error", err)
	}
}

// wakeWaiting lets the scheduler look at runs of a DAG that may wait for room: its
// new version may allow more at once. The DAG's row is locked.
func (t *tx) wakeWaiting(ctx context.Context, dagID string) error {
	var ids []int64
	if err := t.SelectContext(ctx, &ids, "SELECT id FROM dag_run WHERE dag_id = ? AND state = 'queued' ORDER BY id", dagID); err != nil {
		return err
	}
	return t.wakeFound(ctx, ids)
}

// freeRuns locks those runs under a condition that nobody else holds, and gives
// their ids. They are found without locks and locked by their ids: a scan that
// skips what others hold keeps its places in the index locked, and who holds such
// a run waits for that with its next change of it.
func (t *tx) freeRuns(ctx context.Context, where string, args ...any) ([]int64, error) {
	var found []int64
	if err := t.SelectContext(ctx, &found, "SELECT id FROM dag_run WHERE "+where+" ORDER BY id", args...); err != nil {
		return nil, err
	}
	return t.unheld(ctx, found, where, args...)
}

// unheld locks those of some runs, in the order of their ids, that nobody else holds
// and of which a condition is true.
func (t *tx) unheld(ctx context.Context, ids []int64, where string, args ...any) ([]int64, error) {
	if t.s.db.IsSQLite() { // the transaction holds the one write lock
		return ids, nil
	}
	var out []int64
	for part := range slices.Chunk(ids, chunk) {
		var free []int64
		in, which := t.s.among(part)
		if err := t.SelectContext(ctx, &free, "SELECT id FROM dag_run"+t.force("PRIMARY")+" WHERE id IN "+in+" AND "+where+" ORDER BY id"+t.s.db.SkipLocked(),
			slices.Concat(which, args)...); err != nil {
			return nil, err
		}
		out = append(out, free...)
	}
	return out, nil
}
