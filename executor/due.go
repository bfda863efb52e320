package executor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/timetable"
)

// dueLimit is how many due DAGs one pass looks at, oldest first: more than a
// backlog of many DAGs, so that it does not hold up those that are on time.
// dueBatch is how many of them get a run in one transaction.
const (
	dueLimit = 5000
	dueBatch = 100
)

// Lead is how long before its time a run is made. To make one is to read the
// version and the last run of its DAG and to write a row for each task; at the due
// instant it then has only to start. Some thousands are made in two seconds, and
// what a person does in them (pausing the DAG, changing its file) takes back what
// was made, so that a longer lead would gain nothing.
const Lead = 2 * time.Second

// createDueRuns makes the runs that are due, now or shortly, one a DAG and pass.
// It tells how many DAGs moved on: a run that was there already counts too.
// Between two batches what is due is set going, so that the first of many DAGs
// that are due in the same second do not wait for the last.
func (s *Scheduler) createDueRuns(ctx context.Context, now time.Time) (int, error) {
	rows, err := s.o.Store.DueDAGs(ctx, now.Add(Lead), dueLimit)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	moved := 0
	for part := range slices.Chunk(rows, dueBatch) {
		if moved > 0 {
			if _, err := s.advance(ctx); err != nil {
				return moved, err
			}
		}
		n, err := s.createBatch(ctx, part, now)
		if moved += n; err != nil {
			return moved, err
		}
	}
	return moved, nil
}

// createBatch makes the runs of some due DAGs in one transaction.
func (s *Scheduler) createBatch(ctx context.Context, rows []dag.DAGRow, now time.Time) (int, error) {
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.DagID
	}
	latest, err := s.o.Store.LatestScheduledRuns(ctx, ids)
	if err != nil {
		return 0, err
	}
	var runs []dag.NewRun
	for _, row := range rows {
		var last *dag.PlannedRun
		if run, found := latest[row.DagID]; found {
			last = run.Planned()
		}
		nr, err := s.planRun(ctx, row, last, now)
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
	moved := 0
	for _, m := range made {
		switch {
		case m.Overtaken:
			continue
		case m.Existed:
			s.o.Log.Info("run was there already", "dag_id", m.Run.DagID, "run_id", m.Run.RunID)
		default:
			s.o.Log.Info("run created", "dag_id", m.Run.DagID, "run_id", m.Run.RunID)
			s.dueIn(m.Run.RunAfter.Sub(now))
		}
		moved++
	}
	return moved, err
}

// dueIn remembers when a run may start that was made ahead.
func (s *Scheduler) dueIn(d time.Duration) {
	at := s.o.Clock.Now().Add(d)
	known := func(other time.Time) bool { return at.Sub(other).Abs() < time.Millisecond }
	if d > 0 && !slices.ContainsFunc(s.due, known) {
		s.due = append(s.due, at)
	}
}

// untilDue is how long the scheduler may let be what it knows of: d, or less when
// a run that it made ahead may start before that.
func (s *Scheduler) untilDue(d time.Duration) time.Duration {
	now := s.o.Clock.Now()
	s.due = slices.DeleteFunc(s.due, func(at time.Time) bool { return !at.After(now) || at.Sub(now) > 2*Lead }) // over, or the clock was set
	for _, at := range s.due {
		d = min(d, at.Sub(now))
	}
	return d
}

// planRun decides what is made of a due DAG: nil when its limit leaves no room.
func (s *Scheduler) planRun(ctx context.Context, row dag.DAGRow, last *dag.PlannedRun, now time.Time) (*dag.NewRun, error) {
	d, err := s.o.Catalog.Version(ctx, row.VersionID)
	if err != nil {
		return nil, err
	}
	if row.Next == nil || row.ActiveRuns >= d.MaxActiveRuns {
		return nil, nil
	}
	tt, err := s.timetable(row.VersionID, d)
	if err != nil {
		return nil, err
	}
	restriction := timetable.RestrictionFor(d)
	plan := tt.Planned(row.Next, last, restriction, now)
	if plan == nil || plan.RunAfter.After(now.Add(Lead)) { // nothing is due any more: the row's plan was old
		return nil, s.o.Store.ReplacePlan(ctx, row, plan)
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

// timetable is the timetable of a version, made once: reading a cron text costs
// more than finding its next tick.
func (s *Scheduler) timetable(versionID int64, d *dag.DAG) (*timetable.Timetable, error) {
	if tt, ok := s.timetables.get(versionID, s.o.Clock.Now()); ok {
		return tt, nil
	}
	tt, err := timetable.ForDAG(d)
	if err != nil {
		return nil, err
	}
	s.timetables.put(versionID, tt)
	return tt, nil
}

// lastPlanned is the interval of the newest run that the schedule made, nil
// without one.
func lastPlanned(ctx context.Context, store SchedulerStore, dagID string) (*dag.PlannedRun, error) {
	run, err := store.LatestScheduledRun(ctx, dagID)
	if err != nil {
		return nil, fmt.Errorf("the latest run of %s: %w", dagID, err)
	}
	return run.Planned(), nil
}
