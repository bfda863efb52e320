package store

import (
	"context"
	"slices"
	"strings"

	"github.com/airlock-dag/airlock/dag"
)

// applyTransitions writes the changes that ask for no slot, one statement for
// each pair of states. Every change is guarded by the state that the decision
// saw: a worker may claim or end an instance meanwhile.
func (t *tx) applyTransitions(ctx context.Context, runs []*passRun) error {
	type target struct {
		run *passRun
		ti  *dag.TaskInstance
	}
	groups := map[change][]target{}
	var order []change
	for _, r := range runs {
		if r.wait || r.err != nil {
			continue
		}
		for _, tr := range r.decision.Transitions {
			if isReady(tr) {
				continue
			}
			ti := r.instance(tr.TaskInstanceID)
			if ti == nil {
				continue
			}
			c := change{tr.From, tr.To}
			if groups[c] == nil {
				order = append(order, c)
			}
			groups[c] = append(groups[c], target{r, ti})
		}
	}
	slices.SortFunc(order, func(a, b change) int {
		return strings.Compare(string(a.from+" "+a.to), string(b.from+" "+b.to))
	})
	for _, c := range order {
		list := groups[c]
		slices.SortFunc(list, func(a, b target) int { return int(a.ti.ID - b.ti.ID) })
		for part := range slices.Chunk(list, chunk) {
			ids := make([]int64, len(part))
			for i, g := range part {
				ids[i] = g.ti.ID
			}
			moved, err := t.move(ctx, c, ids)
			if err != nil {
				return err
			}
			var unrun []int64
			for _, g := range part {
				if g.ti.Replaying && moved[g.ti.ID] && c.to.Finished() {
					unrun = append(unrun, g.ti.ID)
				}
			}
			if err := t.endReplaysUnrun(ctx, unrun, "the replay ended "+string(c.to)+" without an attempt", "scheduler"); err != nil {
				return err
			}
			if len(moved) == len(ids) && c.from != dag.StateRunning {
				continue
			}
			for _, g := range part {
				if !moved[g.ti.ID] {
					g.run.raced = true
				} else if c.from == dag.StateRunning {
					if err := t.recordStopped(ctx, g.ti, c.to, "the run timed out"); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// move changes the state of the instances that are still in c.from and tells
// which were.
func (t *tx) move(ctx context.Context, c change, ids []int64) (map[int64]bool, error) {
	moved := make(map[int64]bool, len(ids))
	if c.from == dag.StateQueued || c.from == dag.StateRunning {
		// Workers change these without the run's lock: see which ones are left, and
		// keep them.
		var still []int64
		in, args := t.s.among(ids)
		if err := t.SelectContext(ctx, &still, "SELECT id FROM task_instance"+t.force("PRIMARY")+" WHERE id IN "+in+" AND state = ? ORDER BY id"+t.s.db.ForUpdate(),
			append(args, string(c.from))...); err != nil || len(still) == 0 {
			return moved, err
		}
		ids = still
	}
	set, args := "state = ?, updated_at = ?", []any{string(c.to), t.at}
	switch {
	case c.to.Finished():
		set += ", start_date = COALESCE(start_date, ?), end_date = ?, next_try_at = NULL, lease_until = NULL"
		args = append(args, t.at, t.at)
	case c.to == dag.StateScheduled:
		t.unqueued = true
		set += ", scheduled_at = ?, queued_at = NULL"
		args = append(args, t.at)
	}
	if c.from == dag.StateRunning {
		set += ", fence = fence + 1"
	}
	in, which := t.s.among(ids)
	n, err := t.exec(ctx, "UPDATE task_instance"+t.force("PRIMARY")+" SET "+set+" WHERE id IN "+in+" AND state = ?", slices.Concat(args, which, []any{string(c.from)})...)
	if err != nil {
		return nil, err
	}
	if n != int64(len(ids)) {
		// The run's lock keeps everybody else from these states; whoever broke in
		// is found by looking again.
		return moved, nil
	}
	for _, id := range ids {
		moved[id] = true
	}
	return moved, nil
}

// recordStopped keeps the attempt of a running instance that was ended by a
// decision and not by its worker.
func (t *tx) recordStopped(ctx context.Context, ti *dag.TaskInstance, to dag.State, why string) error {
	rows, err := instances(ctx, t, resultColumns, "task_instance", " WHERE id = ?", ti.ID)
	if err != nil || len(rows) == 0 {
		return err
	}
	r := &rows[0]
	start := t.now
	if r.StartDate.Valid {
		start = r.StartDate.Time
	}
	return t.insertAttempts(ctx, []dag.Attempt{{
		// The attempt that was stopped had the fence before this one.
		TaskInstanceID: r.ID, Fence: r.Fence - 1, TryNumber: r.TryNumber, State: to, WorkerID: r.WorkerID, Hostname: r.Hostname,
		StartDate: start, EndDate: t.now, ErrorMessage: why,
	}})
}
