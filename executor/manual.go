package executor

import (
	"context"
	"encoding/json"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/render"
	"github.com/airlock-dag/airlock/dag/timetable"
)

// ManualRunRequest asks for a run outside the schedule.
type ManualRunRequest struct {
	RunID       string // made when empty
	LogicalDate *time.Time
	Conf        json.RawMessage // JSON object, or nil
	TriggeredBy string          // cli, operator, test
	AskedBy     int64           // the task instance that asks for it, 0 for none
	Note        string
	Now         time.Time
	IDs         dag.IDSource // default dag.SystemIDs
}

// ManualRun builds a manual run of a DAG's present version. The conf is checked
// against the DAG's params. A logical date gives the run its data interval by
// the DAG's timetable; without one it has none, and ds and its kin are
// undefined, as in Airflow 3.
func ManualRun(ctx context.Context, cat CatalogStore, row dag.DAGRow, r ManualRunRequest) (dag.NewRun, error) {
	d, err := cat.Version(ctx, row.VersionID)
	if err != nil {
		return dag.NewRun{}, err
	}
	if _, err := render.MergeParams(d, nil, r.Conf); err != nil {
		return dag.NewRun{}, &dag.Error{Code: dag.ErrInvalid, Op: "trigger " + d.ID, Err: err}
	}
	if r.IDs == nil {
		r.IDs = dag.SystemIDs{}
	}
	run := dag.Run{
		DagID: d.ID, RunID: r.RunID, Type: dag.RunManual, State: dag.RunQueued, RunAfter: r.Now, QueuedAt: &r.Now,
		Conf: r.Conf, TriggeredBy: r.TriggeredBy, AskedBy: r.AskedBy, Note: r.Note, VersionID: row.VersionID,
	}
	if r.LogicalDate != nil {
		tt, err := timetable.ForDAG(d)
		if err != nil {
			return dag.NewRun{}, err
		}
		at := r.LogicalDate.UTC()
		start, end := tt.ManualInterval(at)
		run.LogicalDate, run.DataIntervalStart, run.DataIntervalEnd = &at, &start, &end
	}
	if run.RunID == "" {
		run.RunID = timetable.ManualRunID(run.LogicalDate, r.Now, r.IDs)
	}
	return dag.NewRun{Run: run, Instances: dag.NewInstances(d)}, nil
}
