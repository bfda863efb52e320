package executor

import (
	"context"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/operator"
)

// externalStates looks at the run of another DAG for a task that waits for it.
func (w *Worker) externalStates(ctx context.Context, q operator.ExternalQuery) (operator.ExternalStates, error) {
	var out operator.ExternalStates
	run, err := w.o.Store.ExternalRun(ctx, q.DagID, q.LogicalDate)
	if err != nil {
		return out, err
	}
	def, err := w.externalDAG(ctx, q.DagID, run)
	if err != nil {
		return out, err
	}
	if def == nil {
		out.NoDAG = true
		return out, nil
	}
	out.TaskIDs, out.Unknown = externalTasks(def, q)
	if run == nil {
		newest, err := w.o.Store.Runs(ctx, dag.RunFilter{DagID: q.DagID, Types: []dag.RunType{dag.RunScheduled}, Limit: 1})
		if err == nil && len(newest) > 0 && newest[0].LogicalDate != nil && newest[0].LogicalDate.After(q.LogicalDate) {
			out.Newest = *newest[0].LogicalDate
		}
		return out, err
	}
	out.Run = run.Run.State
	out.Tasks = map[string]map[dag.State]int{}
	for _, id := range out.TaskIDs {
		if states, found := run.States[id]; found {
			out.Tasks[id] = states
		}
	}
	return out, nil
}

// externalDAG is the version that the run has, or the present one where there
// is no run; nil when there is no such DAG.
func (w *Worker) externalDAG(ctx context.Context, dagID string, run *dag.ExternalRun) (*dag.DAG, error) {
	if run != nil {
		return w.o.Store.Version(ctx, run.Run.VersionID)
	}
	catalog, ok := w.o.Store.(CatalogStore)
	if !ok {
		return nil, nil
	}
	rows, err := catalog.DAGRows(ctx, dag.DAGFilter{IDs: []string{dagID}})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return w.o.Store.Version(ctx, rows[0].VersionID)
}

// externalTasks lists the tasks that a query means, and what of it the DAG does
// not have.
func externalTasks(d *dag.DAG, q operator.ExternalQuery) (ids, unknown []string) {
	for _, id := range q.TaskIDs {
		if d.Task(id) == nil {
			unknown = append(unknown, id)
		}
		ids = append(ids, id)
	}
	if q.GroupID == "" {
		return ids, unknown
	}
	inGroup := dag.TasksOfGroup(d, q.GroupID)
	if inGroup == nil {
		unknown = append(unknown, q.GroupID)
	}
	return append(ids, inGroup...), unknown
}
