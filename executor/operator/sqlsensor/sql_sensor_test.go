package sqlsensor_test

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
	"github.com/airlock-dag/airlock/executor/operator/sqlsensor"
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

// look is one look of a sensor in reschedule mode.
func look(t testing.TB, dsn string, args map[string]any) dag.Outcome {
	t.Helper()
	args["mode"] = "reschedule"
	return sqlsensor.New().Run(t.Context(), fixture(t, dsn, args).Task)
}

func TestWhatARowMeans(t *testing.T) {
	t.Parallel()
	const done, wait = dag.OutcomeSuccess, dag.OutcomeReschedule
	m := func(kv ...any) map[string]any {
		out := map[string]any{}
		for i := 0; i < len(kv); i += 2 {
			out[kv[i].(string)] = kv[i+1]
		}
		return out
	}
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		sqltest.Exec(t, dsn, "CREATE TABLE x (id INT PRIMARY KEY, v DECIMAL(20,2), s VARCHAR(20));\nINSERT INTO x VALUES (1, 1.50, 'done'), (2, 0, '0'), (3, NULL, '');")
		for name, c := range map[string]struct {
			args map[string]any
			want dag.OutcomeKind
		}{
			"a number":               {m("sql", "SELECT 5"), done},
			"zero":                   {m("sql", "SELECT 0"), wait},
			"a count of nothing":     {m("sql", "SELECT COUNT(*) FROM x WHERE id > 3"), wait},
			"a decimal":              {m("sql", "SELECT v FROM x WHERE id = 1"), done},
			"a decimal zero":         {m("sql", "SELECT v FROM x WHERE id = 2"), wait},
			"a text":                 {m("sql", "SELECT s FROM x WHERE id = 1"), done},
			"the text 0":             {m("sql", "SELECT s FROM x WHERE id = 2"), wait},
			"an empty text":          {m("sql", "SELECT s FROM x WHERE id = 3"), wait},
			"null":                   {m("sql", "SELECT v FROM x WHERE id = 3"), wait},
			"no row":                 {m("sql", "SELECT id FROM x WHERE id = 9"), wait},
			"no row and a success":   {m("sql", "SELECT id FROM x WHERE id = 9", "success", "true"), wait},
			"only the first row":     {m("sql", "SELECT v FROM x WHERE id < 3 ORDER BY id DESC"), wait},
			"only the last query":    {m("sql", "SELECT 1; SELECT 0"), wait},
			"success of zero":        {m("sql", "SELECT 0", "success", "value == 0"), done},
			"success does not hold":  {m("sql", "SELECT 5", "success", "value > 10"), wait},
			"success on a decimal":   {m("sql", "SELECT v FROM x WHERE id = 1", "success", "value > 1.4 and value < 1.6"), done},
			"success on a sum":       {m("sql", "SELECT SUM(id) FROM x", "success", "value == 6"), done},
			"success on a column":    {m("sql", "SELECT id, s AS state FROM x WHERE id = 1", "success", "row.state == 'done'"), done},
			"success on null":        {m("sql", "SELECT v FROM x WHERE id = 3", "success", "value == nil"), done},
			"failure does not hold":  {m("sql", "SELECT 5", "failure", "value > 10"), done},
			"parameters by name":     {m("sql", "SELECT s FROM x WHERE id = :id", "parameters", m("id", 1)), done},
			"parameters in a row":    {m("sql", "SELECT s FROM x WHERE id = ?", "parameters", []any{2}), wait},
			"with and select":        {m("sql", "WITH a AS (SELECT 1 AS n) SELECT n FROM a"), done},
			"a comment and no query": {m("sql", "SELECT 1 -- ; DELETE FROM x"), done},
		} {
			out := look(t, dsn, c.args)
			require.Equal(t, c.want, out.Kind, "%s: %v", name, out.Err)
		}
	})
}

func TestWhatFails(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		sqltest.Exec(t, dsn, "CREATE TABLE x (id INT PRIMARY KEY);\nINSERT INTO x VALUES (1);")
		for name, c := range map[string]struct {
			args  map[string]any
			code  string
			class dag.ErrorClass
		}{
			"failure comes first":    {map[string]any{"sql": "SELECT 7", "failure": "value == 7", "success": "value == 7"}, "SENSOR_FAILED", dag.ClassTransient},
			"fail_on_empty":          {map[string]any{"sql": "SELECT id FROM x WHERE id = 2", "fail_on_empty": true}, "SENSOR_FAILED", dag.ClassTransient},
			"a condition and a text": {map[string]any{"sql": "SELECT 'a'", "success": "value > 7"}, "SENSOR_FAILED", dag.ClassTransient},
			"a write":                {map[string]any{"sql": "DELETE FROM x"}, "INVALID_ARGUMENT", dag.ClassConfiguration},
			"a write after a query":  {map[string]any{"sql": "SELECT 1; INSERT INTO x VALUES (2)"}, "INVALID_ARGUMENT", dag.ClassConfiguration},
			"nothing":                {map[string]any{"sql": " ; "}, "INVALID_ARGUMENT", dag.ClassConfiguration},
			"a condition in Python":  {map[string]any{"sql": "SELECT 1", "success": "lambda v: v > 1"}, "INVALID_ARGUMENT", dag.ClassConfiguration},
		} {
			out := look(t, dsn, c.args)
			require.Equal(t, dag.OutcomeFailed, out.Kind, name)
			require.Equal(t, c.code, out.Err.Code, "%s: %s", name, out.Err.Message)
			require.Equal(t, c.class, out.Err.Class, name)
		}
		out := look(t, dsn, map[string]any{"sql": "SELECT * FROM nowhere"})
		require.Equal(t, dag.ClassPermanent, out.Err.Class, out.Err.Message)
		var n int
		require.NoError(t, sqltest.Raw(t, dsn).QueryRow("SELECT COUNT(*) FROM x").Scan(&n))
		require.Equal(t, 1, n)
	})
	f := operatortest.New(t, map[string]any{"sql": "SELECT 1", "conn_id": "w", "mode": "reschedule"})
	require.Equal(t, "CONNECTION_MISSING", sqlsensor.New().Run(t.Context(), f.Task).Err.Code)
	f.Connections["w"] = dag.Connection{Type: "sqlite", Host: filepath.Join(t.TempDir(), "none.db")}
	out := sqlsensor.New().Run(t.Context(), f.Task)
	require.Equal(t, dag.OutcomeFailed, out.Kind)
	_, err := os.Stat(f.Connections["w"].Host)
	require.ErrorIs(t, err, os.ErrNotExist, "looking makes no database")
}

func TestWaitsForARow(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		sqltest.Exec(t, dsn, "CREATE TABLE x (id INT PRIMARY KEY);")
		f := fixture(t, dsn, map[string]any{"sql": "wait.sql", "poke_interval": 5.0})
		f.Render = func(text string) (string, error) { return strings.ReplaceAll(text, "{{ low }}", "10"), nil }
		require.NoError(t, os.WriteFile(filepath.Join(f.Dir, "wait.sql"), []byte("SELECT id FROM x WHERE id > {{ low }}"), 0o600))
		clock := dagtest.NewClock(operatortest.LogicalDate())
		f.Clock = clock
		out := make(chan dag.Outcome, 1)
		go func() { out <- sqlsensor.New().Run(t.Context(), f.Task) }()
		clock.BlockUntil(1)
		sqltest.Exec(t, dsn, "INSERT INTO x VALUES (12);")
		clock.Advance(5 * time.Second)
		require.Equal(t, dag.Success(int64(12)), <-out)
	})
}

func TestValidate(t *testing.T) {
	t.Parallel()
	validate := sqlsensor.New().Spec().Validate
	require.Empty(t, validate(map[string]any{"success": "value > 1 and row.a != nil"}))
	for _, args := range []map[string]any{{"success": "vale > 1"}, {"failure": "value >"}, {"poke_interval": -1.0}} {
		require.Len(t, validate(args), 1, "%v", args)
	}
}
