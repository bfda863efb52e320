package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// startNow makes what has just got a slot running at once, as far as the worker
// of this very transaction has room: nobody could have claimed it meanwhile, and
// two statements are saved. It takes nothing out of turn: only where nothing is
// queued before it, and only instances that never ran and are no part of a
// mapped task, of which the decision has seen all there is to see.
func (t *tx) startNow(ctx context.Context, l *slots, runs []*passRun, groups map[change][]candidate) error {
	of := change{dag.StateNone, dag.StateQueued}
	list := groups[of]
	if t.takes == nil || !t.trusts || !l.drained || len(list) == 0 {
		return nil
	}
	slices.SortFunc(list, func(a, b candidate) int { // the order of claims
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.turn, b.turn), cmp.Compare(a.ID, b.ID))
	})
	byID := make(map[int64]*passRun, len(runs))
	for _, r := range runs {
		byID[r.run.ID] = r
	}
	var begin, rest []candidate
	var rows []instanceRow
	for i, c := range list {
		var ti *dag.TaskInstance
		if r := byID[c.RunID]; r != nil {
			ti = r.instance(c.ID)
		}
		if ti != nil && len(t.takes.Queues) > 0 && !slices.Contains(t.takes.Queues, ti.Queue) { // another worker's
			rest = append(rest, c)
			continue
		}
		if ti == nil || ti.Fence != 0 || ti.MapIndex >= 0 || ti.Replaying || len(rows) == t.takes.N {
			rest = append(rest, list[i:]...)
			break
		}
		begin, rows = append(begin, c), append(rows, t.startedRow(c.RunID, ti, c.turn))
	}
	if len(begin) == 0 {
		return nil
	}
	groups[of] = rest
	slices.SortFunc(begin, func(a, b candidate) int { return cmp.Compare(a.ID, b.ID) })
	turn, turnArgs, which, whichArgs := t.byTurn(begin, dag.StateNone)
	t.starts = rows
	t.began = append(t.began, rows...)
	return t.laterMatching(ctx, len(begin), errOtherwise, "UPDATE task_instance"+t.force("PRIMARY")+` SET state = 'running', fence = 1, try_number = 1, scheduled_at = ?, queued_at = ?, start_date = ?,
 worker_id = ?, hostname = ?, lease_until = ?, updated_at = ?`+turn+which+" AND fence = 0",
		slices.Concat([]any{t.at, t.at, t.at, rows[0].WorkerID, rows[0].Hostname, dialect.Stamp(rows[0].LeaseUntil.Time), t.at}, turnArgs, whichArgs)...)
}

// startedRow is the row of an instance that never ran, once it runs.
func (t *tx) startedRow(runID int64, ti *dag.TaskInstance, turn int64) instanceRow {
	now := dialect.At(t.now)
	return instanceRow{
		ID: ti.ID, DagRunID: runID, TaskInstanceKey: ti.TaskInstanceKey, State: string(dag.StateRunning), TryNumber: 1, MaxTries: ti.MaxTries,
		Fence: 1, Operator: ti.Operator, Queue: ti.Queue, Pool: ti.Pool, PoolSlots: ti.PoolSlots, PriorityWeight: ti.PriorityWeight, Turn: turn,
		VersionID: ti.VersionID, WorkerID: short(t.takes.WorkerID, 250), Hostname: short(t.takes.Hostname, 250),
		ScheduledAt: now, QueuedAt: now, StartDate: now, LeaseUntil: dialect.At(t.now.Add(t.takes.Lease)), UpdatedAt: now,
	}
}
