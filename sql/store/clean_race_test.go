package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/sqltest"
)

// A run that is cleared between the cleaner's look at it and its delete is work
// again: it stays with all that belongs to it.
func TestARunThatIsClearedMeanwhileStays(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, server, dsn string) {
		s, desk := open(t, dsn), open(t, dsn)
		if s.DB().IsSQLite() {
			return // one writer at a time: nothing lies between look and delete
		}
		manyRuns(t, s, 1, 1)
		old := "2020-01-01 00:00:00.000000"
		_, err := s.DB().Writer().ExecContext(t.Context(), "UPDATE dag_run SET state = 'success', end_date = ?", old)
		require.NoError(t, err)

		// A clear that has not committed yet holds the run.
		clear, err := desk.DB().Writer().BeginTxx(t.Context(), nil)
		require.NoError(t, err)
		defer func() { _ = clear.Rollback() }()
		_, err = clear.ExecContext(t.Context(), "UPDATE dag_run SET state = 'queued', end_date = NULL")
		require.NoError(t, err)
		type answer struct {
			got dag.CleanedBatch
			err error
		}
		done := make(chan answer, 1)
		go func() {
			got, err := s.Clean(t.Context(), dag.CleanBatch{Kind: dag.CleanRuns, Before: time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC)})
			done <- answer{got, err}
		}()
		processes := "information_schema.processlist"
		if server == "mysql" { // where the other is on its way out
			processes = "performance_schema.processlist"
		}
		// The cleaner has seen the old state and waits: while the clear is open, this
		// statement cannot end. (Tables of locks are no help: InnoDB keeps a copy of
		// them for as long as somebody asks more often than each 100 ms.)
		require.Eventually(t, func() bool {
			var n int
			return desk.DB().Reader().GetContext(t.Context(), &n, "SELECT COUNT(*) FROM "+processes+
				" p WHERE p.db = DATABASE() AND p.info LIKE 'SELECT id FROM dag_run WHERE id IN %FOR UPDATE'") == nil && n > 0
		}, 30*time.Second, 20*time.Millisecond)
		require.NoError(t, clear.Commit())
		a := <-done
		require.NoError(t, a.err)
		require.Zero(t, a.got.Deleted)
		var runs, instances int
		require.NoError(t, s.DB().Reader().Get(&runs, "SELECT COUNT(*) FROM dag_run"))
		require.NoError(t, s.DB().Reader().Get(&instances, "SELECT COUNT(*) FROM task_instance"))
		require.Equal(t, []int{1, 3}, []int{runs, instances})
	})
}
