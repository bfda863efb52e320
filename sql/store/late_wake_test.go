package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/sqltest"
	"github.com/airlock-dag/airlock/sql/store"
)

// oneTask makes runs of a DAG with one task, in the order of their dates. They are
// a backfill's where backfill says how many of them may run.
func oneTask(t *testing.T, s *store.Store, lookBack bool, runs, active, backfill int) {
	t.Helper()
	d := &dag.DAG{ID: "d", MaxActiveRuns: active, MaxActiveTasks: 9, Timezone: "UTC", Tasks: []dag.Task{{
		ID: "a", Operator: "bash", Queue: dag.DefaultQueue, Pool: dag.DefaultPool, PoolSlots: 1, PriorityWeight: 1, WeightRule: "absolute",
		TriggerRule: dag.AllSuccess, DependsOnPast: lookBack,
	}}}
	versions, err := s.SyncDAGs(t.Context(), []dag.DAGUpdate{{DAG: d}})
	require.NoError(t, err)
	first := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var list []dag.NewRun
	for i := range runs {
		at := first.AddDate(0, 0, i)
		list = append(list, dag.NewRun{
			Run:       dag.Run{DagID: "d", RunID: fmt.Sprint("r", i), Type: dag.RunManual, LogicalDate: &at, RunAfter: at, VersionID: versions[0], TriggeredBy: "test"},
			Instances: dag.NewInstances(d),
		})
	}
	if backfill == 0 {
		_, err = s.CreateRuns(t.Context(), list)
		require.NoError(t, err)
		return
	}
	for i := range list {
		list[i].Run.Type = dag.RunBackfill
	}
	_, _, err = s.CreateBackfill(t.Context(), dag.Backfill{
		DagID: "d", From: first, To: first.AddDate(0, 0, runs), MaxActiveRuns: backfill, Reprocess: dag.ReprocessNone, Actor: "test",
	}, list, false)
	require.NoError(t, err)
}

// hold keeps a run from all others until the transaction ends.
func hold(t *testing.T, s *store.Store, run string) *sqlx.Tx {
	t.Helper()
	x, err := s.DB().Writer().BeginTxx(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = x.Rollback() })
	var id int64
	require.NoError(t, x.GetContext(t.Context(), &id, "SELECT id FROM dag_run WHERE dag_id = 'd' AND run_id = ? FOR UPDATE", run))
	return x
}

func passes(t *testing.T, s *store.Store) {
	t.Helper()
	_, err := s.Schedule(t.Context(), dag.SchedulePass{}, evaluate(s))
	require.NoError(t, err)
}

func runState(t *testing.T, s *store.Store, run string) string {
	t.Helper()
	return textOf(t, s, "SELECT state FROM dag_run WHERE run_id = '"+run+"'")
}

// success1 ends the only task that runs.
func success1(t *testing.T, s *store.Store) {
	t.Helper()
	claims, err := s.Claim(t.Context(), dag.ClaimParams{WorkerID: "w", N: 1, Lease: time.Minute})
	require.NoError(t, err)
	require.Len(t, claims, 1)
	_, err = s.Apply(t.Context(), []dag.Result{success(claims[0], time.Now().UTC())})
	require.NoError(t, err)
}

// A pass has a run whose task waits for the run before it, and has looked at that,
// when that run ends. The run is woken once the pass has put it to sleep.
func TestARunThatLooksBackIsWokenFromAPass(t *testing.T) {
	t.Parallel()
	dsn := sqltest.Servers(t)[0].DSN
	s, other := open(t, dsn), open(t, dsn)
	oneTask(t, s, true, 2, 9, 0)
	passes(t, s)
	s.DB().Writer().MustExecContext(t.Context(), "UPDATE dag_run SET next_eval_at = UTC_TIMESTAMP(6) WHERE run_id = 'r1'")

	looked, goOn, passed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		decide := evaluate(other)
		_, err := other.Schedule(context.WithoutCancel(t.Context()), dag.SchedulePass{}, func(snap *dag.RunSnapshot, now time.Time) (dag.Decision, error) {
			close(looked)
			<-goOn
			return decide(snap, now)
		})
		passed <- err
	}()
	<-looked
	success1(t, s)
	ended := make(chan error, 1)
	go func() {
		_, err := s.Schedule(context.WithoutCancel(t.Context()), dag.SchedulePass{}, evaluate(s))
		ended <- err
	}()
	require.Eventually(t, func() bool { return runState(t, s, "r0") == "success" }, time.Minute, 10*time.Millisecond)
	close(goOn)
	require.NoError(t, <-passed)
	require.NoError(t, <-ended)
	passes(t, s)
	require.Equal(t, "queued", textOf(t, s, "SELECT ti.state FROM task_instance ti JOIN dag_run r ON r.id = ti.dag_run_id WHERE r.run_id = 'r1'"))
}

// A run that waits for the end of another is looked at by somebody who is to create
// it, and finds it there, when the other ends. It starts all the same.
func TestARunThatWaitsForRoomIsWokenFromALook(t *testing.T) {
	t.Parallel()
	for _, backfill := range []int{0, 1} {
		t.Run(fmt.Sprint("backfill ", backfill), func(t *testing.T) {
			t.Parallel()
			s := open(t, sqltest.Servers(t)[0].DSN)
			oneTask(t, s, false, 2, 1, backfill)
			passes(t, s)
			success1(t, s)
			require.Equal(t, "queued", runState(t, s, "r1"))
			look := hold(t, s, "r1")
			ended := make(chan error, 1)
			go func() {
				_, err := s.Schedule(context.WithoutCancel(t.Context()), dag.SchedulePass{}, evaluate(s))
				ended <- err
			}()
			require.Eventually(t, func() bool { return runState(t, s, "r0") == "success" }, time.Minute, 10*time.Millisecond, "the pass waits for nobody")
			require.NoError(t, look.Commit())
			require.NoError(t, <-ended)
			passes(t, s)
			require.Equal(t, "running", runState(t, s, "r1"))
		})
	}
}

// Two passes have a run each of a backfill that begins. One has the DAG's row, and
// does not wait for the other's run: that waits for the row.
func TestPassesThatBeginABackfillWaitForNoRun(t *testing.T) {
	t.Parallel()
	s := open(t, sqltest.Servers(t)[0].DSN)
	oneTask(t, s, false, 3, 9, 2)
	other := hold(t, s, "r0")
	passed := make(chan error, 1)
	go func() {
		_, err := s.Schedule(context.WithoutCancel(t.Context()), dag.SchedulePass{}, evaluate(s))
		passed <- err
	}()
	require.Eventually(t, func() bool { return runState(t, s, "r1") == "running" }, time.Minute, 10*time.Millisecond, "it starts its own")
	require.NoError(t, other.Commit())
	require.NoError(t, <-passed)
	passes(t, s)
	require.Equal(t, []string{"running", "running", "queued"}, []string{runState(t, s, "r0"), runState(t, s, "r1"), runState(t, s, "r2")})
}
