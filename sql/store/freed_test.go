package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/sqltest"
	"github.com/airlock-dag/airlock/sql/store"
)

// oneSlot makes a run of each of two DAGs of one task, whose pool has one slot, and
// gives it to the first.
func oneSlot(t *testing.T, s *store.Store) dag.Claim {
	t.Helper()
	ctx := t.Context()
	require.NoError(t, s.SetPool(ctx, dag.Pool{Name: "one", Slots: 1}))
	p := dag.ClaimParams{WorkerID: "w", N: 4, Lease: time.Minute}
	var held []dag.Claim
	for _, id := range []string{"first", "second"} {
		d := &dag.DAG{ID: id, MaxActiveRuns: 1, MaxActiveTasks: 4, Timezone: "UTC", Tasks: []dag.Task{{
			ID: "task", Operator: "bash", Queue: dag.DefaultQueue, Pool: "one", PoolSlots: 1, PriorityWeight: 1, WeightRule: "absolute", TriggerRule: dag.AllSuccess,
		}}}
		versions, err := s.SyncDAGs(ctx, []dag.DAGUpdate{{DAG: d}})
		require.NoError(t, err)
		_, err = s.CreateRuns(ctx, []dag.NewRun{{
			Run: dag.Run{DagID: id, RunID: "r", Type: dag.RunManual, VersionID: versions[0], TriggeredBy: "test"}, Instances: dag.NewInstances(d),
		}})
		require.NoError(t, err)
		if id == "first" {
			claims, _, err := s.ScheduleAndClaim(ctx, dag.SchedulePass{Limit: 10}, p, evaluate(s))
			require.NoError(t, err)
			held = claims
		}
	}
	require.Len(t, held, 1)
	return held[0]
}

// A pass of another process finds the pool's only slot taken while the result that
// frees it is being committed, and leaves the next task waiting. Whichever commits
// first, the worker that frees the slot gets that task, and nobody has to look again.
func TestAFreedSlotIsGivenAtOnce(t *testing.T) {
	t.Parallel()
	t.Run("the pass ends first", func(t *testing.T) {
		t.Parallel()
		dsn := sqltest.Servers(t)[0].DSN
		worker, scheduler := open(t, dsn), open(t, dsn)
		held := oneSlot(t, worker)
		decide := func(snap *dag.RunSnapshot, now time.Time) (dag.Decision, error) {
			if snap.Run.DagID == "first" { // its result is written and not committed
				report, err := scheduler.Schedule(context.Background(), dag.SchedulePass{Limit: 10}, evaluate(scheduler))
				require.NoError(t, err)
				require.Zero(t, report.Queued, "the slot is taken")
				require.Len(t, report.Runs, 1)
			}
			return evaluate(worker)(snap, now)
		}
		_, claims, report, err := worker.ExchangeAndSchedule(t.Context(), []dag.Result{success(held, time.Now().UTC())},
			dag.ClaimParams{WorkerID: "w", N: 4, Lease: time.Minute}, decide)
		require.NoError(t, err)
		require.Equal(t, 1, report.Queued)
		require.Len(t, claims, 1)
		require.Equal(t, "second", claims[0].DagID)
		require.Equal(t, "second", claims[0].Run.DagID)
	})
	t.Run("the result is committed first", func(t *testing.T) {
		t.Parallel()
		dsn := sqltest.Servers(t)[0].DSN
		worker, scheduler := open(t, dsn), open(t, dsn)
		held := oneSlot(t, worker)
		ctx := t.Context()
		_, err := scheduler.Schedule(ctx, dag.SchedulePass{Limit: 10}, evaluate(scheduler))
		require.NoError(t, err)
		// The same pass once more, by hand: it has the lock of the pools and has counted.
		_, err = scheduler.DB().Writer().ExecContext(ctx, "UPDATE task_instance SET state = 'none' WHERE state = 'scheduled'")
		require.NoError(t, err)
		pass, err := scheduler.DB().Writer().BeginTxx(ctx, nil)
		require.NoError(t, err)
		defer func() { _ = pass.Rollback() }()
		var pools []string
		require.NoError(t, pass.SelectContext(ctx, &pools, "SELECT name FROM pool ORDER BY name FOR UPDATE"))
		var used int
		require.NoError(t, pass.GetContext(ctx, &used, "SELECT COUNT(*) FROM task_instance WHERE state = 'running'"))
		require.Equal(t, 1, used)

		type answer struct {
			claims []dag.Claim
			err    error
		}
		done := make(chan answer, 1)
		go func() {
			_, claims, _, err := worker.ExchangeAndSchedule(ctx, []dag.Result{success(held, time.Now().UTC())},
				dag.ClaimParams{WorkerID: "w", N: 4, Lease: time.Minute}, evaluate(worker))
			done <- answer{claims, err}
		}()
		require.Eventually(t, func() bool {
			var n int
			err := scheduler.DB().Reader().GetContext(ctx, &n, "SELECT COUNT(*) FROM task_instance WHERE state = 'success'")
			return err == nil && n == 1
		}, time.Minute, 10*time.Millisecond, "the result waits for no pass")
		_, err = pass.ExecContext(ctx, "UPDATE task_instance SET state = 'scheduled' WHERE state = 'none'")
		require.NoError(t, err)
		require.NoError(t, pass.Commit())
		got := <-done
		require.NoError(t, got.err)
		require.Len(t, got.claims, 1)
		require.Equal(t, "second", got.claims[0].DagID)
	})
}
