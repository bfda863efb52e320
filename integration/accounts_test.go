package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// What this file asks, it asks of the tables alone, with SQL of its own: it
// shares nothing with `db check` and nothing with the store.

// account is a query for what must not be there.
type account struct{ breaks, query string }

// crashes are the codes of attempts that nobody is to blame for: the worker, or
// its child, died.
const crashes = `'WORKER_LOST', 'LEASE_LOST', 'KILLED_SIGNAL', 'OOM_KILLED'`

// always holds at every committed moment, also in the middle of an attack.
func always() []account {
	return []account{
		{"failed without its letter", `SELECT COUNT(*) FROM task_instance ti WHERE ti.state = 'failed' AND
 (SELECT COUNT(*) FROM dead_letter l WHERE l.task_instance_id = ti.id AND l.status = 'sealed') <> 1`},
		{"a letter without its failure", `SELECT COUNT(*) FROM dead_letter l LEFT JOIN task_instance ti ON ti.id = l.task_instance_id
 WHERE l.status = 'sealed' AND (ti.id IS NULL OR ti.state <> 'failed')`},
		{"a letter and its attempt disagree", `SELECT COUNT(*) FROM dead_letter l LEFT JOIN task_attempt a
 ON a.task_instance_id = l.task_instance_id AND a.fence = l.fence AND a.state = 'failed' AND a.error_code = l.error_code WHERE a.id IS NULL`},
		{"a final failure without its one event", `SELECT COUNT(*) FROM task_attempt a JOIN task_instance ti ON ti.id = a.task_instance_id
 WHERE a.state = 'failed' AND (SELECT COUNT(*) FROM callback_event e WHERE e.kind = 'on_failure_callback' AND e.dag_id = ti.dag_id
 AND e.run_id = ti.run_id AND e.task_id = ti.task_id AND e.map_index = ti.map_index AND e.try_number = a.try_number) <> 1`},
		{"an event without its failure", `SELECT COUNT(*) FROM callback_event e WHERE e.kind = 'on_failure_callback' AND e.task_id <> '' AND NOT EXISTS
 (SELECT 1 FROM task_instance ti JOIN task_attempt a ON a.task_instance_id = ti.id AND a.state = 'failed' AND a.try_number = e.try_number
 WHERE ti.dag_id = e.dag_id AND ti.run_id = e.run_id AND ti.task_id = e.task_id AND ti.map_index = e.map_index)`},
		{"an end without its attempt", `SELECT COUNT(*) FROM task_instance ti WHERE ti.state IN ('success', 'skipped', 'failed') AND ti.fence > 0 AND
 (SELECT COUNT(*) FROM task_attempt a WHERE a.task_instance_id = ti.id AND a.state = ti.state) <> 1`},
		{"running without a lease", "SELECT COUNT(*) FROM task_instance WHERE state = 'running' AND (lease_until IS NULL OR worker_id = '')"},
		{"not running, and with a lease", "SELECT COUNT(*) FROM task_instance WHERE state NOT IN ('running', 'restarting') AND lease_until IS NOT NULL"},
		{"more attempts than fences", `SELECT COUNT(*) FROM task_instance ti WHERE
 (SELECT COUNT(*) FROM task_attempt a WHERE a.task_instance_id = ti.id) > ti.fence`},
		{"failures and attempts disagree", `SELECT COUNT(*) FROM task_instance ti WHERE ti.failure_count <>
 (SELECT COUNT(*) FROM task_attempt a WHERE a.task_instance_id = ti.id AND a.state IN ('failed', 'up_for_retry') AND a.error_code NOT IN (` + crashes + `, 'HTTP_429'))`},
		{"crashes and attempts disagree", `SELECT COUNT(*) FROM task_instance ti WHERE ti.crash_count <>
 (SELECT COUNT(*) FROM task_attempt a WHERE a.task_instance_id = ti.id AND a.state IN ('failed', 'up_for_retry') AND a.error_code IN (` + crashes + `))`},
		{"throttling and attempts disagree", `SELECT COUNT(*) FROM task_instance ti WHERE ti.throttled_us <>
 (SELECT COALESCE(SUM(a.delay_us), 0) FROM task_attempt a WHERE a.task_instance_id = ti.id AND a.state = 'up_for_retry' AND a.error_code = 'HTTP_429')`},
		{"an ended run with a live task", `SELECT COUNT(*) FROM task_instance ti JOIN dag_run r ON r.id = ti.dag_run_id WHERE r.state IN ('success', 'failed')
 AND ti.state NOT IN ('success', 'skipped', 'failed', 'upstream_failed', 'removed')`},
		{"two runs of one date", "SELECT COUNT(*) FROM (SELECT dag_id, logical_date FROM dag_run GROUP BY dag_id, logical_date HAVING COUNT(*) > 1) twice"},
	}
}

// living checks what holds at every moment, while the attack goes on. A server
// that is away is not asked.
func (s *storm) living() {
	s.t.Helper()
	for _, a := range always() {
		require.LessOrEqual(s.t, count(s.state, a.query), 0, a.breaks)
	}
	started, ended, live := -1, -1, -1
	row := s.state.QueryRow(`SELECT COUNT(*), SUM(CASE WHEN state IN ('success', 'skipped', 'failed') THEN 1 ELSE 0 END),
 SUM(CASE WHEN state IN ('none', 'scheduled', 'queued', 'running', 'restarting', 'up_for_retry', 'up_for_reschedule') THEN 1 ELSE 0 END)
 FROM task_instance WHERE fence > 0`)
	if row.Scan(&started, &ended, &live) == nil {
		require.Equal(s.t, started, ended+live, "started = succeeded + skipped + sealed + live")
	}
}

// leased waits until everything that runs has a lease that somebody renews. How
// soon a loaded machine takes the others over is not what is asked here.
func (s *storm) leased() {
	s.t.Helper()
	now := "UTC_TIMESTAMP(6)"
	if s.server == nil {
		now = "strftime('%Y-%m-%d %H:%M:%f', 'now')"
	}
	require.Eventually(s.t, func() bool {
		return count(s.state, "SELECT COUNT(*) FROM task_instance WHERE state = 'running' AND lease_until < "+now) <= 0
	}, patience, 50*time.Millisecond, "running without a living lease")
}

// accounts checks the whole book after the end: nothing is live any more.
func (s *storm) accounts() {
	s.t.Helper()
	zero := func(breaks, query string) {
		s.t.Helper()
		require.Equal(s.t, 0, count(s.state, query), breaks)
	}
	for _, a := range always() {
		zero(a.breaks, a.query)
	}
	zero("still live", `SELECT COUNT(*) FROM task_instance WHERE state NOT IN ('success', 'skipped', 'failed', 'upstream_failed')`)
	zero("an event that was not delivered", "SELECT COUNT(*) FROM callback_event WHERE status <> 'delivered'")

	runs := count(s.state, "SELECT COUNT(*) FROM dag_run")
	require.Positive(s.t, runs)
	for task, want := range map[string]string{
		"twice": "failed", "poison": "failed", "skip": "skipped", "second": "success", "daemon": "success", "names": "success",
		"count": "success", "add": "success", "rows": "success", "after": "success",
		"slow": "failed", "file": "success", "call": "success", "busy": "success",
	} {
		require.Equal(s.t, runs, count(s.state, "SELECT COUNT(*) FROM task_instance WHERE task_id = ? AND state = ?", task, want), "%s %s", task, want)
	}
	require.Equal(s.t, 2*runs, count(s.state, "SELECT COUNT(*) FROM task_instance WHERE task_id = 'part' AND map_index IN (0, 1) AND state = 'success'"))
	require.Equal(s.t, runs, count(s.state, "SELECT COUNT(*) FROM task_instance WHERE task_id = 'part' AND map_index = 2 AND state = 'failed'"))
	require.Equal(s.t, runs, count(s.state, "SELECT COUNT(*) FROM task_instance WHERE task_id = 'fragile' AND state IN ('success', 'failed')"))

	// Crashes spend no try of the user's, and nothing but them is sealed by them.
	zero("a try too many or too few", "SELECT COUNT(*) FROM task_instance WHERE task_id = 'twice' AND failure_count <> 2")
	zero("a failure that was none", "SELECT COUNT(*) FROM task_instance WHERE task_id IN ('poison', 'second') AND failure_count > 1")
	zero("a letter of the wrong kind", `SELECT COUNT(*) FROM dead_letter WHERE NOT ((task_id = 'twice' AND error_class = 'exhausted') OR
 (task_id = 'part' AND error_class = 'exhausted') OR (task_id = 'poison' AND error_class = 'permanent') OR
 (task_id = 'slow' AND error_class = 'exhausted' AND error_code = 'TIMEOUT') OR (task_id = 'fragile' AND error_class = 'crash_loop'))`)
	zero("a try spent on waiting", "SELECT COUNT(*) FROM task_instance WHERE task_id IN ('busy', 'call') AND failure_count > 0")
	zero("a wrong value for others", "SELECT COUNT(*) FROM xcom WHERE task_id = 'names' AND value <> "+s.quoted("run_id"))
	require.Equal(s.t, runs, count(s.state, "SELECT COUNT(*) FROM xcom WHERE task_id = 'names'"))

	s.effects(runs)
	s.heard()
}

// quoted is a column as a JSON text, in the dialect of the state database.
func (s *storm) quoted(column string) string {
	if s.server != nil {
		return `CONCAT('"', ` + column + `, '"')`
	}
	return `'"' || ` + column + ` || '"'`
}

// effects counts what the steps did to the target: once each.
func (s *storm) effects(runs int) {
	s.t.Helper()
	require.Equal(s.t, runs, s.web.distinct(s.t, "/count"), "keys that the http step sent")
	require.Equal(s.t, runs, s.web.distinct(s.t, "/busy"))
	files, err := filepath.Glob(filepath.Join(s.folder, "file-*"))
	require.NoError(s.t, err)
	require.Len(s.t, files, runs, "files that the shell step renamed")
	require.Equal(s.t, runs, count(s.target, "SELECT COUNT(*) FROM ledger"), "rows that the sql step wrote")
	require.Equal(s.t, runs, count(s.target, "SELECT COUNT(DISTINCT run_id) FROM ledger"))
	require.Equal(s.t, runs, count(s.target, "SELECT n FROM tally WHERE id = 1"), "what the merge step added")
	require.Equal(s.t, 200, count(s.target, "SELECT COUNT(*) FROM silver"))
	require.Equal(s.t, 0, count(s.target, "SELECT COUNT(*) FROM airlock_effect WHERE status <> 'done'"))
	require.Equal(s.t, 3*runs, count(s.target, "SELECT COUNT(*) FROM airlock_effect"))
	require.Equal(s.t, 0, count(s.target, `SELECT COUNT(*) FROM airlock_effect WHERE rows_read <> rows_merged + rows_unchanged + rows_quarantined + rows_superseded`))
	require.Equal(s.t, runs, count(s.target, "SELECT COUNT(*) FROM airlock_effect WHERE rows_read = 202 AND rows_quarantined = 2"))
	require.Equal(s.t, 200, count(s.target, "SELECT rows_merged FROM airlock_effect WHERE rows_read = 202 AND rows_merged > 0"), "merged once, unchanged after it")
	// The last row is quarantined, and the watermark may pass it.
	require.Equal(s.t, 201, count(s.target, "SELECT value + 0 FROM airlock_watermark WHERE pipeline = 'rows'"))
}

// heard compares what the receiver got with what was sent: each event at least
// once, nothing else, and those of one task instance in their order.
func (s *storm) heard() {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(s.folder, "said"))
	require.NoError(s.t, err)
	first := map[string]int{}
	for i, line := range strings.Fields(string(b)) {
		if _, again := first[line]; !again {
			first[line] = i
		}
	}
	rows, err := s.state.Query(`SELECT dedup_key, run_id, task_id, map_index FROM callback_event
 WHERE kind IN ('on_retry_callback', 'on_failure_callback') AND task_id <> '' ORDER BY id`)
	require.NoError(s.t, err)
	defer func() { _ = rows.Close() }()
	latest := map[string]int{}
	sent := 0
	for rows.Next() {
		var key, run, task string
		var index int
		require.NoError(s.t, rows.Scan(&key, &run, &task, &index))
		sent++
		at, heard := first[key]
		require.True(s.t, heard, "an event of %s %s that nobody heard", run, task)
		instance := fmt.Sprint(run, " ", task, " ", index)
		before, earlier := latest[instance]
		require.True(s.t, !earlier || before < at, "an event of %s was heard before an older one", instance)
		latest[instance] = at
	}
	require.NoError(s.t, rows.Err())
	require.Len(s.t, first, sent, "somebody heard what nobody sent")
}
