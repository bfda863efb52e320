package integration

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/sqltest"
)

// TestGalera runs the storm's DAG over a cluster of three nodes that all take
// writes: every process talks to a node of its own, as behind a load balancer.
// One node is killed in mid-load and comes back later. Certification conflicts
// are deadlocks to whoever commits last, and are tried again.
func TestGalera(t *testing.T) {
	t.Parallel()
	if os.Getenv("AIRLOCK_GALERA") == "" {
		t.Skip("make galera runs it")
	}
	nodes := sqltest.StartGalera(t, 3)
	dsn, target := nodes[0].Fresh(t), nodes[0].Fresh(t)
	h := newHouse(t, "AIRLOCK__DATABASE__DSN="+dsn)
	s := newStorm(t, h, 1)
	s.server, s.state, s.target = nodes[0], open(t, dsn), open(t, target)
	h.ok("db", "migrate")

	roles := [][]string{{"scheduler"}, {"scheduler"}, {"worker"}, {"worker"}, {"worker"}}
	var wires []*line
	s.begin("SELECT SLEEP(0.1)")
	for i, role := range roles {
		wire := newLine(t, nodes[i%3].Addr())
		through := func(dsn string) string { return strings.Replace(dsn, nodes[0].Addr(), wire.addr, 1) }
		wires = append(wires, wire)
		s.roles = append(s.roles, role)
		s.crew = append(s.crew, s.startWith([]string{"AIRLOCK__DATABASE__DSN=" + through(dsn), "AIRLOCK_CONN_TARGET=" + through(target)}, role...))
	}
	moreRuns := func(n int) {
		t.Helper()
		begin := count(s.state, "SELECT COUNT(*) FROM dag_run WHERE state IN ('success', 'failed')")
		require.Eventually(t, func() bool {
			return count(s.state, "SELECT COUNT(*) FROM dag_run WHERE state IN ('success', 'failed')") >= begin+n
		}, 3*patience, pause)
		s.living()
	}
	moreRuns(10)
	nodes[2].Kill()
	time.Sleep(time.Second) // the balancer notices
	for i, wire := range wires {
		if i%3 == 2 {
			wire.to(nodes[1].Addr())
			wire.cut()
		}
	}
	moreRuns(10)
	nodes[2].Restart(t)
	for i, wire := range wires {
		if i%3 == 2 {
			wire.to(nodes[2].Addr())
			wire.cut()
		}
	}
	moreRuns(10)
	s.leased()
	s.finish()
	s.accounts()
	s.checked()
	var conflicts []string
	for _, p := range nodes {
		var name, n string
		require.NoError(t, open(t, p.DSN("")).QueryRow("SHOW GLOBAL STATUS LIKE 'wsrep_local_cert_failures'").Scan(&name, &n))
		conflicts = append(conflicts, n)
	}
	t.Logf("%d runs, %d attempts, %d crashes, certification failures by node: %s", count(s.state, "SELECT COUNT(*) FROM dag_run"),
		count(s.state, "SELECT COUNT(*) FROM task_attempt"), count(s.state, "SELECT SUM(crash_count) FROM task_instance"), strings.Join(conflicts, ", "))
}
