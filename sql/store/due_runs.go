package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// passRow is the row of a run in a scheduling pass.
type passRow struct {
	runRow
	UpdatedAt  dialect.Time `db:"updated_at"`
	NextEvalAt dialect.Time `db:"next_eval_at"`
	ChangeLog  changeLog    `db:"change_log"`
}

const passColumns = runColumns + ", updated_at, next_eval_at, change_log"

// endedStates are the states that are an instance's end, see dag.State.Finished.
const endedStates = "('success', 'failed', 'skipped', 'upstream_failed', 'removed')"

// notPaused is the condition of a run whose DAG is not paused, or has no row. What
// counts is what the table says: a run that is remembered goes by it as one that is
// read, so that nobody has to be told of a pause.
const notPaused = "COALESCE((SELECT d.is_paused FROM dag d WHERE d.dag_id = dag_run.dag_id), 0) = 0"

// dueRun is the condition of a run that a pass looks at; its argument is the
// present. Runs of paused DAGs are passed over, but for those in which nothing is
// left to do: their end is told at once.
const dueRun = "next_eval_at <= ? AND state IN ('queued', 'running') AND (" + notPaused + ` OR state = 'running' AND NOT EXISTS
 (SELECT 1 FROM task_instance ti WHERE ti.dag_run_id = dag_run.id AND ti.state NOT IN ` + endedStates + `))`

// dueRuns locks the runs of a pass, those that are due for the longest time first.
func (t *tx) dueRuns(ctx context.Context, pass dag.SchedulePass) ([]*passRun, error) {
	if pass.OnlyRun != 0 {
		rows, err := t.passRows(ctx, " WHERE id = ? AND state IN ('queued', 'running')"+t.s.db.SkipLocked(), pass.OnlyRun)
		return passRuns(rows), err
	}
	if t.s.db.IsSQLite() {
		rows, err := t.passRows(ctx, t.force("k_eval")+" WHERE "+dueRun+" ORDER BY next_eval_at, id"+limit(pass.Limit, maxPass), t.at)
		return passRuns(rows), err
	}
	// Found without locks, as freeRuns says why; more than are wanted, for some may
	// be held by other passes. What a run was found by is asked again with its lock.
	n := cmp.Or(max(pass.Limit, 0), maxPass)
	var ids []int64
	if err := t.SelectContext(ctx, &ids, "SELECT id FROM dag_run"+t.force("k_eval")+" WHERE "+dueRun+" ORDER BY next_eval_at, id"+limit(4*n, 4*n), t.at); err != nil {
		return nil, err
	}
	var out []passRow
	for len(ids) > 0 && len(out) < n {
		part := ids[:min(n-len(out), len(ids))]
		ids = ids[len(part):]
		rows, err := t.passRows(ctx, t.force("PRIMARY")+" WHERE id IN ("+idList(part)+") AND "+dueRun+" ORDER BY id"+t.s.db.SkipLocked(), t.at)
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	slices.SortFunc(out, func(a, b passRow) int {
		return cmp.Or(a.NextEvalAt.Time.Compare(b.NextEvalAt.Time), cmp.Compare(a.ID, b.ID))
	})
	return passRuns(out), nil
}

// maxPass is how many runs a pass takes that says nothing of it.
const maxPass = 100

// passRows reads the rows of runs in a pass.
func (t *tx) passRows(ctx context.Context, tail string, args ...any) ([]passRow, error) {
	found, err := t.QueryContext(ctx, "SELECT "+passColumns+" FROM dag_run"+tail, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = found.Close() }()
	var r passRow
	targets := []any{
		&r.ID, &r.DagID, &r.RunID, &r.Type, &r.State, &r.LogicalDate, &r.DataIntervalStart, &r.DataIntervalEnd, &r.RunAfter, &r.QueuedAt, &r.StartDate,
		&r.EndDate, &r.Reason, &r.Conf, &r.TriggeredBy, &r.Note, &r.ClearNumber, &r.IsReplay, &r.VersionID, &r.UpdatedAt, &r.NextEvalAt, &r.ChangeLog,
	}
	var out []passRow
	for found.Next() {
		r = passRow{}
		if err := found.Scan(targets...); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, found.Err()
}

func passRuns(rows []passRow) []*passRun {
	out := make([]*passRun, len(rows))
	for i := range rows {
		out[i] = &passRun{run: rows[i].model(), seen: stamp{rows[i].UpdatedAt.Time, rows[i].NextEvalAt.Ptr()}, log: rows[i].ChangeLog}
	}
	return out
}
