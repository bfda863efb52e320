package executor

import (
	"context"
	"fmt"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/crashpoint"
	"github.com/airlock-dag/airlock/executor/fault"
)

// reapBatch is how many ended leases are dealt with in one go.
const reapBatch = 100

// reap speaks for workers that are gone: each instance whose lease ended gets a
// crash, which is tried again or sealed by the task's crash budget. A worker
// that is late after all finds its fence stale.
func (s *Scheduler) reap(ctx context.Context) (int, error) {
	claims, err := s.o.Store.Expired(ctx, reapBatch)
	if err != nil || len(claims) == 0 {
		return 0, err
	}
	now, err := s.o.Store.Now(ctx)
	if err != nil {
		return 0, err
	}
	results := make([]dag.Result, 0, len(claims))
	for _, c := range claims {
		if s.o.OnlyRun != 0 && c.Run.ID != s.o.OnlyRun {
			continue
		}
		in := Ending{
			Claim: c, End: now, Start: now, WorkerID: c.WorkerID, Hostname: c.Hostname, Reaped: true,
			LogPath: LogPath(c.TaskInstanceKey, c.TryNumber),
			Outcome: dag.Failed(fault.New(fault.CodeWorkerLost,
				fmt.Sprintf("worker %s on %s was lost: its lease ended without a renewal", c.WorkerID, c.Hostname))),
		}
		if c.StartDate != nil {
			in.Start = *c.StartDate
		}
		d, err := s.o.Catalog.Version(ctx, c.VersionID)
		switch {
		case err == nil:
			in.DAG, in.Task = d, d.Task(c.TaskID)
		case dag.CodeOf(err) != dag.ErrNotFound:
			// Without the version neither the budget nor the callbacks are known: it
			// waits until both are.
			return 0, err
		}
		results = append(results, Decide(in, s.o.Rand))
	}
	if s.stalled(s.o.Clock.Now()) {
		return 0, nil // what was listed may be old: the living renew first
	}
	crashpoint.Point("reaper: before it takes leases over")
	status, err := s.o.Results.Apply(ctx, results)
	if err != nil {
		return 0, err
	}
	crashpoint.Point("reaper: has taken leases over")
	n := 0
	for i, st := range status {
		if st != dag.Applied {
			continue
		}
		n++
		s.o.OnEnd(claims[i], results[i])
		s.o.OutboxWake.Signal()
		s.o.Log.Warn("lost worker: task instance "+string(results[i].State), "task_instance", claims[i].String(),
			"fence", claims[i].Fence, "worker", claims[i].WorkerID, "crashes", claims[i].CrashCount+1)
	}
	return n, nil
}
