package integration

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/sqltest"
)

// The crash test kills what can be killed while a DAG of every kind of ending
// runs each second, and then counts. Its length is that of a unit test unless
// AIRLOCK_CRASH_ROUNDS asks for more; AIRLOCK_CRASH_SEED repeats a draw.
const defaultRounds = 4

func crashSetting(t *testing.T, name string, usual int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, name)
	return n
}

// stormFile is the DAG: each of its tasks ends in a way of its own, and what it
// does to the target is counted. %[1]s is a folder, %[2]s a statement that
// takes the target some time.
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
    on_failure_callback: {callback: command, command: "echo {{ dedup_key }} >> %[1]s/said"}
  tasks:
    twice:   {operator: bash, retries: 1, bash_command: "sleep 0.2; exit 1"}
    poison:  {operator: bash, retries: 3, bash_command: "exit 65"}
    skip:    {operator: bash, bash_command: "exit 99"}
    second:  {operator: bash, retries: 9, bash_command: "test {{ ti.try_number }} -gt 1"}
    fragile: {operator: bash, max_crashes: 2, bash_command: "sleep 0.5; echo ok"}
    daemon:  {operator: bash, bash_command: "setsid sleep 600 > /dev/null 2>&1 & echo started"}
    names:   {operator: bash, bash_command: "sleep 0.3; echo '[\"a\",\"b\",\"c\"]' > /dev/null; echo {{ run_id }}"}
    part:
      operator: bash
      dependencies: [names]
      expand: {bash_command: ["sleep 0.1; echo 1", "sleep 0.4; echo 2", "sleep 0.2; exit 3"]}
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
	rnd    *rand.Rand
	folder string
	crew   []*process
	roles  [][]string
	server *sqltest.Process // nil on SQLite
	state  *sql.DB
	target *sql.DB
	kills  map[string]int
}

func newStorm(t *testing.T, h *house, seed int) *storm {
	t.Helper()
	s := &storm{
		house: h, rnd: rand.New(rand.NewPCG(uint64(seed), 7)), folder: filepath.Join(filepath.Dir(h.home), "out"), kills: map[string]int{},
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
	s.file("storm.yml", fmt.Sprintf(stormFile, s.folder, slow))
	s.roles = roles
	for _, role := range roles {
		s.crew = append(s.crew, s.start(role...))
	}
}

// strike does one bad thing and, where something died, starts it again.
func (s *storm) strike() {
	s.t.Helper()
	kinds := []string{"kill", "kill", "kill", "child", "freeze", "twice"}
	if s.server != nil {
		kinds = append(kinds, "server", "all")
	}
	kind := kinds[s.rnd.IntN(len(kinds))]
	i := s.rnd.IntN(len(s.crew))
	s.kills[kind]++
	switch kind {
	case "kill":
		s.crew[i].kill()
		s.crew[i] = s.start(s.roles[i]...)
	case "twice": // again before it has found its feet
		s.crew[i].kill()
		s.crew[i] = s.start(s.roles[i]...)
		s.pause(300)
		s.crew[i].kill()
		s.crew[i] = s.start(s.roles[i]...)
	case "child":
		if pids := s.children(); len(pids) > 0 {
			_ = syscall.Kill(pids[s.rnd.IntN(len(pids))], syscall.SIGKILL)
		}
	case "freeze": // longer than a lease: it wakes up to find itself replaced
		_ = s.crew[i].cmd.Process.Signal(syscall.SIGSTOP)
		time.Sleep(4 * time.Second)
		_ = s.crew[i].cmd.Process.Signal(syscall.SIGCONT)
	case "server":
		s.server.Kill()
		s.pause(2000)
		s.server.Restart(s.t)
	case "all": // the lights go out
		s.server.Kill()
		for j := range s.crew {
			s.crew[j].kill()
		}
		s.server.Restart(s.t)
		for j, role := range s.roles {
			s.crew[j] = s.start(role...)
		}
	}
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

func (s *storm) attack(rounds int) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return count(s.state, "SELECT COUNT(*) FROM task_instance WHERE state = 'success'") > 0 },
		patience, 50*time.Millisecond)
	for range rounds {
		s.pause(1500)
		s.strike()
		s.living()
	}
	s.finish()
	s.accounts()
	require.Empty(s.t, s.children(), "processes that attempts left behind")
	s.checked()
	s.t.Logf("%d rounds %v: %d runs, %d instances, %d attempts, %d letters", rounds, s.kills,
		count(s.state, "SELECT COUNT(*) FROM dag_run"), count(s.state, "SELECT COUNT(*) FROM task_instance"),
		count(s.state, "SELECT COUNT(*) FROM task_attempt"), count(s.state, "SELECT COUNT(*) FROM dead_letter"))
}

// TestCrashStandalone attacks two processes on one SQLite file.
func TestCrashStandalone(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	target := filepath.Join(filepath.Dir(h.home), "target.db")
	h.env = append(h.env, "AIRLOCK_CONN_TARGET=sqlite:///"+target)
	s := newStorm(t, h, crashSetting(t, "AIRLOCK_CRASH_SEED", 1))
	var err error
	s.target, err = sql.Open("sqlite", "file:"+target+"?_pragma=busy_timeout(10000)")
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.target.Close() })
	h.ok("db", "migrate")
	s.state = h.db()
	s.begin("WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 200000) SELECT COUNT(*) FROM c",
		[]string{"standalone"}, []string{"standalone"})
	s.attack(crashSetting(t, "AIRLOCK_CRASH_ROUNDS", defaultRounds))
}

// TestCrashFleet attacks schedulers, workers and the server itself.
func TestCrashFleet(t *testing.T) {
	t.Parallel()
	server := sqltest.StartMariaDB(t)
	dsn, target := server.Fresh(t), server.Fresh(t)
	h := newHouse(t, "AIRLOCK__DATABASE__DSN="+dsn, "AIRLOCK_CONN_TARGET="+target)
	s := newStorm(t, h, crashSetting(t, "AIRLOCK_CRASH_SEED", 1))
	s.server, s.state, s.target = server, open(t, dsn), open(t, target)
	h.ok("db", "migrate")
	s.begin("SELECT SLEEP(0.3)", []string{"scheduler"}, []string{"scheduler"}, []string{"worker"}, []string{"worker"})
	s.attack(crashSetting(t, "AIRLOCK_CRASH_ROUNDS", defaultRounds))
}
