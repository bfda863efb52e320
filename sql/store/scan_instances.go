package store

import (
	"context"
)

// columnSet names columns and, in the same order, the places of their values in
// a row. The hot paths read what they use and no more: a column that is read and
// thrown away costs as much as any.
type columnSet func(r *instanceRow) (columns string, targets []any)

// scheduleColumns is what a decision looks at, what queueing needs, and what a
// worker is told of an instance that never ran.
func scheduleColumns(r *instanceRow) (string, []any) {
	return `id, dag_run_id, task_id, map_index, state, pool, pool_slots, priority_weight, skip_tasks, next_try_at, replaying, fence, max_tries, operator, queue,
 dag_version_id`,
		[]any{&r.ID, &r.DagRunID, &r.TaskID, &r.MapIndex, &r.State, &r.Pool, &r.PoolSlots, &r.PriorityWeight, &r.SkipTasks, &r.NextTryAt, &r.Replaying,
			&r.Fence, &r.MaxTries, &r.Operator, &r.Queue, &r.VersionID}
}

// resultColumns is what Apply guards by and counts on from.
func resultColumns(r *instanceRow) (string, []any) {
	return `id, dag_run_id, dag_id, run_id, task_id, map_index, state, try_number, failure_count, crash_count, generation, replays, replaying,
 throttled_us, fence, queue, priority_weight, turn, worker_id, hostname, start_date, lease_until, first_failed_at`,
		[]any{&r.ID, &r.DagRunID, &r.DagID, &r.RunID, &r.TaskID, &r.MapIndex, &r.State, &r.TryNumber, &r.FailureCount,
			&r.CrashCount, &r.Generation, &r.Replays, &r.Replaying, &r.ThrottledUS, &r.Fence, &r.Queue, &r.PriorityWeight,
			&r.Turn, &r.WorkerID, &r.Hostname, &r.StartDate, &r.LeaseUntil, &r.FirstFailedAt}
}

// claimColumns is all that a worker is given.
func claimColumns(r *instanceRow) (string, []any) {
	return instanceColumns + ", payload, turn",
		[]any{&r.ID, &r.DagRunID, &r.DagID, &r.RunID, &r.TaskID, &r.MapIndex, &r.State, &r.TryNumber, &r.MaxTries, &r.FailureCount,
			&r.CrashCount, &r.Generation, &r.Replays, &r.Replaying, &r.ThrottledUS, &r.Fence, &r.Operator, &r.Queue, &r.Pool, &r.PoolSlots, &r.PriorityWeight,
			&r.SkipTasks, &r.VersionID, &r.WorkerID, &r.Hostname, &r.ScheduledAt, &r.QueuedAt, &r.StartDate, &r.EndDate, &r.NextTryAt,
			&r.LeaseUntil, &r.FirstFailedAt, &r.UpdatedAt, &r.Payload, &r.Turn}
}

// queuedColumns are claimColumns with what tells whether the run is as this
// process remembers it. It is no locking read: a run that somebody else is just
// deciding about is as it was before.
func queuedColumns(r *instanceRow) (string, []any) {
	columns, targets := claimColumns(r)
	return columns + ", (SELECT r.updated_at FROM dag_run r WHERE r.id = task_instance.dag_run_id AND r.state = 'running' AND r.next_eval_at IS NULL)",
		append(targets, &r.RunUpdated)
}

// eachInstance reads rows of a column set. from is the table, tail what follows
// it. Each row is read into the same place, which each must not keep.
func eachInstance(ctx context.Context, q queryer, set columnSet, from, tail string, args []any, each func(r *instanceRow)) error {
	var r instanceRow
	columns, targets := set(&r)
	rows, err := q.QueryContext(ctx, "SELECT "+columns+" FROM "+from+tail, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		r = instanceRow{}
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		each(&r)
	}
	return rows.Err()
}

// instances is eachInstance into a list.
func instances(ctx context.Context, q queryer, set columnSet, from, tail string, args ...any) ([]instanceRow, error) {
	var out []instanceRow
	err := eachInstance(ctx, q, set, from, tail, args, func(r *instanceRow) { out = append(out, *r) })
	return out, err
}
