package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/sqltest"
)

// fencedFile has a task for each kind of effect, each in a queue of its own.
const fencedFile = `
fenced:
  schedule: null
  default_args: {retries: 100, retry_delay: 0.1s, max_crashes: 100}
  tasks:
    result: {operator: bash, queue: result, bash_command: "echo {{ ti.try_number }}"}
    count:  {operator: sql, queue: sql, conn_id: target, sql: ["UPDATE tally SET n = n + 1 WHERE id = 1"]}
    add:
      operator: merge
      queue: merge
      conn_id: target
      sql: |
        MERGE INTO tally AS target USING (SELECT 2 AS id, 1 AS n) AS source ON target.id = source.id
        WHEN MATCHED THEN UPDATE SET n = target.n + source.n
    call:   {operator: http, queue: http, endpoint: "$WEB/count", method: POST}
    sound:  {operator: transcode, queue: file, path: in.wav, profile: audio-aac, output_dir: "$DIR", accelerator: cpu}
`

// stopped tells whether a process stands still after SIGSTOP.
func stopped(p *process) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return strings.HasPrefix(rest, "T")
}

// TestAStoppedProcessChangesNothing: five workers are stopped just before they
// would do something that others see, for longer than their leases. Others take
// over. When the five go on, none of them writes a result, commits, sends or
// renames.
func TestAStoppedProcessChangesNothing(t *testing.T) {
	t.Parallel()
	bin, err := crashBuild()
	require.NoError(t, err)
	dsn, target := sqltest.MariaDB(t), tally(t)
	sqltest.Exec(t, target, "INSERT INTO tally VALUES (2, 0)")
	web := newCounter(t)
	h := newHouse(t, "AIRLOCK__DATABASE__DSN="+dsn, "AIRLOCK_CONN_TARGET="+target)
	h.bin = bin
	sound(t, filepath.Join(h.dags, "in.wav"))
	h.file("fenced.yml", strings.NewReplacer("$WEB", web.url, "$DIR", h.dags).Replace(fencedFile))
	h.ok("db", "migrate")
	db, effects := open(t, dsn), open(t, target)
	h.start("scheduler")
	until(t, db, 1, "SELECT COUNT(*) FROM dag")
	traces := map[string]string{}
	var asleep []*process
	for queue, point := range map[string]string{
		"result": "worker: after the operator", "sql": "sql step: before it asks for the lease", "merge": "merge: before it asks for the lease",
		"http": "http step: before it asks for the lease", "file": "file: before it asks for the lease",
	} {
		traces[queue] = filepath.Join(filepath.Dir(h.home), "trace-"+queue)
		asleep = append(asleep, h.startWith([]string{"AIRLOCK_CRASH_AT=" + point, "AIRLOCK_CRASH_DO=stop", "AIRLOCK_CRASH_TRACE=" + traces[queue]},
			"worker", "--queues", queue))
	}
	h.ok("dags", "trigger", "fenced")
	for _, p := range asleep {
		require.Eventually(t, func() bool { return stopped(p) }, patience, pause)
	}
	h.start("worker")
	// The reaper's fence is 2, the next attempt's 3. That of the database steps
	// waits for the locks of the one that stands still.
	until(t, db, 5, "SELECT COUNT(*) FROM task_instance WHERE fence >= 3")
	until(t, db, 2, "SELECT COUNT(*) FROM task_instance WHERE task_id IN ('result', 'call') AND state = 'success'")
	for _, p := range asleep {
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT))
	}
	until(t, db, 1, "SELECT COUNT(*) FROM dag_run WHERE state = 'success'")
	for _, p := range asleep {
		require.Zero(t, p.term(t), "it has found out, and ends in order")
	}
	require.Equal(t, 2, count(effects, "SELECT COUNT(*) FROM tally WHERE n = 1"))
	require.Equal(t, map[string]int{}, web.more("/count"), "requests beyond one a key")
	require.Equal(t, 1, web.distinct(t, "/count"))
	b, err := os.ReadFile(traces["file"])
	require.NoError(t, err)
	require.NotContains(t, string(b), "file: between the two renames")
	require.Equal(t, 5, count(db, "SELECT COUNT(*) FROM task_attempt WHERE state = 'success'"))
	require.Zero(t, count(db, "SELECT COUNT(*) FROM task_attempt WHERE state = 'success' AND fence < 3"))
	for _, a := range always() {
		require.Equal(t, 0, count(db, a.query), a.breaks)
	}
	h.checked()
}

// TestClocksOfMachinesMayDiffer: one worker's clock is ten minutes ahead, the
// other's ten minutes late, and the scheduler's five. The database's counts:
// nobody loses a lease, and a retry that is due in a second is due then.
func TestClocksOfMachinesMayDiffer(t *testing.T) {
	t.Parallel()
	bin, err := crashBuild()
	require.NoError(t, err)
	dsn := sqltest.MariaDB(t)
	h := newHouse(t, "AIRLOCK__DATABASE__DSN="+dsn, "AIRLOCK__WORKER__CONCURRENCY=2", unhurried)
	h.bin = bin
	var tasks strings.Builder
	for i := range 12 {
		fmt.Fprintf(&tasks, "    t%d: {operator: bash, retries: 1, retry_delay: 1s, bash_command: \"sleep 0.5; test {{ ti.try_number }} -gt 1\"}\n", i)
	}
	h.file("clocks.yml", "clocks:\n  schedule: null\n  tasks:\n"+tasks.String())
	h.ok("db", "migrate")
	db := open(t, dsn)
	h.startWith([]string{"AIRLOCK_CRASH_CLOCK=-5m"}, "scheduler")
	ahead := h.startWith([]string{"AIRLOCK_CRASH_CLOCK=10m"}, "worker")
	late := h.startWith([]string{"AIRLOCK_CRASH_CLOCK=-10m"}, "worker")
	until(t, db, 1, "SELECT COUNT(*) FROM dag")
	h.ok("dags", "trigger", "clocks")
	until(t, db, 1, "SELECT COUNT(*) FROM dag_run WHERE state = 'success'")
	require.Equal(t, 24, count(db, "SELECT COUNT(*) FROM task_attempt"))
	require.Zero(t, count(db, "SELECT SUM(crash_count) FROM task_instance"))
	require.Zero(t, count(db, `SELECT COUNT(*) FROM task_attempt a JOIN task_instance ti ON ti.id = a.task_instance_id JOIN dag_run r ON r.id = ti.dag_run_id
 WHERE a.start_date < r.start_date - INTERVAL 1 SECOND OR a.end_date < a.start_date OR a.end_date > UTC_TIMESTAMP(6)`), "times that only one machine believes")
	for _, p := range []*process{ahead, late} {
		if strings.Contains(p.log.tail(1<<20), "task instance") {
			require.Contains(t, p.log.tail(1<<20), "this machine's clock differs from the state database's")
		}
	}
	h.checked()
}
