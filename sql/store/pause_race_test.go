package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/sqltest"
	"github.com/airlock-dag/airlock/sql/store"
)

func textOf(t *testing.T, s *store.Store, query string) string {
	t.Helper()
	var text string
	require.NoError(t, s.DB().Reader().GetContext(t.Context(), &text, query))
	return text
}

// A pass ends the run of a paused DAG in which nothing is left to do. One of its tasks
// is cleared after the pass has found the run, and before it has it: the pass leaves
// it, and nothing of the DAG begins.
func TestAPausedRunIsClearedBeforeThePassHasIt(t *testing.T) {
	t.Parallel()
	server := sqltest.Servers(t)[0]
	s := open(t, server.DSN)
	ctx := t.Context()
	failing(t, s, "d", 1)
	claims, err := s.Claim(ctx, dag.ClaimParams{WorkerID: "w", N: 1, Lease: time.Minute})
	require.NoError(t, err)
	require.Len(t, claims, 1)
	_, err = s.SetPaused(ctx, "d", true)
	require.NoError(t, err)
	_, err = s.Apply(ctx, []dag.Result{success(claims[0], time.Now().UTC())})
	require.NoError(t, err)

	before, err := s.DB().Writer().BeginTxx(ctx, nil)
	require.NoError(t, err)
	defer func() { _ = before.Rollback() }()
	var id int64
	require.NoError(t, before.GetContext(ctx, &id, "SELECT id FROM dag_run FOR UPDATE"))
	cleared := make(chan error, 1)
	go func() {
		_, err := s.Clear(ctx, dag.ClearRequest{DagID: "d", RunID: "r0", TaskIDs: []string{"a"}, Actor: "test"})
		cleared <- err
	}()
	sqltest.AwaitLockWaits(t, s.DB(), 1) // it bears an instant before that of the pass

	passing, proxy := cutOff(t, server.DSN, false, 1)
	t.Cleanup(func() { _ = passing.Close() })
	between := false
	proxy.Before("FROM dag_run FORCE INDEX (`PRIMARY`) WHERE id IN", func() {
		between = true
		if err := before.Commit(); err != nil {
			t.Error(err)
		}
		if err := <-cleared; err != nil {
			t.Error(err)
		}
	})
	_, err = passing.Schedule(ctx, dag.SchedulePass{}, evaluate(passing))
	require.NoError(t, err)
	require.True(t, between)
	require.Equal(t, "none", textOf(t, s, "SELECT state FROM task_instance"))
	_, err = s.SetPaused(ctx, "d", false)
	require.NoError(t, err)
	_, err = passing.Schedule(ctx, dag.SchedulePass{}, evaluate(passing))
	require.NoError(t, err)
	require.Equal(t, "queued", textOf(t, s, "SELECT state FROM task_instance"), "it was only put off")
}

// A pass that has a queued run waits for its DAG's row, and the DAG is paused when it
// gets it: the run does not start.
func TestARunDoesNotStartInADAGThatWasPaused(t *testing.T) {
	t.Parallel()
	s := open(t, sqltest.Servers(t)[0].DSN)
	ctx := t.Context()
	failing(t, s, "d", 1)
	s.DB().Writer().MustExecContext(ctx, "UPDATE dag_run SET next_eval_at = UTC_TIMESTAMP(6), state = 'queued', start_date = NULL")

	pause, err := s.DB().Writer().BeginTxx(ctx, nil)
	require.NoError(t, err)
	defer func() { _ = pause.Rollback() }()
	pause.MustExecContext(ctx, "UPDATE dag SET is_paused = 1 WHERE dag_id = 'd'")
	passed := make(chan error, 1)
	go func() {
		_, err := s.Schedule(ctx, dag.SchedulePass{}, evaluate(s))
		passed <- err
	}()
	sqltest.AwaitLockWaits(t, s.DB(), 1)
	require.NoError(t, pause.Commit())
	require.NoError(t, <-passed)
	require.Equal(t, "queued", textOf(t, s, "SELECT state FROM dag_run"))
	_, err = s.SetPaused(ctx, "d", false)
	require.NoError(t, err)
	_, err = s.Schedule(ctx, dag.SchedulePass{}, evaluate(s))
	require.NoError(t, err)
	require.Equal(t, "running", textOf(t, s, "SELECT state FROM dag_run"))
}
