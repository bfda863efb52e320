package sqlop_test

import (
	"encoding/json"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/bundle"
	"github.com/airlock-dag/airlock/dag/load"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
	sqlop "github.com/airlock-dag/airlock/executor/operator/sql"
	"github.com/airlock-dag/airlock/sql/sqltest"
)

func connection(t testing.TB, dsn string) dag.Connection {
	t.Helper()
	if path, ok := strings.CutPrefix(dsn, "sqlite:///"); ok {
		return dag.Connection{Type: "sqlite", Host: path}
	}
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	host, port, err := net.SplitHostPort(u.Host)
	require.NoError(t, err)
	n, err := strconv.Atoi(port)
	require.NoError(t, err)
	return dag.Connection{Type: "mysql", Host: host, Port: n, Login: u.User.Username(), Schema: strings.TrimPrefix(u.Path, "/")}
}

func fixture(t testing.TB, dsn string, args map[string]any) *operatortest.Fixture {
	t.Helper()
	args["conn_id"] = "w"
	f := operatortest.New(t, args)
	f.Connections["w"] = connection(t, dsn)
	return f
}

func run(t testing.TB, f *operatortest.Fixture) dag.Outcome {
	t.Helper()
	return sqlop.New().Run(t.Context(), f.Task)
}

func value(t testing.TB, out dag.Outcome) string {
	t.Helper()
	require.Equal(t, dag.OutcomeSuccess, out.Kind, "%v", out.Err)
	raw, err := json.Marshal(out.ReturnValue)
	require.NoError(t, err)
	return string(raw)
}

func count(t testing.TB, dsn, query string) int {
	t.Helper()
	var n int
	require.NoError(t, sqltest.Raw(t, dsn).QueryRow(query).Scan(&n))
	return n
}

func TestANameIsReadAsTheStepReadsIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "q.sql"), []byte("SELECT 1"), 0o600))
	at := dag.Place{Stat: func(p string) (os.FileInfo, error) { return os.Stat(filepath.Join(dir, p)) }}
	for text, missing := range map[string]string{
		"q.sql": "", "q.sql\n": "", " q.sql": "", "SELECT 1 FROM q.sql": "", "no.sql\n": "there is no file no.sql on this machine",
	} {
		found := sqlop.MissingFiles(map[string]any{"sql": text}, at)
		if missing == "" {
			require.Empty(t, found, "%q", text)
			continue
		}
		require.Len(t, found, 1, "%q", text)
		require.Equal(t, missing, found[0].Message)
	}
}

const tables = "CREATE TABLE x (id INT PRIMARY KEY, v DECIMAL(20,2), s VARCHAR(20));\nINSERT INTO x VALUES (1, 1.50, 'a'), (2, NULL, 'b');"

func TestStatementsAreDoneOnceAndTogether(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		sqltest.Exec(t, dsn, tables)
		f := fixture(t, dsn, map[string]any{"sql": []any{"DELETE FROM x WHERE id = 2; INSERT INTO x VALUES (3, 0, ';')", "UPDATE x SET id = id + 10"}})
		require.JSONEq(t, `{"statements": 3, "rows_affected": 4}`, value(t, run(t, f)))
		require.JSONEq(t, `{"statements": 3, "rows_affected": 4}`, value(t, run(t, f)), "the stored result")
		require.Contains(t, f.Output.String(), "already done")
		require.Equal(t, 24, count(t, dsn, "SELECT SUM(id) FROM x"))
		// Other statements under the same key are an error, not a second effect.
		f.Args["sql"] = "DELETE FROM x"
		out := run(t, f)
		require.Equal(t, "EFFECT_KEY_REUSED", out.Err.Code)
		// A failing statement undoes the ones before it.
		f.Args["sql"] = []any{"DELETE FROM x", "INSERT INTO nowhere VALUES (1)"}
		f.Args["idempotency_key"] = "other"
		out = run(t, f)
		require.Equal(t, dag.ClassPermanent, out.Err.Class)
		require.Contains(t, out.Err.Message, "statement 2")
		require.Equal(t, 2, count(t, dsn, "SELECT COUNT(*) FROM x"))
		f.Args["sql"] = "DELETE FROM x"
		f.Lost = true
		out = run(t, f)
		require.Equal(t, "LEASE_LOST", out.Err.Code)
		require.Equal(t, 2, count(t, dsn, "SELECT COUNT(*) FROM x"))
		f.Lost = false
		require.JSONEq(t, `{"statements": 1, "rows_affected": 2}`, value(t, run(t, f)))
	})
}

func TestResults(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, name, dsn string) {
		sqltest.Exec(t, dsn, tables)
		f := fixture(t, dsn, map[string]any{"sql": "SELECT 1 AS one; SELECT id, v, s FROM x WHERE id >= :low ORDER BY id", "parameters": map[string]any{"low": json.Number("1")}})
		out := run(t, f)
		require.JSONEq(t, `[[1, 1.5, "a"], [2, null, "b"]]`, value(t, out))
		require.Equal(t, []string{"id", "v", "s"}, out.XComs["columns"])
		f.Args["return_last"] = false
		require.JSONEq(t, `[[[1]], [[1, 1.5, "a"], [2, null, "b"]]]`, value(t, run(t, f)))
		f.Args = map[string]any{"conn_id": "w", "sql": "SELECT s FROM x WHERE id = %s", "parameters": []any{2.0}}
		require.JSONEq(t, `[["b"]]`, value(t, run(t, f)))
		f.Args = map[string]any{"conn_id": "w", "sql": "SELECT id FROM x", "max_rows": 1.0}
		out = run(t, f)
		require.JSONEq(t, `[[1]]`, value(t, out))
		require.Equal(t, true, out.XComs["truncated"])
		// Queries alone need no tables of Airlock.
		_, err := sqltest.Raw(t, dsn).Exec("SELECT * FROM airlock_effect")
		require.Error(t, err)
		if name == "mariadb" || name == "sqlite" {
			f.Args = map[string]any{"conn_id": "w", "sql": "INSERT INTO x VALUES (9, 1, 'r') RETURNING id, s"}
			require.JSONEq(t, `[[9, "r"]]`, value(t, run(t, f)))
			require.Equal(t, 1, count(t, dsn, "SELECT COUNT(*) FROM x WHERE id = 9"))
		}
	})
}

func TestFileOfStatements(t *testing.T) {
	t.Parallel()
	dsn := sqltest.SQLite(t)
	sqltest.Exec(t, dsn, tables)
	f := fixture(t, dsn, map[string]any{"sql": "queries/totals.sql"})
	require.Equal(t, "FILE_NOT_FOUND", run(t, f).Err.Code)
	require.NoError(t, os.MkdirAll(filepath.Join(f.Dir, "queries"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(f.Dir, "queries", "totals.sql"), []byte("-- totals\nDELETE FROM x WHERE s = 'X';\n"), 0o600))
	f.Render = func(s string) (string, error) { return strings.ReplaceAll(s, "X", "a"), nil }
	require.JSONEq(t, `{"statements": 1, "rows_affected": 1}`, value(t, run(t, f)))
	require.NoError(t, syscall.Mkfifo(filepath.Join(f.Dir, "pipe.sql"), 0o600))
	f.Args["sql"] = "pipe.sql"
	require.Equal(t, "INVALID_ARGUMENT", run(t, f).Err.Code, "nobody writes to it")
}

func TestWhatWouldBreakTheTransactionIsRefused(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, name, dsn string) {
		sqltest.Exec(t, dsn, tables)
		f := fixture(t, dsn, map[string]any{"sql": "DELETE FROM x; CREATE TABLE y (a INT)"})
		out := run(t, f)
		if name == "sqlite" {
			require.Equal(t, dag.OutcomeSuccess, out.Kind, "SQLite undoes DDL with the rest: %v", out.Err)
		} else {
			require.Equal(t, sqlop.CodeCommits, out.Err.Code)
			require.Contains(t, out.Err.Message, "CREATE TABLE commits the open transaction")
			require.Contains(t, out.Err.Hint, "autocommit: true")
			require.Equal(t, 2, count(t, dsn, "SELECT COUNT(*) FROM x"))
		}
		f.Args["sql"], f.Args["idempotency_key"] = "DELETE FROM x; COMMIT", "k2"
		require.Equal(t, sqlop.CodeTransaction, run(t, f).Err.Code)
		f.Args["sql"], f.Args["autocommit"] = "CREATE TABLE z (a INT); INSERT INTO z VALUES (1), (2)", true
		require.JSONEq(t, `{"statements": 2, "rows_affected": 2}`, value(t, run(t, f)))
		require.Equal(t, 2, count(t, dsn, "SELECT COUNT(*) FROM z"))
	})
}

func TestFailuresAreClassified(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, name, dsn string) {
		prefix := map[bool]string{true: "SQLITE_", false: "MYSQL_"}[name == "sqlite"]
		sqltest.Exec(t, dsn, tables)
		f := fixture(t, dsn, map[string]any{})
		for _, c := range []struct {
			sql, code string
			class     dag.ErrorClass
		}{
			{"SELEC 1", "", dag.ClassPermanent},
			{"INSERT INTO x VALUES (1, 1, 'a')", "", dag.ClassPermanent},
			{"DELETE FROM x WHERE s = 'x", sqlop.CodeSyntax, dag.ClassPermanent},
			{"DELETE FROM x WHERE id = :no", sqlop.CodeParameters, dag.ClassConfiguration},
		} {
			f.Args["sql"] = c.sql
			f.Args["parameters"] = map[string]any{"yes": 1.0}
			out := run(t, f)
			require.Equal(t, dag.OutcomeFailed, out.Kind, c.sql)
			require.Equal(t, c.class, out.Err.Class, "%s: %v", c.sql, out.Err)
			if c.code == "" {
				require.True(t, strings.HasPrefix(out.Err.Code, prefix), out.Err.Code)
			} else {
				require.Equal(t, c.code, out.Err.Code)
			}
		}
		f.Args["conn_id"] = "none"
		out := run(t, f)
		require.Equal(t, "CONNECTION_MISSING", out.Err.Code)
		require.Equal(t, dag.ClassConfiguration, out.Err.Class)
	})
}

func TestSpecInAFile(t *testing.T) {
	t.Parallel()
	problems := func(task string) []string {
		text := "demo:\n  start_date: 2026-01-01\n  schedule: null\n  tasks:\n    m:\n" + task
		got := load.Files([]bundle.File{{Path: "demo.yaml", Data: []byte(text)}}, load.Options{Specs: []dag.OperatorSpec{sqlop.New().Spec()}})
		var out []string
		for _, p := range got.Problems {
			out = append(out, p.Path+": "+p.Message)
		}
		return out
	}
	require.Empty(t, problems("      operator: airflow.providers.common.sql.operators.sql.SQLExecuteQueryOperator\n      conn_id: w\n      sql: SELECT 1; SELECT 2\n      parameters: {a: 1}\n"))
	require.Empty(t, problems("      operator: airflow.providers.mysql.operators.mysql.MySqlOperator\n      mysql_conn_id: w\n      sql: [SELECT 1, totals.sql]\n"))
	page, err := os.ReadFile("../../../docs/operators/sql.md")
	require.NoError(t, err)
	_, block, _ := strings.Cut(string(page), "```yaml\n")
	block, _, _ = strings.Cut(block, "```")
	_, body, _ := strings.Cut(block, "\n")
	indented := ""
	for line := range strings.Lines(body) {
		indented += "    " + line
	}
	require.Empty(t, problems(indented))
	require.Len(t, problems("      operator: sql\n      conn_id: w\n      sql: [\"SELECT 'a\", \"\"]\n"), 2)
	require.Len(t, problems("      operator: sql\n      sql: SELECT 1\n"), 1)
}
