package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/sqltest"
	"github.com/airlock-dag/airlock/sql/store"
)

// asleep is a store with two runs of a DAG that may have one, and what puts them to
// sleep: what happens to them happens without a word, long ago.
func asleep(t *testing.T, dsn string) (s *store.Store, change func(query string)) {
	t.Helper()
	s = open(t, dsn)
	manyRuns(t, s, 2, 1)
	change = func(query string) {
		t.Helper()
		sqltest.Exec(t, dsn, query+";\nUPDATE dag_run SET next_eval_at = NULL, updated_at = '2026-01-01 00:00:00.000000'")
	}
	change("UPDATE dag SET max_active_runs = 1")
	return s, change
}

func wakes(t *testing.T, s *store.Store, want int, why string) {
	t.Helper()
	n, err := s.WakeAsleep(t.Context(), time.Minute)
	require.NoError(t, err)
	require.Equal(t, want, n, why)
}

func look(t *testing.T, s *store.Store) (started []string, queued int) {
	t.Helper()
	report, err := s.Schedule(t.Context(), dag.SchedulePass{Limit: 10}, evaluate(s))
	require.NoError(t, err)
	for _, r := range report.Runs {
		if r.Started {
			started = append(started, r.Run.RunID)
		}
	}
	return started, report.Queued
}

func TestRunsThatWaitAsleepAreWoken(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		s, change := asleep(t, dsn)
		wakes(t, s, 1, "the first of the two, for there is room")
		wakes(t, s, 0, "it is to be looked at")
		started, queued := look(t, s)
		require.Equal(t, []string{"r0"}, started)
		require.Equal(t, 1, queued)

		change("UPDATE dag SET is_paused = 0")
		wakes(t, s, 0, "the first has a task that is queued, and leaves no room")
		change("UPDATE dag_run SET state = 'success', end_date = run_after WHERE run_id = 'r0'")
		change("UPDATE dag SET is_paused = 1")
		wakes(t, s, 0, "paused")
		change("UPDATE dag SET is_paused = 0")
		n, err := s.WakeAsleep(t.Context(), 10000*time.Hour)
		require.NoError(t, err)
		require.Zero(t, n, "not so long ago")
		wakes(t, s, 1, "the end of the first left room")
		started, _ = look(t, s)
		require.Equal(t, []string{"r1"}, started)
	})
}

func TestRunsThatGoOnAsleepAreWoken(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		s, change := asleep(t, dsn)
		change("UPDATE dag_run SET state = 'running', start_date = run_after WHERE run_id = 'r0'")
		wakes(t, s, 1, "nothing in it moves")
		_, queued := look(t, s)
		require.Equal(t, 1, queued, "its root")

		change("UPDATE task_instance SET state = 'running', lease_until = updated_at WHERE state = 'queued'")
		wakes(t, s, 0, "its task runs")
		change("UPDATE task_instance SET state = 'success', end_date = updated_at WHERE state = 'running'")
		wakes(t, s, 1, "its task has ended")
		_, queued = look(t, s)
		require.Equal(t, 1, queued, "what follows")
	})
}
