package store_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/sqltest"
	"github.com/airlock-dag/airlock/sql/store"
)

// failing is a DAG that a failed run pauses, with running runs.
func failing(t *testing.T, s *store.Store, id string, runs int) {
	t.Helper()
	d := &dag.DAG{ID: id, MaxActiveRuns: runs, MaxActiveTasks: runs, Timezone: "UTC", MaxConsecutiveFailedDagRuns: 1}
	d.Tasks = []dag.Task{{
		ID: "a", Operator: "bash", Queue: dag.DefaultQueue, Pool: dag.DefaultPool, PoolSlots: 1, PriorityWeight: 1, WeightRule: "absolute", TriggerRule: dag.AllSuccess,
	}}
	ids, err := s.SyncDAGs(t.Context(), []dag.DAGUpdate{{DAG: d}})
	require.NoError(t, err)
	for r := range runs {
		_, err := s.CreateRuns(t.Context(), []dag.NewRun{{
			Run:       dag.Run{DagID: id, RunID: fmt.Sprint("r", r), Type: dag.RunManual, VersionID: ids[0], TriggeredBy: "test"},
			Instances: dag.NewInstances(d),
		}})
		require.NoError(t, err)
	}
	_, err = s.Schedule(t.Context(), dag.SchedulePass{Limit: 1000}, evaluate(s))
	require.NoError(t, err)
}

// fails ends a run as failed, whatever is in it.
func fails(*dag.RunSnapshot, time.Time) (dag.Decision, error) {
	return dag.Decision{State: dag.RunFailed, Reason: "it is the test's"}, nil
}

// A pass that pauses a DAG, because its runs failed, holds the DAG's row. It waits
// for no run of the DAG that another pass has, which will ask for that row; the run
// is woken all the same, so that who remembers it learns of the pause.
func TestAPauseInAPassWaitsForNoRun(t *testing.T) {
	t.Parallel()
	s := open(t, sqltest.Servers(t)[0].DSN)
	ctx := t.Context()
	failing(t, s, "d", 3)
	s.DB().Writer().MustExecContext(ctx, "UPDATE dag_run SET next_eval_at = NULL WHERE run_id = 'r2'")
	s.DB().Writer().MustExecContext(ctx, "UPDATE dag_run SET next_eval_at = UTC_TIMESTAMP(6) WHERE run_id <> 'r2'")

	other, err := s.DB().Writer().BeginTxx(ctx, nil)
	require.NoError(t, err)
	defer func() { _ = other.Rollback() }()
	var id int64
	require.NoError(t, other.GetContext(ctx, &id, "SELECT id FROM dag_run WHERE dag_id = 'd' AND run_id = 'r2' FOR UPDATE"))
	passed := make(chan error, 1)
	go func() {
		_, err := s.Schedule(ctx, dag.SchedulePass{}, fails)
		passed <- err
	}()
	require.Eventually(t, func() bool {
		var paused bool
		return s.DB().Reader().GetContext(ctx, &paused, "SELECT is_paused FROM dag WHERE dag_id = 'd'") == nil && paused
	}, time.Minute, 10*time.Millisecond, "the pause is committed while the other pass goes on")
	var name string
	require.NoError(t, other.GetContext(ctx, &name, "SELECT dag_id FROM dag WHERE dag_id = 'd' FOR UPDATE NOWAIT"), "the other pass waits for nobody")
	require.NoError(t, other.Commit())
	require.NoError(t, <-passed)
	var woken bool
	require.NoError(t, s.DB().Reader().GetContext(ctx, &woken, "SELECT next_eval_at IS NOT NULL FROM dag_run WHERE run_id = 'r2'"))
	require.True(t, woken)
}

// A pass that has a queued run when its DAG is paused may start it all the same, as it
// does one that is replayed. The run is woken after that: who began it goes by the pause.
func TestAPauseReachesARunThatIsBeingStarted(t *testing.T) {
	t.Parallel()
	s := open(t, sqltest.Servers(t)[0].DSN)
	ctx := t.Context()
	failing(t, s, "d", 2)
	s.DB().Writer().MustExecContext(ctx, "UPDATE dag_run SET next_eval_at = UTC_TIMESTAMP(6), state = 'queued', start_date = NULL WHERE run_id = 'r1'")
	s.DB().Writer().MustExecContext(ctx, "UPDATE dag_run SET next_eval_at = NULL WHERE run_id = 'r0'")

	pass, err := s.DB().Writer().BeginTxx(ctx, nil)
	require.NoError(t, err)
	defer func() { _ = pass.Rollback() }()
	var id int64
	require.NoError(t, pass.GetContext(ctx, &id, "SELECT id FROM dag_run WHERE dag_id = 'd' AND run_id = 'r1' FOR UPDATE"))
	paused := make(chan error, 1)
	go func() {
		_, err := s.SetPaused(ctx, "d", true)
		paused <- err
	}()
	require.Eventually(t, func() bool {
		var is bool
		return s.DB().Reader().GetContext(ctx, &is, "SELECT is_paused FROM dag WHERE dag_id = 'd'") == nil && is
	}, time.Minute, 10*time.Millisecond)
	pass.MustExecContext(ctx, "UPDATE dag_run SET state = 'running', start_date = UTC_TIMESTAMP(6), next_eval_at = NULL WHERE id = ?", id)
	require.NoError(t, pass.Commit())
	require.NoError(t, <-paused)
	var woken int
	require.NoError(t, s.DB().Reader().GetContext(ctx, &woken, "SELECT COUNT(*) FROM dag_run WHERE state = 'running' AND next_eval_at IS NOT NULL"))
	require.Equal(t, 2, woken)
}

// While three processes end runs that pause their DAG, and somebody lets it go on
// and pauses it too, no transaction is a deadlock and each run gets its end.
func TestPausesInPassesAreNoDeadlocks(t *testing.T) {
	t.Parallel()
	dsn := sqltest.Servers(t)[0].DSN
	const dags, runs = 3, 60
	s := open(t, dsn)
	for i := range dags {
		failing(t, s, fmt.Sprint("d", i), runs)
	}
	s.DB().Writer().MustExecContext(t.Context(), "UPDATE dag_run SET next_eval_at = UTC_TIMESTAMP(6)")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var mu sync.Mutex
	repeats := map[string]int{}
	var over atomic.Bool
	var passes, people sync.WaitGroup
	left := func() (n int) {
		require.NoError(t, s.DB().Reader().GetContext(ctx, &n, "SELECT COUNT(*) FROM dag_run WHERE state IN ('queued', 'running')"))
		return n
	}
	process := func() *store.Store {
		s, err := store.Open(t.Context(), dsn, store.Options{OnRepeat: func(cause string) {
			mu.Lock()
			defer mu.Unlock()
			repeats[cause]++
		}})
		require.NoError(t, err)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	for range 3 {
		p := process()
		passes.Go(func() {
			for !over.Load() && ctx.Err() == nil {
				if _, err := p.Schedule(ctx, dag.SchedulePass{Limit: 2}, fails); err != nil {
					t.Errorf("pass: %v", err)
					return
				}
			}
		})
	}
	p := process()
	people.Go(func() {
		for n := 0; ctx.Err() == nil && left() > 0; n++ {
			if _, err := p.SetPaused(ctx, fmt.Sprint("d", n%dags), n%4 == 3); err != nil {
				t.Errorf("person: %v", err)
				return
			}
		}
	})
	people.Wait()
	over.Store(true)
	passes.Wait()
	require.Zero(t, left())
	require.Zero(t, repeats["deadlock"], "%v", repeats)
}
