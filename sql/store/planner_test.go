package store

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSQLiteTakesTheIDs: its planner would look through all rows in a state, of
// which there may be very many, to find some that are named, or the first that
// are due.
func TestSQLiteTakesTheIDs(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), "sqlite:///"+filepath.Join(t.TempDir(), "state.db"), Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	require.NoError(t, s.Migrate(t.Context()))
	in, args := s.among([]int64{1, 2})
	for _, c := range []struct {
		query string
		args  []any
		want  string
	}{
		{"UPDATE task_instance" + s.force("PRIMARY") + " SET state = 'running' WHERE id IN " + in + " AND state = 'queued'", args, "INTEGER PRIMARY KEY"},
		{"UPDATE dag_run" + s.force("PRIMARY") + " SET note = '' WHERE id IN " + in + " AND state IN ('queued', 'running')", args, "INTEGER PRIMARY KEY"},
		{"SELECT id FROM dag_run" + s.force("PRIMARY") + " WHERE id IN " + in + " AND state = 'running' ORDER BY id", args, "INTEGER PRIMARY KEY"},
		{"SELECT * FROM dag_run" + s.force("k_eval") + " WHERE next_eval_at <= ? AND state IN ('queued', 'running') ORDER BY next_eval_at, id LIMIT 5", []any{"x"}, "dag_run_eval"},
	} {
		var steps []struct {
			ID, Parent, Notused int
			Detail              string
		}
		require.NoError(t, s.db.Reader().SelectContext(t.Context(), &steps, "EXPLAIN QUERY PLAN "+c.query, c.args...))
		require.Contains(t, steps[0].Detail, c.want, c.query)
		for _, step := range steps {
			require.NotContains(t, step.Detail, "(state=", c.query)
			require.NotContains(t, step.Detail, "TEMP B-TREE", c.query)
		}
	}
}
