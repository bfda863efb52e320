package cli_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/airlock-dag/airlock/cmd/cli"
)

const mergeDag = `
shop:
  start_date: 2026-01-01
  schedule: null
  tasks:
    load:
      operator: merge
      conn_id: w
      source: {file: "orders-{{ ds }}.csv"}
      columns: {id: {type: int}, at: {type: timestamp, timezone: UTC}}
      target: orders
      key: [id]
      version: at
      watermark: {column: at, name: orders}
    wrong:
      operator: merge
      conn_id: w
      source: {file: x.csv}
      columns: {id: {type: int}}
      target: nowhere
      key: [id]
    other:
      operator: bash
      bash_command: "true"
`

func TestMergePlanAndWatermarks(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"dags/shop.yml": mergeDag, "elsewhere/shop2.yml": mergeDag})
	db, err := sql.Open("sqlite", "file:"+h.path("w.db"))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	_, err = db.Exec("CREATE TABLE orders (id INT PRIMARY KEY, at TIMESTAMP); CREATE TABLE feed (id INT, at TIMESTAMP)")
	require.NoError(t, err)
	h.env = append(h.env, "AIRLOCK_CONN_W=sqlite:///"+h.path("w.db"))

	r := h.run("merge", "plan", "dags/shop.yml")
	require.Equal(t, cli.ExitFailed, r.code, "one of the two has no target")
	for _, words := range []string{"== shop.load", "UPDATE `orders` AS airlock_t", "== shop.wrong", "MERGE_TARGET_MISSING"} {
		require.Contains(t, r.stdout, words)
	}
	plan := h.ok("merge", "plan", "elsewhere/shop2.yml", "--task", "load", "--date", "2026-03-01")
	require.Contains(t, plan.stdout, "orders-2026-03-01.csv")
	require.Equal(t, "orders", h.list("merge", "plan", "dags/shop.yml", "-t", "load")[0]["plan"].(map[string]any)["target"])
	require.Contains(t, h.ok("tasks", "test", "shop", "load", "--plan").stdout, "INSERT INTO `orders`")
	require.Contains(t, h.run("tasks", "test", "shop", "other", "--plan").stdout, "cannot tell what it would do")
	h.fails(cli.ExitUsage, []string{"no merge task"}, "merge", "plan", "dags/shop.yml", "-t", "other")
	h.write("m.sql", "MERGE INTO orders t USING feed s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")
	require.Contains(t, h.ok("merge", "plan", "m.sql", "--conn-id", "w").stdout, "WHEN MATCHED THEN UPDATE SET *")
	h.fails(cli.ExitUsage, []string{"--conn-id"}, "merge", "plan", "m.sql")

	require.Empty(t, h.list("watermark", "list", "--conn-id", "w"))
	h.write("dags/orders-2026-03-01.csv", "id,at\n1,2026-02-28 10:00:00\n")
	h.ok("tasks", "test", "shop", "load", "2026-03-01")
	require.Equal(t, "2026-02-28 10:00:00.000000", h.list("watermark", "list", "--conn-id", "w")[0]["value"])
	require.Contains(t, h.ok("watermark", "set", "orders", "2026-02-01", "--conn-id", "w").stdout, "it was 2026-02-28 10:00:00.000000")
	require.Equal(t, "2026-02-01 00:00:00.000000", h.list("watermark", "list", "--conn-id", "w")[0]["value"])
	h.fails(cli.ExitFailed, []string{"did you mean orders?"}, "watermark", "set", "order", "2026-02-01", "--conn-id", "w")
	h.fails(cli.ExitUsage, []string{"not of the form"}, "watermark", "set", "orders", "soon", "--conn-id", "w")
	h.ok("watermark", "reset", "orders", "--conn-id", "w")
	require.Empty(t, h.list("watermark", "list", "--conn-id", "w"))

	state, err := sql.Open("sqlite", "file:"+h.path("home/airlock.db"))
	require.NoError(t, err)
	defer func() { require.NoError(t, state.Close()) }()
	var n int
	require.NoError(t, state.QueryRow("SELECT COUNT(*) FROM audit_log WHERE action LIKE 'watermark.%' AND subject = 'orders' AND actor = 'cli:alice'").Scan(&n))
	require.Equal(t, 2, n)
}
