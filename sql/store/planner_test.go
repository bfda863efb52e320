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
	type plan struct {
		query string
		args  []any
		want  string
	}
	held, runs := newBulk("task_instance", []int64{1, 2}), newBulk("dag_run", []int64{1, 2})
	held.set(0, "end_date", "a")
	held.set(1, "end_date", "b")
	held.guard = &rowGuard{only: "state = 'running'", column: "fence", seen: []any{1, 1}}
	runs.setAll("updated_at", "c")
	runs.guard = &rowGuard{only: "state = 'running' AND next_eval_at IS NULL AND " + notPaused, column: "updated_at", seen: []any{"a", "b"}}
	var guarded []plan
	for column, b := range map[string]*bulk{"end_date": held, "": runs} {
		query, args, err := b.varying(s, column)
		require.NoError(t, err)
		guarded = append(guarded, plan{query, args, "VIRTUAL TABLE"}) // the list of ids first
		require.Equal(t, "UPDATE "+b.table+" NOT INDEXED SET ", b.update(s))
	}
	for _, c := range append(guarded, []plan{
		{"UPDATE task_instance" + s.force("PRIMARY") + " SET state = 'running' WHERE id IN " + in + " AND state = 'queued'", args, "INTEGER PRIMARY KEY"},
		{"UPDATE dag_run" + s.force("PRIMARY") + " SET note = '' WHERE id IN " + in + " AND state IN ('queued', 'running')", args, "INTEGER PRIMARY KEY"},
		{"SELECT id FROM dag_run" + s.force("PRIMARY") + " WHERE id IN " + in + " AND state = 'running' ORDER BY id", args, "INTEGER PRIMARY KEY"},
		{"SELECT * FROM dag_run" + s.force("k_eval") + " WHERE next_eval_at <= ? AND state IN ('queued', 'running') ORDER BY next_eval_at, id LIMIT 5", []any{"x"}, "dag_run_eval"},
	}...) {
		var steps []struct {
			ID, Parent, Notused int
			Detail              string
		}
		require.NoError(t, s.db.Reader().SelectContext(t.Context(), &steps, "EXPLAIN QUERY PLAN "+c.query, c.args...))
		require.Contains(t, steps[0].Detail, c.want, c.query)
		for _, step := range steps {
			require.NotContains(t, step.Detail, "(state=", c.query)
			require.NotContains(t, step.Detail, "(next_eval_at=", c.query)
			require.NotContains(t, step.Detail, "SCAN task_instance", c.query)
			require.NotContains(t, step.Detail, "SCAN dag_run", c.query)
			require.NotContains(t, step.Detail, "dag_due", c.query)
			require.NotContains(t, step.Detail, "TEMP B-TREE", c.query)
		}
	}
}
