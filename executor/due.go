package executor

import (
	"context"
	"fmt"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/timetable"
)

// dueBatch is how many DAGs get a run in one transaction.
const dueBatch = 100

// createDueRuns makes the runs that are due now, one a DAG and pass.
func (s *Scheduler) createDueRuns(ctx context.Context) (int, error) {
	rows, err := s.o.Store.DueDAGs(ctx, dueBatch)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	now, err := s.o.Store.Now(ctx)
	if err != nil {
		return 0, err
	}
	var runs []dag.NewRun
	for _, row := range rows {
		nr, err := s.planRun(ctx, row, now)
		if err != nil {
			s.o.Log.Error("the next run cannot be planned", "dag_id", row.DagID, "error", err)
			continue
		}
		if nr != nil {
			runs = append(runs, *nr)
		}
	}
	if len(runs) == 0 {
		return 0, nil
	}
	made, err := s.o.Store.CreateRuns(ctx, runs)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, m := range made {
		if m.Overtaken || m.Existed {
			continue
		}
		n++
		s.o.Log.Info("run created", "dag_id", m.Run.DagID, "run_id", m.Run.RunID)
	}
	return n, nil
}

// planRun decides what is made of a due DAG: nil when its limit leaves no room.
// The plan in the row may be old (the DAG was paused, or nobody ran for days),
// so it is made again: with catchup it is the same, without it is the latest.
func (s *Scheduler) planRun(ctx context.Context, row dag.DAGRow, now time.Time) (*dag.NewRun, error) {
	d, err := s.o.Catalog.Version(ctx, row.VersionID)
	if err != nil {
		return nil, err
	}
	if row.Next == nil || row.ActiveRuns >= d.MaxActiveRuns {
		return nil, nil
	}
	tt, err := timetable.ForDAG(d)
	if err != nil {
		return nil, err
	}
	restriction := timetable.RestrictionFor(d)
	last, err := lastPlanned(ctx, s.o.Store, d.ID)
	if err != nil {
		return nil, err
	}
	plan := tt.Next(last, restriction, now)
	if plan == nil || plan.RunAfter.After(now) { // nothing is due any more: the row's plan was old
		return nil, s.o.Store.SetNextRun(ctx, d.ID, plan)
	}
	run := dag.Run{
		DagID: d.ID, RunID: timetable.RunID(dag.RunScheduled, *plan), Type: dag.RunScheduled, State: dag.RunQueued,
		LogicalDate: &plan.LogicalDate, DataIntervalStart: &plan.DataIntervalStart, DataIntervalEnd: &plan.DataIntervalEnd,
		RunAfter: plan.RunAfter, QueuedAt: &now, TriggeredBy: "timetable", VersionID: row.VersionID,
	}
	return &dag.NewRun{
		Run: run, Instances: dag.NewInstances(d),
		AdvanceNext: true, Next: tt.Next(plan, restriction, now), PlannedFor: row.Next.RunAfter,
	}, nil
}

// lastPlanned is the interval of the newest automatic run, nil without one.
func lastPlanned(ctx context.Context, store SchedulerStore, dagID string) (*dag.PlannedRun, error) {
	run, err := store.LatestScheduledRun(ctx, dagID)
	if err != nil {
		return nil, fmt.Errorf("the latest run of %s: %w", dagID, err)
	}
	if run == nil || run.LogicalDate == nil {
		return nil, nil
	}
	p := &dag.PlannedRun{LogicalDate: *run.LogicalDate, DataIntervalStart: *run.LogicalDate, DataIntervalEnd: *run.LogicalDate, RunAfter: run.RunAfter}
	if run.DataIntervalStart != nil && run.DataIntervalEnd != nil {
		p.DataIntervalStart, p.DataIntervalEnd = *run.DataIntervalStart, *run.DataIntervalEnd
	}
	return p, nil
}
