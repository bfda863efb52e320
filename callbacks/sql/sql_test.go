package sql_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/airlock-dag/airlock/callbacks"
	"github.com/airlock-dag/airlock/callbacks/notifytest"
	"github.com/airlock-dag/airlock/callbacks/sql"
	"github.com/airlock-dag/airlock/dag"
)

func TestBind(t *testing.T) {
	t.Parallel()
	values := map[string]any{"dag_id": "d", "n": 7}
	for _, c := range []struct {
		in, out string
		args    []any
	}{
		{"SELECT 1", "SELECT 1", nil},
		{"VALUES (:dag_id, :n, :dag_id)", "VALUES (?, ?, ?)", []any{"d", 7, "d"}},
		{"SELECT ':dag_id', \":n\", `:n` -- :n\n, :n", "SELECT ':dag_id', \":n\", `:n` -- :n\n, ?", []any{7}},
		{"SELECT 'it''s :n', '\\' :n', :n /* :n */", "SELECT 'it''s :n', '\\' :n', ? /* :n */", []any{7}},
		{"SELECT a::text, '12:30', : n", "SELECT a::text, '12:30', : n", nil},
		{"SELECT 'open :n", "SELECT 'open :n", nil},
	} {
		out, args, err := sql.Bind(c.in, true, values)
		require.NoError(t, err, c.in)
		require.Equal(t, c.out, out)
		require.Equal(t, c.args, args)
	}
	_, _, err := sql.Bind("VALUES (:dag_ids)", true, values)
	require.ErrorContains(t, err, "did you mean :dag_id?")
}

// A path of Windows ends with a backslash, which escapes nothing in SQLite.
func TestBackslashInSQLite(t *testing.T) {
	t.Parallel()
	r := &ran{}
	args := callbacks.Args{"conn_id": "w", "sql": `INSERT INTO alert VALUES ('C:\', :dag_id)`}
	require.NoError(t, sql.New(r.exec).Notify(t.Context(), notifytest.Delivery(t, notifytest.Failed(), args, dag.Connection{Type: "sqlite"})))
	require.Equal(t, `INSERT INTO alert VALUES ('C:\', ?)`, r.statement)
	require.Equal(t, []any{"media"}, r.args)
}

func TestBindNeverPanics(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune(":'\"`\\-*/#\nan ?é"))).Draw(t, "text")
		_, _, _ = sql.Bind(text, rapid.Bool().Draw(t, "backslash"), map[string]any{"a": 1})
	})
}

// ran is what was executed.
type ran struct {
	conn      dag.Connection
	statement string
	args      []any
	away      bool
	err       error
}

func (r *ran) exec(_ context.Context, conn dag.Connection, statement string, args []any) (bool, error) {
	r.conn, r.statement, r.args = conn, statement, args
	return r.away, r.err
}

func TestValuesAreBoundAndNeverWritten(t *testing.T) {
	t.Parallel()
	r := &ran{}
	n := sql.New(r.exec)
	require.NoError(t, n.Notify(t.Context(), notifytest.Delivery(t, notifytest.Failed(), callbacks.Args{
		"conn_id": "warehouse", "sql": "INSERT INTO alert VALUES (:dedup_key, :at, :error_message, :map_index, :team, :next_try_at)",
		"parameters": map[string]any{"team": "media'); DROP TABLE alert; --"},
	}, dag.Connection{})))
	require.Equal(t, "warehouse", r.conn.ID)
	require.Equal(t, "INSERT INTO alert VALUES (?, ?, ?, ?, ?, ?)", r.statement)
	require.Equal(t, []any{"key1", "2026-03-01 12:00:00.000000", "it's <broken> & over", 3, "media'); DROP TABLE alert; --", nil}, r.args)

	seen := n.TemplateContext(notifytest.Failed())
	require.Empty(t, seen.Exception, "an error's text cannot get into a statement through a template")
	require.Empty(t, seen.ErrorMessage)
}

func TestFailuresOfTheDatabase(t *testing.T) {
	t.Parallel()
	args := callbacks.Args{"conn_id": "w", "sql": "SELECT 1"}
	for _, away := range []bool{true, false} {
		r := &ran{away: away, err: errors.New("no such table")}
		f := notifytest.AsFailure(t, sql.New(r.exec).Notify(t.Context(), notifytest.Delivery(t, notifytest.Failed(), args, dag.Connection{})))
		require.Equal(t, away, f.Down)
		require.Equal(t, !away, f.Permanent)
	}
	for _, args := range []callbacks.Args{
		{}, {"conn_id": "w"}, {"sql": "SELECT 1"}, {"conn_id": "w", "sql": "SELECT :nope"}, {"conn_id": "w", "sql": "SELECT 1", "parameters": []any{1}},
		{"conn_id": "w", "sql": "SELECT 1", "param": 1},
	} {
		r := &ran{}
		f := notifytest.AsFailure(t, sql.New(r.exec).Notify(t.Context(), notifytest.Delivery(t, notifytest.Failed(), args, dag.Connection{})))
		require.True(t, f.Permanent, "%v", args)
		require.Empty(t, r.statement)
	}
}
