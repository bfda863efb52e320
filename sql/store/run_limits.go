package store

import (
	"context"
	"slices"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// maxBackfillRuns is how many backfill runs of one DAG run at once. They have a
// count of their own.
const maxBackfillRuns = 10

// startRuns lets queued runs of a pass become running: those that are due, as
// far as max_active_runs leaves room. The DAGs' rows are locked, so that two
// schedulers do not fill the same room, and so that the end of a run is seen
// either by the count here or by the wake-up there.
func (t *tx) startRuns(ctx context.Context, runs []*passRun, anyway bool) error {
	var queued []*passRun
	for _, r := range runs {
		if r.run.State != dag.RunQueued {
			continue
		}
		if !anyway && r.run.RunAfter.After(t.now) {
			at := r.run.RunAfter
			r.wait, r.look = true, &at
			continue
		}
		queued = append(queued, r)
	}
	if len(queued) == 0 {
		return nil
	}
	slices.SortFunc(queued, func(a, b *passRun) int {
		if c := a.run.RunAfter.Compare(b.run.RunAfter); c != 0 {
			return c
		}
		return int(a.run.ID - b.run.ID)
	})
	room, err := t.lockRoom(ctx, queued)
	if err != nil {
		return err
	}
	for _, r := range queued {
		k := runKind{r.run.DagID, r.run.Type == dag.RunBackfill}
		if !anyway && room[k] <= 0 {
			r.wait = true // until a run of this DAG ends
			continue
		}
		room[k]--
		at := t.now
		r.started = true
		r.run.State, r.run.StartDate = dag.RunRunning, &at
	}
	return nil
}

type runKind struct {
	dag      string
	backfill bool
}

// lockRoom locks the DAGs of some runs and tells how many more may run.
func (t *tx) lockRoom(ctx context.Context, runs []*passRun) (map[runKind]int, error) {
	var ids []string
	for _, r := range runs {
		ids = append(ids, r.run.DagID)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	var dags []struct {
		ID  string `db:"dag_id"`
		Max int    `db:"max_active_runs"`
	}
	err := t.SelectContext(ctx, &dags, "SELECT dag_id, max_active_runs FROM dag WHERE dag_id IN ("+dialect.Marks(len(ids))+") ORDER BY dag_id"+
		t.s.db.ForUpdate(), anys(ids)...)
	if err != nil {
		return nil, err
	}
	room := map[runKind]int{}
	for _, id := range ids {
		// A run whose DAG has no row (a test run) is limited by nothing.
		room[runKind{id, false}], room[runKind{id, true}] = 1<<30, maxBackfillRuns
	}
	for _, d := range dags {
		room[runKind{d.ID, false}] = d.Max
	}
	var running []struct {
		Dag      string `db:"dag_id"`
		Backfill bool   `db:"backfill"`
		N        int    `db:"n"`
	}
	err = t.SelectContext(ctx, &running, `SELECT dag_id, run_type = 'backfill' AS backfill, COUNT(*) AS n FROM dag_run
 WHERE state = 'running' AND dag_id IN (`+dialect.Marks(len(ids))+") GROUP BY dag_id, run_type = 'backfill'", anys(ids)...)
	if err != nil {
		return nil, err
	}
	for _, r := range running {
		room[runKind{r.Dag, r.Backfill}] -= r.N
	}
	return room, nil
}

// afterEnd does what the end of runs brings: queued runs of the DAG may start,
// runs that look back may go on, and a DAG whose last runs all failed is paused
// if it asks for that.
func (t *tx) afterEnd(ctx context.Context, ended []*passRun) error {
	byDag := map[string][]*passRun{}
	var ids []string
	for _, r := range ended {
		if byDag[r.run.DagID] == nil {
			ids = append(ids, r.run.DagID)
		}
		byDag[r.run.DagID] = append(byDag[r.run.DagID], r)
	}
	slices.Sort(ids)
	for _, id := range ids {
		// Locked before the look, for the reason that startRuns gives.
		var locked []string
		if err := t.SelectContext(ctx, &locked, "SELECT dag_id FROM dag WHERE dag_id = ?"+t.s.db.ForUpdate(), id); err != nil {
			return err
		}
		last := byDag[id][len(byDag[id])-1]
		which, n := "state = 'queued' AND next_eval_at IS NULL", len(byDag[id])
		if looksBack(last.def) {
			which, n = "state IN ('queued', 'running')", -1
		}
		var next []int64
		if err := t.SelectContext(ctx, &next, "SELECT id FROM dag_run WHERE dag_id = ? AND "+which+" ORDER BY run_after, id"+limit(n, 1)+
			t.s.db.SkipLocked(), id); err != nil {
			return err
		}
		slices.Sort(next)
		if err := t.wakeRuns(ctx, next); err != nil {
			return err
		}
		if err := t.pauseAfterFailures(ctx, last); err != nil {
			return err
		}
	}
	return nil
}

// pauseAfterFailures pauses a DAG whose newest runs, as many as its
// max_consecutive_failed_dag_runs says, all failed.
func (t *tx) pauseAfterFailures(ctx context.Context, r *passRun) error {
	if r.def == nil || r.def.MaxConsecutiveFailedDagRuns <= 0 || r.run.State != dag.RunFailed {
		return nil
	}
	n := r.def.MaxConsecutiveFailedDagRuns
	var states []string
	if err := t.SelectContext(ctx, &states, "SELECT state FROM dag_run WHERE dag_id = ? AND state IN ('success', 'failed') ORDER BY run_after DESC, id DESC"+
		limit(n, n), r.run.DagID); err != nil {
		return err
	}
	if len(states) < n || slices.Contains(states, string(dag.RunSuccess)) {
		return nil
	}
	if err := t.setPaused(ctx, r.run.DagID, true); err != nil {
		return err
	}
	return t.audit(ctx, dag.AuditEntry{
		Actor: "scheduler", Action: "pause", Subject: r.run.DagID,
		Detail: mustJSON(map[string]any{"reason": "max_consecutive_failed_dag_runs", "failed_runs": n}),
	})
}
