package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/sqltest"
)

// TestATakenTaskIsStoppedLongBeforeItsHeartbeat: in a fleet whose leases are
// renewed every twenty minutes, the processes of a run that timed out, and of a
// task that a person clears, end within a test's patience.
func TestATakenTaskIsStoppedLongBeforeItsHeartbeat(t *testing.T) {
	t.Parallel()
	dsn := sqltest.MariaDB(t)
	h := newHouse(t, "AIRLOCK__DATABASE__DSN="+dsn, "AIRLOCK__WORKER__LEASE_DURATION=1h", "AIRLOCK__WORKER__HEARTBEAT_INTERVAL=20m")
	h.ok("db", "migrate")
	pids := t.TempDir()
	h.file("taken.yml", fmt.Sprintf(`
timed:
  schedule: null
  dagrun_timeout: 15 # the worker has to begin it within that
  tasks: {t: {operator: bash, bash_command: "echo $$ > %[1]s/timed; exec sleep 600"}}
cleared:
  schedule: null
  tasks: {t: {operator: bash, bash_command: "echo $$ > %[1]s/cleared-{{ ti.try_number }}; exec sleep 600"}}
`, pids))
	h.start("scheduler")
	w := h.start("worker")
	db := open(t, dsn)
	until(t, db, 2, "SELECT COUNT(*) FROM dag")
	h.ok("dags", "trigger", "timed")
	h.ok("dags", "trigger", "cleared", "--run-id", "r")
	pid := func(name string) (pid int) {
		require.Eventually(t, func() bool {
			text, err := os.ReadFile(filepath.Join(pids, name))
			if err == nil {
				pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
			}
			return err == nil
		}, patience, pause)
		return pid
	}
	ends := func(pid int) {
		require.Eventually(t, func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH }, patience, pause)
	}
	timed, cleared := pid("timed"), pid("cleared-1")
	h.ok("tasks", "clear", "cleared", "--run-id", "r", "--yes")
	ends(timed)
	ends(cleared)
	again := pid("cleared-2") // it runs again, and is not taken for the one before
	require.NoError(t, syscall.Kill(again, 0))
	until(t, db, 1, "SELECT COUNT(*) FROM dag_run WHERE dag_id = 'timed' AND state = 'failed'")
	require.Equal(t, 2, strings.Count(w.log.tail(1<<20), "a lease was taken away"), "each is said once")
	h.checked()
}
