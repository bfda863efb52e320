package merge_test

import (
	"encoding/json"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	"github.com/airlock-dag/airlock/dag"
	mergeop "github.com/airlock-dag/airlock/executor/operator/merge"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
	"github.com/airlock-dag/airlock/sql/merge"
	"github.com/airlock-dag/airlock/sql/sqltest"
)

// connection is the stored connection of a test database.
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

func fixture(t testing.TB, dsn, step string) *operatortest.Fixture {
	t.Helper()
	var args map[string]any
	// The loader keeps the key null as a text, which plain YAML does not.
	require.NoError(t, yaml.Unmarshal([]byte(strings.Replace(step, "  null:", "  'null':", 1)), &args))
	f := operatortest.New(t, args)
	f.Connections["warehouse"] = connection(t, dsn)
	return f
}

func run(t testing.TB, f *operatortest.Fixture) dag.Outcome {
	t.Helper()
	return mergeop.New(dag.SystemRand{}).Run(t.Context(), f.Task)
}

const ordersStep = `
conn_id: warehouse
source:
  file: "inbox/orders-*.csv"
  format: csv
  delimiter: ","
  encoding: utf-8
  null: ["", "NULL"]
columns:
  order_id:    {type: bigint, required: true}
  order_date:  {type: date, format: "2006-01-02", required: true}
  customer:    {type: varchar(80), required: true}
  amount:      {type: "decimal(12,2)", check: "amount >= 0"}
  status:      {type: varchar(16), values: [new, paid, sent]}
  modified_at: {type: timestamp, required: true, timezone: UTC}
target: silver_orders
create_target: true
key: [order_id]
version: modified_at
duplicates: newest
when_matched: update
when_not_matched: insert
watermark: {column: modified_at, name: orders, lookback: 10m}
bad_rows: {max: 100, max_ratio: 0.5}
chunk: 0
`

func inbox(t testing.TB, f *operatortest.Fixture, name, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Join(f.Dir, "inbox"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(f.Dir, "inbox", name), []byte(text), 0o600))
}

func TestOrdersStep(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		f := fixture(t, dsn, ordersStep)
		inbox(t, f, "orders-1.csv", "order_id,order_date,customer,amount,status,modified_at\n"+
			"1,2026-03-01,Ada,12.50,new,2026-03-01 08:00:00\n1,2026-03-01,Ada,13.50,paid,2026-03-01 09:00:00\n"+
			"2,2026-03-01,Bo,-1,new,2026-03-01 08:00:00\n3,2026-03-01,Cy,NULL,sent,2026-03-01 08:30:00\n")
		inbox(t, f, "orders-2.csv", "order_id,order_date,customer,amount,status,modified_at\n4,2026-03-02,Di,7,lost,2026-03-02 08:00:00\n")
		out := run(t, f)
		require.Equal(t, dag.OutcomeSuccess, out.Kind, "%v\n%s", out.Err, f.Output)
		raw, err := json.Marshal(out.ReturnValue)
		require.NoError(t, err)
		var got map[string]any
		require.NoError(t, json.Unmarshal(raw, &got))
		require.Len(t, got, 8)
		require.Equal(t, 5.0, got["rows_read"])
		require.Equal(t, 2.0, got["rows_merged"])
		require.Equal(t, 2.0, got["rows_quarantined"])
		require.Equal(t, 1.0, got["rows_superseded"])
		require.Nil(t, got["watermark_from"])
		require.Equal(t, "2026-03-02 08:00:00.000000", got["watermark_to"])
		require.NotEmpty(t, got["batch_id"])
		require.Contains(t, f.Output.String(), "read 5 rows: 2 merged (2 inserted, 0 updated, 0 deleted), 0 unchanged, 2 quarantined, 1 superseded")
		require.Contains(t, f.Output.String(), "CHECK_FAILED 1, NOT_IN_VALUES 1")
		require.Len(t, f.Details(), 1)
		db := sqltest.Raw(t, dsn)
		var source, code string
		require.NoError(t, db.QueryRow("SELECT source, error_code FROM airlock_dead_letter_row WHERE row_key = '4'").Scan(&source, &code))
		require.Equal(t, "inbox/orders-2.csv", source)
		require.Equal(t, "NOT_IN_VALUES", code)
		// The same attempt again, as after a lost answer.
		out = run(t, f)
		require.Equal(t, dag.OutcomeSuccess, out.Kind)
		require.Contains(t, f.Output.String(), "already done under the key")
		again, err := json.Marshal(out.ReturnValue)
		require.NoError(t, err)
		require.JSONEq(t, string(raw), string(again))
	})
}

func TestLostLeaseCommitsNothing(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		f := fixture(t, dsn, ordersStep)
		inbox(t, f, "orders-1.csv", "order_id,order_date,customer,amount,status,modified_at\n1,2026-03-01,Ada,12.50,new,2026-03-01 08:00:00\n")
		f.Lost = true
		out := run(t, f)
		require.Equal(t, dag.OutcomeFailed, out.Kind)
		require.Equal(t, "LEASE_LOST", out.Err.Code)
		require.Equal(t, f.TI.TaskInstanceKey.String(), out.Err.IdempotencyKey)
		var n int
		require.NoError(t, sqltest.Raw(t, dsn).QueryRow("SELECT COUNT(*) FROM silver_orders").Scan(&n))
		require.Zero(t, n)
	})
}

func TestXComSource(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		f := fixture(t, dsn, `
conn_id: warehouse
source: {xcom: probe.output}
target: media
create_target: true
key: [asset]
columns: {asset: {type: varchar(64), from: asset_sha256}, size: {type: bigint}}
`)
		f.XComs["probe/return_value"] = []any{
			map[string]any{"asset_sha256": "aa", "size": json.Number("9007199254740993"), "streams": []any{}}, map[string]any{"size": 5},
		}
		out := run(t, f)
		require.Equal(t, dag.OutcomeSuccess, out.Kind, "%v", out.Err)
		r, ok := out.ReturnValue.(merge.Result)
		require.True(t, ok)
		require.Equal(t, int64(1), r.RowsMerged)
		require.Equal(t, int64(1), r.RowsQuarantined)
		var size int64
		require.NoError(t, sqltest.Raw(t, dsn).QueryRow("SELECT size FROM media").Scan(&size))
		require.Equal(t, int64(9007199254740993), size)
	})
}

func TestNoFile(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string]dag.OutcomeKind{"": dag.OutcomeFailed, "on_missing: skip,": dag.OutcomeSkipped, "on_missing: empty,": dag.OutcomeSuccess} {
		f := fixture(t, sqltest.SQLite(t), "{conn_id: warehouse, source: {"+rule+" file: none-*.csv}, target: t, create_target: true, key: [a], columns: {a: {type: int}}}")
		out := run(t, f)
		require.Equal(t, want, out.Kind, "%q: %v", rule, out.Err)
		if want == dag.OutcomeFailed {
			require.Equal(t, "MERGE_SOURCE_NOT_FOUND", out.Err.Code)
			require.Equal(t, dag.ClassPermanent, out.Err.Class)
		}
	}
}

func TestFailuresAreClassified(t *testing.T) {
	t.Parallel()
	f := fixture(t, sqltest.SQLite(t), ordersStep)
	delete(f.Connections, "warehouse")
	out := run(t, f)
	require.Equal(t, "CONNECTION_MISSING", out.Err.Code)
	require.Equal(t, dag.ClassConfiguration, out.Err.Class)
	f.Connections["warehouse"] = dag.Connection{Type: "mysql", Host: "127.0.0.1", Port: 1, Login: "x", Password: "s3cret", Schema: "d"}
	out = run(t, f)
	require.Equal(t, "CONNECTION_REFUSED", out.Err.Code)
	require.Equal(t, dag.ClassTransient, out.Err.Class)
	require.NotContains(t, out.Err.Error(), "s3cret")
	f = fixture(t, sqltest.SQLite(t), "{conn_id: warehouse, target: t}")
	out = run(t, f)
	require.Equal(t, "INVALID_ARGUMENT", out.Err.Code)
}
