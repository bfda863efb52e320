package store

import (
	"context"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// loadPast fills in what depends_on_past and wait_for_downstream look at, for
// DAGs that have tasks with them.
func (t *tx) loadPast(ctx context.Context, r *passRun) error {
	if r.wait || r.err != nil || !looksBack(r.def) {
		return nil //nolint:nilerr // the run keeps its own error
	}
	r.past = &dag.PastRun{States: map[string][]dag.State{}, RanBefore: map[string]bool{}}
	if r.run.LogicalDate == nil {
		return nil
	}
	if first, err := t.firstOfBackfill(ctx, &r.run); err != nil || first {
		return err
	}
	// With catchup the previous run is the last one that a schedule or backfill
	// made; without it is the last by date.
	query := "SELECT " + runColumns + " FROM dag_run WHERE dag_id = ? AND logical_date < ?"
	if r.def.Catchup {
		query += " AND run_type <> 'manual'"
	}
	var rows []runRow
	if err := t.SelectContext(ctx, &rows, query+" ORDER BY logical_date DESC LIMIT 1", r.run.DagID, dialect.Stamp(*r.run.LogicalDate)); err != nil {
		return err
	}
	if len(rows) == 0 {
		return nil
	}
	r.past.Exists = true
	r.past.LogicalDate = rows[0].LogicalDate.Ptr()
	var states []struct {
		Task  string `db:"task_id"`
		State string `db:"state"`
	}
	if err := t.SelectContext(ctx, &states, "SELECT task_id, state FROM task_instance WHERE dag_run_id = ? ORDER BY task_id, map_index",
		rows[0].ID); err != nil {
		return err
	}
	for _, st := range states {
		r.past.States[st.Task] = append(r.past.States[st.Task], dag.State(st.State))
	}
	return t.loadRanBefore(ctx, r)
}

// loadRanBefore asks, for tasks that the previous run does not have, whether
// they ever ran. That is rare: a task was added to the DAG.
func (t *tx) loadRanBefore(ctx context.Context, r *passRun) error {
	var missing condition
	var tasks []string
	for i := range r.def.Tasks {
		task := &r.def.Tasks[i]
		if (task.DependsOnPast || task.WaitForDownstream) && len(r.past.States[task.ID]) == 0 {
			tasks = append(tasks, task.ID)
		}
	}
	if len(tasks) == 0 {
		return nil
	}
	missing.add("dag_run_id IN (SELECT id FROM dag_run WHERE dag_id = ?)", r.run.DagID)
	missing.in("task_id", anys(tasks))
	missing.add("try_number > 0")
	var ran []string
	if err := t.SelectContext(ctx, &ran, "SELECT DISTINCT task_id FROM task_instance"+missing.where(), missing.args...); err != nil {
		return err
	}
	for _, task := range ran {
		r.past.RanBefore[task] = true
	}
	return nil
}

func looksBack(d *dag.DAG) bool {
	if d == nil {
		return false
	}
	for i := range d.Tasks {
		if d.Tasks[i].DependsOnPast || d.Tasks[i].WaitForDownstream {
			return true
		}
	}
	return false
}
