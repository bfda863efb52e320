package integration

import (
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/stretchr/testify/require"
)

// What this file asks, it asks of the tables alone, with SQL of its own: it
// shares nothing with `db check` and nothing with the store.

// account is a query for what must not be there.
type account struct{ breaks, query string }

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
		{"more attempts than fences", `SELECT COUNT(*) FROM task_instance ti WHERE
 (SELECT COUNT(*) FROM task_attempt a WHERE a.task_instance_id = ti.id) > ti.fence`},
		{"budgets and attempts disagree", `SELECT COUNT(*) FROM task_instance ti WHERE ti.failure_count + ti.crash_count <>
 (SELECT COUNT(*) FROM task_attempt a WHERE a.task_instance_id = ti.id AND a.state IN ('failed', 'up_for_retry'))`},
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
 (task_id = 'fragile' AND error_class = 'crash_loop'))`)
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
	require.Equal(s.t, 201, count(s.target, "SELECT CAST(value AS INTEGER) FROM airlock_watermark WHERE pipeline = 'rows'"))
}

// heard compares what the receiver got with what was sent: each event at least
// once, and nothing else.
func (s *storm) heard() {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(s.folder, "said"))
	require.NoError(s.t, err)
	got := map[string]bool{}
	for _, line := range strings.Fields(string(b)) {
		got[line] = true
	}
	rows, err := s.state.Query("SELECT dedup_key FROM callback_event WHERE kind = 'on_failure_callback' AND task_id <> ''")
	require.NoError(s.t, err)
	defer func() { _ = rows.Close() }()
	var sent []string
	for rows.Next() {
		var key string
		require.NoError(s.t, rows.Scan(&key))
		sent = append(sent, key)
	}
	require.NoError(s.t, rows.Err())
	heard := make([]string, 0, len(got))
	for key := range got {
		heard = append(heard, key)
	}
	sort.Strings(sent)
	sort.Strings(heard)
	require.Equal(s.t, sent, heard)
}
