package integration

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/sqltest"
)

// fleet is an installation over a server: schedulers and workers apart.
func fleet(t *testing.T, env ...string) (*house, *sql.DB) {
	t.Helper()
	dsn := sqltest.MariaDB(t)
	h := newHouse(t, append([]string{"AIRLOCK__DATABASE__DSN=" + dsn}, env...)...)
	r := h.run("scheduler")
	require.Equal(t, 1, r.code, "a server without the schema is refused")
	require.Contains(t, r.errOut, "airlock db migrate")
	h.ok("db", "migrate")
	return h, open(t, dsn)
}

// open connects as any other program would.
func open(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	rest := strings.TrimPrefix(dsn, "mysql://")
	login, place, _ := strings.Cut(rest, "@")
	address, name, _ := strings.Cut(place, "/")
	user, password, _ := strings.Cut(login, ":")
	name, query, _ := strings.Cut(name, "?")
	c := mysql.NewConfig()
	c.User, c.Passwd, c.DBName, c.Net, c.Addr = user, password, name, "tcp", address
	if _, socket, ok := strings.Cut(query, "unix_socket="); ok {
		c.Net, c.Addr = "unix", socket
	}
	db, err := sql.Open("mysql", c.FormatDSN())
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// TestFleetRunsEachTaskOnce: two schedulers and three workers over one server,
// one of each killed in the middle, run a fan-out whose steps leave a line each.
func TestFleetRunsEachTaskOnce(t *testing.T) {
	t.Parallel()
	h, db := fleet(t, "AIRLOCK__WORKER__CONCURRENCY=4")
	ledger := filepath.Join(h.home, "ledger")
	require.NoError(t, os.MkdirAll(ledger, 0o755))
	h.file("fan.yml", fmt.Sprintf(`
fan:
  schedule: null
  max_active_tasks: 100
  tasks:
    part:
      operator: bash
      max_crashes: 10
      expand: {bash_command: [%s]}
    join: {operator: bash, bash_command: "ls %s | wc -l", dependencies: [part]}
`, strings.Join(commands(40, ledger), ", "), ledger))
	first, second := h.start("scheduler"), h.start("scheduler")
	workers := []*process{h.start("worker"), h.start("worker"), h.start("worker")}
	until(t, db, 1, "SELECT COUNT(*) FROM dag WHERE dag_id = 'fan'")
	h.ok("dags", "trigger", "fan")
	require.Eventually(t, func() bool { return count(db, "SELECT COUNT(*) FROM task_instance WHERE state = 'success'") >= 5 }, patience, 20*time.Millisecond)
	first.kill()
	workers[0].kill()
	until(t, db, 1, "SELECT COUNT(*) FROM dag_run WHERE state = 'success'")
	require.Equal(t, 41, count(db, "SELECT COUNT(*) FROM task_instance WHERE state = 'success'"))
	require.Zero(t, count(db, "SELECT COUNT(*) FROM dead_letter"))
	require.Zero(t, count(db, "SELECT COUNT(*) FROM task_instance WHERE failure_count > 0"))
	entries, err := os.ReadDir(ledger)
	require.NoError(t, err)
	require.Len(t, entries, 40)
	require.Zero(t, second.term(t))
	for _, w := range workers[1:] {
		require.Zero(t, w.term(t))
	}
	h.checked()
}

// commands are n steps that each make a file of their own, slowly enough for a
// kill to hit some of them.
func commands(n int, dir string) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("'sleep 0.2; touch %s/%d'", dir, i)
	}
	return out
}

// TestWorkerTakesOnlyItsQueue: a worker for one queue leaves the others alone.
func TestWorkerTakesOnlyItsQueue(t *testing.T) {
	t.Parallel()
	h, db := fleet(t)
	h.file("queues.yml", `
queues:
  schedule: null
  tasks:
    gpu:   {operator: bash, queue: gpu.transcode, bash_command: "echo gpu"}
    other: {operator: bash, bash_command: "echo other"}
`)
	h.start("scheduler")
	w := h.start("worker", "--queues", "gpu.transcode", "--concurrency", "1")
	until(t, db, 1, "SELECT COUNT(*) FROM dag")
	h.ok("dags", "trigger", "queues")
	until(t, db, 1, "SELECT COUNT(*) FROM task_instance WHERE task_id = 'gpu' AND state = 'success'")
	until(t, db, 1, "SELECT COUNT(*) FROM task_instance WHERE task_id = 'other' AND state = 'queued'")
	require.Zero(t, w.term(t))
	h.start("worker")
	until(t, db, 1, "SELECT COUNT(*) FROM dag_run WHERE state = 'success'")
	h.checked()
}
