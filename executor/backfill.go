package executor

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/render"
	"github.com/airlock-dag/airlock/dag/timetable"
)

// MaxBackfill is the greatest number of dates of one backfill: all its runs are
// made in one transaction.
const MaxBackfill = 10_000

// PlanBackfill lists the runs of a backfill in the order in which they are to
// run: one for each tick or interval of the DAG's timetable from b.From to b.To,
// both counted. An interval that has not ended at now is left out. The DAG's own
// start and end dates do not matter: who backfills has chosen the dates.
func PlanBackfill(d *dag.DAG, versionID int64, b dag.Backfill, now time.Time) ([]dag.NewRun, error) {
	refuse := func(hint, format string, args ...any) ([]dag.NewRun, error) {
		return nil, &dag.Error{Code: dag.ErrInvalid, Op: "backfill " + d.ID, Err: fmt.Errorf(format, args...), Hint: hint}
	}
	switch d.Schedule.Kind {
	case dag.ScheduleNone, dag.ScheduleOnce, dag.ScheduleContinuous:
		return refuse("start its runs with `airlock dags trigger`", "its schedule %q has no dates to go through", d.Schedule.Text)
	default: // the others have dates
	}
	switch {
	case b.From.After(b.To):
		return refuse("give the earlier date as --from-date", "it begins at %s, after its end %s", b.From.Format(time.RFC3339), b.To.Format(time.RFC3339))
	case b.To.After(now):
		return refuse("end in the past", "it ends at %s, which is still to come", b.To.Format(time.RFC3339))
	case b.MaxActiveRuns < 1:
		return refuse("give --max-active-runs 1 or more", "it may have %d runs at once", b.MaxActiveRuns)
	case !slices.Contains([]dag.ReprocessBehavior{dag.ReprocessNone, dag.ReprocessFailed, dag.ReprocessCompleted}, b.Reprocess):
		return refuse("use none, failed or completed", "%q is no reprocess behavior", b.Reprocess)
	}
	if i := slices.IndexFunc(d.Tasks, func(t dag.Task) bool { return t.DependsOnPast || t.WaitForDownstream }); b.RunBackwards && i >= 0 {
		return refuse("leave --run-backwards out", "task %s depends on the run before it, which would come later", d.Tasks[i].ID)
	}
	if _, err := render.MergeParams(d, nil, b.Conf); err != nil {
		return nil, &dag.Error{Code: dag.ErrInvalid, Op: "backfill " + d.ID, Err: err}
	}
	plans, err := backfillDates(d, b, now)
	if err != nil {
		return nil, err
	}
	if b.RunBackwards {
		slices.Reverse(plans)
	}
	runs := make([]dag.NewRun, len(plans))
	for i, p := range plans {
		runs[i] = backfillRun(d, versionID, p, b.Conf)
	}
	return runs, nil
}

func backfillDates(d *dag.DAG, b dag.Backfill, now time.Time) ([]dag.PlannedRun, error) {
	tt, err := timetable.ForDAG(d)
	if err != nil {
		return nil, err
	}
	restriction := timetable.Restriction{Earliest: &b.From, Latest: &b.To, Catchup: true}
	var plans []dag.PlannedRun
	for p := tt.Next(nil, restriction, now); p != nil && !p.RunAfter.After(now); p = tt.Next(p, restriction, now) {
		if len(plans) == MaxBackfill {
			return nil, &dag.Error{
				Code: dag.ErrInvalid, Op: "backfill " + d.ID, Err: fmt.Errorf("it has more than %d dates", MaxBackfill),
				Hint: "split it: the next part may begin after " + plans[MaxBackfill-1].LogicalDate.Format(time.RFC3339),
			}
		}
		plans = append(plans, *p)
	}
	if len(plans) == 0 {
		return nil, &dag.Error{
			Code: dag.ErrInvalid, Op: "backfill " + d.ID, Err: errors.New("its schedule has no date in this range that is over"),
			Hint: "`airlock dags show " + d.ID + "` shows the schedule",
		}
	}
	return plans, nil
}

func backfillRun(d *dag.DAG, versionID int64, p dag.PlannedRun, conf json.RawMessage) dag.NewRun {
	instances := dag.NewInstances(d)
	for i := range instances {
		instances[i].PriorityWeight -= dag.BackfillPriority
	}
	return dag.NewRun{
		Run: dag.Run{
			DagID: d.ID, RunID: timetable.RunID(dag.RunBackfill, p), Type: dag.RunBackfill, State: dag.RunQueued,
			LogicalDate: &p.LogicalDate, DataIntervalStart: &p.DataIntervalStart, DataIntervalEnd: &p.DataIntervalEnd,
			RunAfter: p.RunAfter, Conf: conf, TriggeredBy: "backfill", VersionID: versionID,
		},
		Instances: instances,
	}
}
