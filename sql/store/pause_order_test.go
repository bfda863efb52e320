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

// failing is a DAG that a failed run pauses, with running runs: a task a, and more
// below each other.
func failing(t *testing.T, s *store.Store, id string, runs int, below ...string) {
	t.Helper()
	d := &dag.DAG{ID: id, MaxActiveRuns: runs, MaxActiveTasks: runs, Timezone: "UTC", MaxConsecutiveFailedDagRuns: 1}
	var last []string
	for _, task := range append([]string{"a"}, below...) {
		d.Tasks = append(d.Tasks, dag.Task{
			ID: task, Upstream: last, Operator: "bash", Queue: dag.DefaultQueue, Pool: dag.DefaultPool, PoolSlots: 1, PriorityWeight: 1, WeightRule: "absolute",
			TriggerRule: dag.AllSuccess,
		})
		last = []string{task}
	}
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
// for no run of the DAG that another pass has, which will ask for that row.
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
	_, err = s.Schedule(ctx, dag.SchedulePass{}, fails)
	require.NoError(t, err)
	var paused bool
	require.NoError(t, other.GetContext(ctx, &paused, "SELECT is_paused FROM dag WHERE dag_id = 'd' FOR UPDATE NOWAIT"))
	require.True(t, paused, "while the other pass goes on")
}

// A pass that has a queued run when its DAG is being paused waits for the DAG's row,
// reads there that it is paused, and starts nothing.
func TestAPassThatWaitsForAPauseGoesByIt(t *testing.T) {
	t.Parallel()
	s := open(t, sqltest.Servers(t)[0].DSN)
	ctx := t.Context()
	failing(t, s, "d", 1)
	s.DB().Writer().MustExecContext(ctx, "UPDATE dag_run SET next_eval_at = UTC_TIMESTAMP(6), state = 'queued', start_date = NULL")
	s.DB().Writer().MustExecContext(ctx, "UPDATE task_instance SET state = 'none'")

	pause, err := s.DB().Writer().BeginTxx(ctx, nil)
	require.NoError(t, err)
	defer func() { _ = pause.Rollback() }()
	pause.MustExecContext(ctx, "UPDATE dag SET is_paused = 1")
	passed := make(chan error, 1)
	go func() {
		_, err := s.Schedule(ctx, dag.SchedulePass{}, evaluate(s))
		passed <- err
	}()
	require.Eventually(t, func() bool {
		var free []int64
		return s.DB().Reader().SelectContext(ctx, &free, "SELECT id FROM dag_run FOR UPDATE SKIP LOCKED") == nil && len(free) == 0
	}, time.Minute, 10*time.Millisecond, "the pass has the run")
	require.NoError(t, pause.Commit())
	require.NoError(t, <-passed)
	state := func() (state string) {
		require.NoError(t, s.DB().Reader().GetContext(ctx, &state, "SELECT state FROM dag_run"))
		return state
	}
	require.Equal(t, "queued", state())
	_, err = s.SetPaused(ctx, "d", false)
	require.NoError(t, err)
	_, err = s.Schedule(ctx, dag.SchedulePass{}, evaluate(s))
	require.NoError(t, err)
	require.Equal(t, "running", state())
}

// What looks whether a DAG is paused, for a run that it reads or that it remembers,
// waits for nobody who holds the DAG's row.
func TestAskingForAPauseWaitsForNobody(t *testing.T) {
	t.Parallel()
	s := open(t, sqltest.Servers(t)[0].DSN)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	failing(t, s, "d", 1, "b", "c", "e")
	other, err := s.DB().Writer().BeginTxx(ctx, nil)
	require.NoError(t, err)
	defer func() { _ = other.Rollback() }()
	other.MustExecContext(ctx, "UPDATE dag SET is_paused = 1")
	worker := dag.ClaimParams{WorkerID: "w", N: 1, Lease: time.Minute}
	claims, err := s.Claim(ctx, worker)
	for _, next := range []string{"b", "c", "e"} {
		require.NoError(t, err)
		require.Len(t, claims, 1)
		c := claims[0]
		_, claims, _, err = s.ExchangeAndSchedule(ctx, []dag.Result{{
			TaskInstanceID: c.ID, Fence: c.Fence, State: dag.StateSuccess,
			Attempt: dag.Attempt{TaskInstanceID: c.ID, Fence: c.Fence, WorkerID: "w", StartDate: time.Now(), EndDate: time.Now()},
		}}, worker, evaluate(s))
		require.NoError(t, err)
		require.Equal(t, next, claims[0].TaskID)
	}
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
