package executor

import (
	"context"
	"log/slog"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// followed tells of what the worker of this process decided beside its results,
// and looks itself where that left something to do, now or later.
func (s *Scheduler) followed(took time.Duration, report dag.ScheduleReport) {
	s.o.OnFollow(took, report)
	s.warn(report.NeverFit)
	for _, r := range report.Runs {
		s.tell(r)
	}
	if report.Left {
		s.o.Wake.Signal()
	}
}

// tell writes the one line that each change of a run gets, and wakes the outbox.
func (s *Scheduler) tell(r dag.ScheduledRun) {
	if len(r.Decision.Events) > 0 {
		s.o.OutboxWake.Signal()
	}
	if r.Decision.Reason == dag.ReasonTimedOut {
		s.o.LeaseWake.Signal()
	}
	for _, tr := range r.Decision.Transitions {
		level := slog.LevelDebug // what becomes ready says more when it runs
		if tr.To.Finished() {
			level = slog.LevelInfo
		}
		s.o.Log.Log(context.Background(), level, "task instance "+string(tr.To),
			"dag_id", r.Run.DagID, "run_id", r.Run.RunID, "task_id", tr.TaskID, "map_index", tr.MapIndex, "was", string(tr.From), "reason", tr.Reason)
	}
	if r.Err != nil || !r.Decision.State.Finished() { // a pass looks at live runs only: this one ended in it
		return
	}
	level := slog.LevelInfo
	if r.Decision.State == dag.RunFailed {
		level = slog.LevelError
	}
	s.o.Log.Log(context.Background(), level, "run "+string(r.Decision.State),
		"dag_id", r.Run.DagID, "run_id", r.Run.RunID, "reason", r.Decision.Reason)
}

// warn says which tasks will wait for ever as things are.
func (s *Scheduler) warn(list []dag.NeverFit) {
	for _, n := range list {
		why := "the task needs more slots than its pool has"
		if n.Missing {
			why = "the task waits for a pool that does not exist"
		}
		s.o.Warnings.Warn(why, "dag_id", n.DagID, "task_id", n.TaskID, "pool", n.Pool, "pool_slots", n.PoolSlots, "slots_of_pool", n.Slots,
			"hint", "airlock pools set "+n.Pool+" N")
	}
}
