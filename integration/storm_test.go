package integration

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/sqltest"
)

// stormFile is the DAG: each of its tasks ends in a way of its own, and what it
// does to the target, the folder and the HTTP server is counted. %[1]s is a
// folder, %[2]s a statement that takes the target some time, %[3]s the server.
const stormFile = `
storm:
  schedule: "* * * * * *"
  catchup: false
  max_active_runs: 3
  max_active_tasks: 40
  default_args:
    retries: 0
    retry_delay: 0.2s
    max_crashes: 1000
    on_retry_callback:   {callback: command, command: "echo {{ dedup_key }} >> %[1]s/said"}
    on_failure_callback: {callback: command, command: "echo {{ dedup_key }} >> %[1]s/said"}
  tasks:
    twice:   {operator: bash, retries: 1, bash_command: "sleep 0.2; exit 1"}
    poison:  {operator: bash, retries: 3, bash_command: "exit 65"}
    skip:    {operator: bash, bash_command: "exit 99"}
    second:  {operator: bash, retries: 9, on_execute_callback: {callback: command, command: "true"}, bash_command: "test {{ ti.try_number }} -gt 1"}
    fragile: {operator: bash, max_crashes: 2, bash_command: "sleep 0.5; echo ok"}
    slow:    {operator: bash, execution_timeout: 0.5, bash_command: "sleep 600"}
    daemon:  {operator: bash, bash_command: "setsid sleep 600 > /dev/null 2>&1 & echo started"}
    file:    {operator: bash, bash_command: "t=$(mktemp %[1]s/part.XXXXXX); echo {{ run_id }} > $t; mv $t '%[1]s/file-{{ run_id }}'"}
    names:   {operator: bash, bash_command: "sleep 0.3; echo '[\"a\",\"b\",\"c\"]' > /dev/null; echo {{ run_id }}"}
    part:
      operator: bash
      dependencies: [names]
      expand: {bash_command: ["sleep 0.1; echo 1", "sleep 0.4; echo 2", "sleep 0.2; exit 3"]}
    call: {operator: http, endpoint: "%[3]s/count", method: POST, data: "{{ run_id }}", retries: 1000}
    busy: {operator: http, endpoint: "%[3]s/busy", method: POST, data: "{{ run_id }}", retries: 1000}
    count:
      operator: sql
      conn_id: target
      sql: ["INSERT INTO ledger (run_id, task_id) VALUES ('{{ run_id }}', 'count')", "%[2]s"]
      retries: 1000
    add:
      operator: merge
      conn_id: target
      retries: 1000
      sql: |
        MERGE INTO tally AS target USING (SELECT 1 AS id, 1 AS n) AS source ON target.id = source.id
        WHEN MATCHED THEN UPDATE SET n = target.n + source.n
    rows:
      operator: merge
      conn_id: target
      retries: 1000
      source: {file: "%[1]s/rows.csv", format: csv}
      columns: {id: {type: bigint, required: true}, v: {type: bigint, required: true}}
      target: silver
      create_target: true
      key: [id]
      watermark: {column: id, name: rows}
      bad_rows: {max: 10, max_ratio: 0.5}
    after:   {operator: bash, trigger_rule: all_done, dependencies: [count, add, rows, part, twice], bash_command: "echo end"}
`

// storm is one installation under attack.
type storm struct {
	*house
	rnd     *rand.Rand
	folder  string
	crew    []*process
	roles   [][]string
	points  []string         // that the crew may be ended at
	server  *sqltest.Process // nil on SQLite
	line    *line            // between the crew and the server
	web     *counter
	state   *sql.DB
	target  *sql.DB
	done    map[string]int // strikes by kind
	killed  int            // processes that died of SIGKILL
	reached map[string]int // crash points that killed
}

func newStorm(t *testing.T, h *house, seed int) *storm {
	t.Helper()
	bin, err := crashBuild()
	require.NoError(t, err)
	h.bin = bin
	s := &storm{
		house: h, rnd: rand.New(rand.NewPCG(uint64(seed), 7)), folder: filepath.Join(filepath.Dir(h.home), "out"),
		web: newCounter(t), done: map[string]int{}, reached: map[string]int{},
	}
	for _, p := range crashPoints(t) {
		// A migration has a test of its own, and a file is published by a step that
		// the storm has not.
		if !strings.HasPrefix(p, "migration: ") && !strings.HasPrefix(p, "file: ") {
			s.points = append(s.points, p)
		}
	}
	require.NoError(t, os.MkdirAll(s.folder, 0o755))
	var rows strings.Builder
	rows.WriteString("id,v\n")
	for i := 1; i <= 200; i++ {
		fmt.Fprintf(&rows, "%d,%d\n", i, i)
	}
	rows.WriteString("x,1\n201,y\n")
	require.NoError(t, os.WriteFile(filepath.Join(s.folder, "rows.csv"), []byte(rows.String()), 0o644))
	return s
}

// begin makes the target's tables, writes the DAG and starts everybody.
func (s *storm) begin(slow string, roles ...[]string) {
	s.t.Helper()
	for _, text := range []string{
		"CREATE TABLE ledger (run_id VARCHAR(250) NOT NULL, task_id VARCHAR(250) NOT NULL)",
		"CREATE TABLE tally (id BIGINT PRIMARY KEY, n BIGINT NOT NULL)",
		"INSERT INTO tally VALUES (1, 0)",
	} {
		_, err := s.target.Exec(text)
		require.NoError(s.t, err)
	}
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.autopsy()
		}
	})
	s.file("storm.yml", fmt.Sprintf(stormFile, s.folder, slow, s.web.url))
	s.roles = roles
	for _, role := range roles {
		s.crew = append(s.crew, s.start(role...))
	}
}

func (s *storm) attack(rounds int) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return count(s.state, "SELECT COUNT(*) FROM task_instance WHERE state = 'success'") > 0 },
		patience, 50*time.Millisecond)
	for i := range rounds {
		s.pause(1500)
		s.strike()
		s.living()
		if i%8 == 7 {
			s.leased()
		}
	}
	s.finish()
	s.accounts()
	require.Empty(s.t, s.children(), "processes that attempts left behind")
	s.checked()
	s.t.Logf("%d rounds, %d processes killed %v, at points %v: %d runs, %d instances, %d attempts, %d of them crashes, %d letters, %d events",
		rounds, s.killed, s.done, s.reached,
		count(s.state, "SELECT COUNT(*) FROM dag_run"), count(s.state, "SELECT COUNT(*) FROM task_instance"),
		count(s.state, "SELECT COUNT(*) FROM task_attempt"), count(s.state, "SELECT SUM(crash_count) FROM task_instance"),
		count(s.state, "SELECT COUNT(*) FROM dead_letter"), count(s.state, "SELECT COUNT(*) FROM callback_event"))
}

// finish takes the DAG away, so that no new run begins, and lets those in
// flight go to their end.
func (s *storm) finish() {
	s.t.Helper()
	require.NoError(s.t, os.Remove(filepath.Join(s.dags, "storm.yml")))
	until(s.t, s.state, 1, "SELECT COUNT(*) FROM dag WHERE is_stale = 1")
	for _, rest := range []string{
		"SELECT COUNT(*) FROM dag_run WHERE state IN ('queued', 'running')",
		"SELECT COUNT(*) FROM callback_event WHERE status = 'pending'",
	} {
		until(s.t, s.state, 0, rest)
	}
	for _, p := range s.crew {
		require.Zero(s.t, p.term(s.t))
	}
}

// autopsy prints what the tables say of everything that has not ended well: what
// has not ended, runs that have not all of their tasks, and letters that no step
// is meant to have.
func (s *storm) autopsy() {
	for _, q := range []string{
		"SELECT id, run_id, state, COALESCE(next_eval_at, '') FROM dag_run WHERE state IN ('queued', 'running')",
		`SELECT ti.id, ti.task_id, ti.map_index, ti.state, ti.fence, ti.try_number, ti.failure_count, ti.crash_count, ti.worker_id, COALESCE(ti.lease_until, ''),
 COALESCE(ti.next_try_at, '') FROM task_instance ti JOIN dag_run r ON r.id = ti.dag_run_id WHERE r.state IN ('queued', 'running')`,
		"SELECT id, task_id, map_index, try_number, kind, status, attempts, next_attempt_at, owner, last_error FROM callback_event WHERE status <> 'delivered'",
		`SELECT r.id, r.run_id, r.state, COUNT(DISTINCT ti.task_id) AS tasks FROM dag_run r LEFT JOIN task_instance ti ON ti.dag_run_id = r.id
 GROUP BY r.id, r.run_id, r.state HAVING COUNT(DISTINCT ti.task_id) <> (SELECT COUNT(DISTINCT task_id) FROM task_instance)`,
		`SELECT run_id, task_id, map_index, error_class, error_code, error_message FROM dead_letter
 WHERE task_id NOT IN ('twice', 'part', 'poison', 'slow', 'fragile')`,
	} {
		rows, err := s.state.Query(q)
		if err != nil {
			s.t.Logf("%s: %v", q, err)
			continue
		}
		columns, _ := rows.Columns()
		for rows.Next() {
			cells := make([]sql.NullString, len(columns))
			into := make([]any, len(columns))
			for i := range cells {
				into[i] = &cells[i]
			}
			_ = rows.Scan(into...)
			var line strings.Builder
			for i, c := range cells {
				fmt.Fprintf(&line, " %s=%s", columns[i], c.String)
			}
			s.t.Log(line.String())
		}
		_ = rows.Err()   // what was read is told all the same
		_ = rows.Close() //nolint:sqlclosecheck // it is a loop
	}
}

// counter is a service outside: it counts the requests that it got by their
// idempotency key, and asks the first of each key to /busy to come again.
type counter struct {
	url string

	mu   sync.Mutex
	keys map[string]map[string]int // by path
}

func newCounter(t testing.TB) *counter {
	c := &counter{keys: map[string]map[string]int{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.keys[r.URL.Path] == nil {
			c.keys[r.URL.Path] = map[string]int{}
		}
		key := r.Header.Get("Idempotency-Key")
		c.keys[r.URL.Path][key]++
		if r.URL.Path == "/busy" && c.keys[r.URL.Path][key] == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

// distinct is how many keys a path got, and none is empty.
func (c *counter) distinct(t testing.TB, path string) int {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	require.NotContains(t, c.keys[path], "")
	return len(c.keys[path])
}

// more lists the keys that a path got more than once, with how often.
func (c *counter) more(path string) map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]int{}
	for key, n := range c.keys[path] {
		if n > 1 {
			out[key] = n
		}
	}
	return out
}

// pause waits a drawn time of at most ms: how long is part of the attack.
func (s *storm) pause(ms int) { time.Sleep(time.Duration(s.rnd.IntN(ms)+1) * time.Millisecond) }

// children are the living processes of attempts of this installation.
func (s *storm) children() []int {
	var out []int
	entries, err := os.ReadDir("/proc")
	require.NoError(s.t, err)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err == nil && strings.Contains(string(env), "AIRLOCK_ATTEMPT=") && strings.Contains(string(env), "AIRLOCK_HOME="+s.home+"\x00") {
			out = append(out, pid)
		}
	}
	return out
}
