package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rollingFile may lose nothing: a crash, or a failure, seals. %[1]s is when it
// begins, %[2]s a file that gets a line for each step.
const rollingFile = `
rolling:
  schedule: "* * * * * *"
  start_date: "%[1]s"
  catchup: true
  max_active_runs: 20
  max_active_tasks: 100
  default_args: {retries: 0, max_crashes: 1}
  tasks:
    one:   {operator: bash, bash_command: "sleep 0.3; echo '{{ ts }} one' >> %[2]s"}
    two:   {operator: bash, dependencies: [one], bash_command: "sleep 0.3; echo '{{ ts }} two' >> %[2]s"}
    three: {operator: bash, dependencies: [one], bash_command: "sleep 0.3; echo '{{ ts }} three' >> %[2]s"}
`

// took is the time between two lines of a process's log that hold the texts.
func (p *process) took(from, to string) (time.Duration, bool) {
	at := func(text string) (time.Time, bool) {
		m := regexp.MustCompile(`(?m)^time=(\S+) .*` + regexp.QuoteMeta(text)).FindStringSubmatch(p.log.tail(1 << 20))
		if m == nil {
			return time.Time{}, false
		}
		t, err := time.Parse(time.RFC3339, m[1])
		return t, err == nil
	}
	a, first := at(from)
	b, second := at(to)
	return b.Sub(a), first && second
}

// TestRollingRestart: every process of a fleet is stopped and replaced under
// load, as a new version is rolled out. Nothing is lost, nothing is done twice,
// no date is left out, and no attempt is spent on it.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	h, db := fleet(t, "AIRLOCK__WORKER__CONCURRENCY=4", unhurried)
	ledger := filepath.Join(h.home, "ledger")
	h.file("rolling.yml", fmt.Sprintf(rollingFile, time.Now().UTC().Format(time.RFC3339), ledger))
	roles := []string{"scheduler", "scheduler", "worker", "worker", "worker"}
	var crew []*process
	for _, role := range roles {
		crew = append(crew, h.start(role))
	}
	ended := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool { return count(db, "SELECT COUNT(*) FROM dag_run WHERE state = 'success'") >= n }, patience, pause)
	}
	ended(2)
	for i, role := range roles {
		before := count(db, "SELECT COUNT(*) FROM dag_run WHERE state = 'success'")
		require.Zero(t, crew[i].term(t))
		crew[i] = h.start(role)
		ended(before + 2)
	}
	require.NoError(t, os.Remove(filepath.Join(h.dags, "rolling.yml")))
	until(t, db, 1, "SELECT COUNT(*) FROM dag WHERE is_stale = 1")
	until(t, db, 0, "SELECT COUNT(*) FROM dag_run WHERE state IN ('queued', 'running')")
	runs := count(db, "SELECT COUNT(*) FROM dag_run WHERE state = 'success'")
	require.Equal(t, runs, count(db, "SELECT COUNT(*) FROM dag_run"))
	require.Equal(t, runs, count(db, "SELECT TIMESTAMPDIFF(SECOND, MIN(logical_date), MAX(logical_date)) + 1 FROM dag_run"), "a run for each second")
	require.Equal(t, 3*runs, count(db, "SELECT COUNT(*) FROM task_attempt WHERE state = 'success' AND try_number = 1"))
	require.Equal(t, 3*runs, count(db, "SELECT COUNT(*) FROM task_attempt"))
	b, err := os.ReadFile(ledger)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	once := map[string]bool{}
	for _, line := range lines {
		require.False(t, once[line], "%s was done twice", line)
		once[line] = true
	}
	require.Len(t, once, 3*runs)
	for i, p := range crew {
		if d, ok := p.took("airlock is up", "task instance running"); ok {
			t.Logf("%s %d took its first task %s after it was up", roles[i], i, d)
		}
		require.Zero(t, p.term(t))
	}
	h.checked()
}
