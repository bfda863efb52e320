package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// everySecond is a cron text with seconds, which stand last as in croniter.
const everySecond = `"* * * * * *"`

func TestStandaloneSchedulesByCron(t *testing.T) {
	t.Parallel()
	h := newHouse(t, unhurried)
	h.file("tick.yml", `
tick:
  schedule: `+everySecond+`
  tasks:
    one: {operator: bash, bash_command: "echo {{ run_id }}"}
    two: {operator: bash, bash_command: "echo {{ ti.xcom_pull(task_ids='one') }}", dependencies: [one]}
`)
	p := h.start("standalone")
	db := h.db()
	require.Eventually(t, func() bool {
		return count(db, "SELECT COUNT(*) FROM dag_run WHERE state = 'success'") >= 3
	}, patience, 100*time.Millisecond)
	require.Zero(t, p.term(t))
	// Each run is the only one of its second, and its second task got what the
	// first one printed: the run's own id.
	require.Zero(t, count(db, "SELECT COUNT(*) FROM (SELECT logical_date FROM dag_run GROUP BY logical_date HAVING COUNT(*) > 1)"))
	require.Zero(t, count(db, `SELECT COUNT(*) FROM xcom x WHERE x.task_id = 'two' AND x.value <> json_quote(x.run_id)`))
	h.checked()
}

func TestBrokenFileLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	h := newHouse(t, unhurried)
	good := "good:\n  schedule: " + everySecond + "\n  tasks:\n    a: {operator: bash, bash_command: \"true\"}\n"
	other := strings.ReplaceAll(good, "good", "other")
	h.file("good.yml", good)
	h.file("other.yml", other)
	h.start("standalone")
	db := h.db()
	runs := func(id string) int {
		return count(db, "SELECT COUNT(*) FROM dag_run WHERE dag_id = ? AND state = 'success'", id)
	}
	require.Eventually(t, func() bool { return runs("good") >= 1 && runs("other") >= 1 }, patience, 50*time.Millisecond)

	h.file("good.yml", strings.Replace(good, "tasks:", "taskz:", 1))
	until(t, db, 1, "SELECT COUNT(*) FROM dag WHERE dag_id = 'good' AND is_stale = 1")
	until(t, db, 0, "SELECT COUNT(*) FROM dag_run WHERE dag_id = 'good' AND state IN ('queued','running')")
	stopped, before := runs("good"), runs("other")
	require.Eventually(t, func() bool { return runs("other") >= before+2 }, patience, 50*time.Millisecond)
	require.Equal(t, stopped, runs("good"), "a broken file's DAG starts no new runs")
	require.Contains(t, h.ok("dags", "list"), "good")
	r := h.run("dags", "validate")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.out+r.errOut, "good.yml:3:3")

	h.file("good.yml", good)
	require.Eventually(t, func() bool { return runs("good") > stopped }, patience, 50*time.Millisecond)

	require.NoError(t, os.Remove(filepath.Join(h.dags, "other.yml")))
	until(t, db, 1, "SELECT COUNT(*) FROM dag WHERE dag_id = 'other' AND is_stale = 1")
	h.file("added.yml", strings.ReplaceAll(good, "good", "added"))
	require.Eventually(t, func() bool { return runs("added") >= 1 }, patience, 50*time.Millisecond)
}

// TestKilledProcessIsRedelivered is case C36 and C05 (b): kill -9 of the whole
// product while a child sleeps; after a restart the attempt counts as a crash,
// the next one runs, and the child of the first is gone by then.
func TestKilledProcessIsRedelivered(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	pids := filepath.Join(h.home, "pids")
	h.file("slow.yml", fmt.Sprintf(`
slow:
  schedule: null
  tasks:
    nap:
      operator: bash
      retries: 2
      retry_delay: 1s
      bash_command: |
        echo $$ >> %s
        if [ "$(wc -l < %s)" = 1 ]; then sleep 600; fi
        echo done
`, pids, pids))
	p := h.start("standalone")
	db := h.db()
	until(t, db, 1, "SELECT COUNT(*) FROM dag WHERE dag_id = 'slow'")
	h.ok("dags", "trigger", "slow")
	require.Eventually(t, func() bool { b, _ := os.ReadFile(pids); return len(b) > 0 }, patience, 20*time.Millisecond)
	p.kill()
	h.start("standalone")
	until(t, db, 1, "SELECT COUNT(*) FROM task_instance WHERE state = 'success' AND crash_count = 1 AND failure_count = 0")
	until(t, db, 1, "SELECT COUNT(*) FROM task_attempt WHERE error_code = 'WORKER_LOST'")
	var first int
	b, err := os.ReadFile(pids)
	require.NoError(t, err)
	_, err = fmt.Sscanf(string(b), "%d", &first)
	require.NoError(t, err)
	require.ErrorIs(t, syscall.Kill(first, 0), syscall.ESRCH, "the first attempt's child is still alive")
	h.checked()
}

// TestEachEndingHasItsLetterAndCallback is case C12: the callback fires once
// for a failure, a kill of the child, a time limit and a killed product.
func TestEachEndingHasItsLetterAndCallback(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	said := filepath.Join(h.home, "said")
	h.file("ends.yml", fmt.Sprintf(`
ends:
  schedule: null
  default_args:
    max_crashes: 1
    on_failure_callback: {callback: command, command: "echo {{ ti.task_id }} {{ error_code }} >> %s"}
  tasks:
    fails:    {operator: bash, bash_command: "exit 1"}
    killed:   {operator: bash, bash_command: "kill -9 $$"}
    too_long: {operator: bash, bash_command: "sleep 600", execution_timeout: 1s}
    lost:     {operator: bash, bash_command: "touch %s.lost; sleep 600"}
`, said, said))
	p := h.start("standalone")
	db := h.db()
	until(t, db, 1, "SELECT COUNT(*) FROM dag WHERE dag_id = 'ends'")
	h.ok("dags", "trigger", "ends")
	until(t, db, 3, "SELECT COUNT(*) FROM dead_letter")
	require.Eventually(t, func() bool { _, err := os.Stat(said + ".lost"); return err == nil }, patience, 20*time.Millisecond)
	// A process that dies between a delivery and its record delivers again: here
	// the deliveries are recorded first.
	until(t, db, 3, "SELECT COUNT(*) FROM callback_event WHERE status = 'delivered'")
	p.kill()
	h.start("standalone")
	until(t, db, 4, "SELECT COUNT(*) FROM dead_letter")
	until(t, db, 4, "SELECT COUNT(*) FROM callback_event WHERE status = 'delivered'")
	b, err := os.ReadFile(said)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	require.ElementsMatch(t, []string{"fails EXIT_CODE", "killed KILLED_SIGNAL", "too_long TIMEOUT", "lost WORKER_LOST"}, lines)
	until(t, db, 2, "SELECT COUNT(*) FROM dead_letter WHERE error_class = 'exhausted'")
	until(t, db, 2, "SELECT COUNT(*) FROM dead_letter WHERE error_class = 'crash_loop'")
	until(t, db, 1, "SELECT COUNT(*) FROM dag_run WHERE state = 'failed'")
	h.checked()
}

// TestTermDrains: running work finishes within the limit; past it, it is handed
// back with no attempt spent.
func TestTermDrains(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "AIRLOCK__WORKER__DRAIN_TIMEOUT=8s", unhurried)
	gate := filepath.Join(h.home, "gate")
	h.file("drain.yml", fmt.Sprintf(`
drain:
  schedule: null
  tasks:
    quick: {operator: bash, bash_command: "touch %[1]s.quick; until test -e %[1]s.stops; do sleep 0.05; done"}
    slow:  {operator: bash, bash_command: "touch %[1]s.slow; sleep 600"}
`, gate))
	p := h.start("standalone")
	db := h.db()
	until(t, db, 1, "SELECT COUNT(*) FROM dag WHERE dag_id = 'drain'")
	h.ok("dags", "trigger", "drain")
	for _, name := range []string{".quick", ".slow"} {
		require.Eventually(t, func() bool { _, err := os.Stat(gate + name); return err == nil }, patience, 20*time.Millisecond)
	}
	go func() { // the quick one ends when the process has been told to
		for !strings.Contains(p.log.tail(1<<20), "running tasks may finish") && !p.dead() {
			time.Sleep(pause)
		}
		_ = os.WriteFile(gate+".stops", nil, 0o600)
	}()
	require.Zero(t, p.term(t))
	require.Equal(t, 1, count(db, "SELECT COUNT(*) FROM task_instance WHERE task_id = 'quick' AND state = 'success'"))
	require.Equal(t, 1, count(db, "SELECT COUNT(*) FROM task_instance WHERE task_id = 'slow' AND state = 'queued' AND try_number = 0 AND failure_count = 0 AND crash_count = 0"))
	h.checked()
}

// TestRetriesThenSeal: attempts are counted, each has its log, and the letter
// is written when the budget is used up.
func TestRetriesThenSeal(t *testing.T) {
	t.Parallel()
	h := newHouse(t, unhurried)
	h.file("again.yml", `
again:
  schedule: null
  tasks:
    flaky: {operator: bash, retries: 2, retry_delay: 0.2s, bash_command: "echo try {{ ti.try_number }}; test {{ ti.try_number }} = 3"}
    never: {operator: bash, retries: 2, retry_delay: 0.2s, bash_command: "echo no >&2; exit 7"}
    dataerr: {operator: bash, retries: 5, bash_command: "exit 65"}
`)
	h.run("dags", "test", "again")
	db := h.db()
	require.Equal(t, 3, count(db, "SELECT try_number FROM task_instance WHERE task_id = 'flaky' AND state = 'success'"))
	require.Equal(t, 3, count(db, "SELECT attempt_count FROM dead_letter WHERE task_id = 'never' AND error_class = 'exhausted'"))
	require.Equal(t, 1, count(db, "SELECT attempt_count FROM dead_letter WHERE task_id = 'dataerr' AND error_class = 'permanent'"))
	var runID string
	require.NoError(t, db.QueryRow("SELECT run_id FROM dag_run").Scan(&runID))
	require.Contains(t, h.ok("tasks", "logs", "again", runID, "flaky", "--try", "2"), "try 2")
	h.checked()
}

// TestCleanUpStepDoesNotHideTheFailure is case C16: the run follows Airflow and
// is a success by its last task; the failed task has its letter and its alert,
// and the list of runs says that one failed.
func TestCleanUpStepDoesNotHideTheFailure(t *testing.T) {
	t.Parallel()
	h := newHouse(t, unhurried)
	said := filepath.Join(filepath.Dir(h.dags), "said")
	h.file("leaf.yml", fmt.Sprintf(`
cleanup_leaf:
  schedule: "@once"
  default_args: {start_date: 2026-03-01, on_failure_callback: {callback: command, command: "echo {{ ti.task_id }} >> %s"}}
  tasks:
    - {task_id: prepare, operator: bash, bash_command: echo prepare}
    - {task_id: transcode, operator: bash, bash_command: exit 3, dependencies: [prepare]}
    - {task_id: publish, operator: bash, bash_command: echo must not run, dependencies: [transcode]}
    - {task_id: cleanup, operator: bash, bash_command: echo cleanup, dependencies: [publish], trigger_rule: all_done}
`, said))
	out := h.ok("dags", "test", "cleanup_leaf")
	require.Contains(t, out, "success")
	require.Contains(t, out, "1 sealed")
	db := h.db()
	require.Equal(t, 1, count(db, "SELECT COUNT(*) FROM dag_run WHERE state = 'success'"))
	require.Equal(t, 1, count(db, "SELECT COUNT(*) FROM dead_letter WHERE task_id = 'transcode'"))
	require.Equal(t, 1, count(db, "SELECT COUNT(*) FROM task_instance WHERE task_id = 'publish' AND state = 'upstream_failed'"))
	text, err := os.ReadFile(said)
	require.NoError(t, err)
	require.Equal(t, "transcode\n", string(text))
	require.Regexp(t, `success.*\t1\n`, h.ok("dags", "list-runs", "cleanup_leaf", "-o", "plain"))
}
