package integration

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/sqltest"
)

// stoppedLetters is how many letters are sealed and put back in the tests of
// this file, at a rate that leaves time to stop the process in the middle.
const stoppedLetters = 48

// TestADrainIsStoppedAndGoesOn: a person presses Ctrl-C, and the machine dies.
// Each time the drain goes on where it was; every letter is put back once, and
// its effect is there once.
func TestADrainIsStoppedAndGoesOn(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t, unhurried)
		h.ok("db", "migrate")
		stopDrain(t, h, h.db(), "standalone")
	})
	t.Run("mariadb", func(t *testing.T) {
		t.Parallel()
		dsn := sqltest.MariaDB(t)
		h := newHouse(t, "AIRLOCK__DATABASE__DSN="+dsn, unhurried)
		h.ok("db", "migrate")
		stopDrain(t, h, open(t, dsn), "standalone")
	})
}

func stopDrain(t *testing.T, h *house, db *sql.DB, role string) {
	t.Helper()
	ledger, fixed := filepath.Join(h.home, "ledger"), filepath.Join(h.home, "fixed")
	var numbers []string
	for i := range stoppedLetters {
		numbers = append(numbers, fmt.Sprintf(`"%d"`, i))
	}
	h.file("work.yml", fmt.Sprintf(`work:
  schedule: null
  max_active_tasks: 1000
  tasks:
    one:
      operator: bash
      bash_command: 'test -f %s || exit 65; echo "$N" >> %s'
      expand: {env: [%s]}
`, fixed, ledger, "{N: "+strings.Join(numbers, "}, {N: ")+"}"))
	h.env = append(h.env, "AIRLOCK__WORKER__CONCURRENCY=8", "AIRLOCK__LOGGING__LEVEL=error")
	h.start(role)
	until(t, db, 1, "SELECT COUNT(*) FROM dag")
	h.ok("dags", "trigger", "work")
	until(t, db, stoppedLetters, "SELECT COUNT(*) FROM dead_letter WHERE status = 'sealed'")
	until(t, db, 1, "SELECT COUNT(*) FROM dag_run WHERE state = 'failed'")
	require.NoError(t, os.WriteFile(fixed, nil, 0o600))

	decided := func() int { return count(db, "SELECT COUNT(*) FROM dead_letter_audit WHERE drain_id IS NOT NULL") }
	atLeast := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool { return decided() >= n }, patience, 5*time.Millisecond, "%d letters decided", n)
	}
	// Ctrl-C: the letter in hand is finished, the drain says that it is stopped.
	p := h.start("dlq", "replay", "--apply", "--rate", "4/s")
	atLeast(4)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGINT))
	select {
	case <-p.done:
	case <-time.After(patience):
		t.Fatal("the drain goes on after Ctrl-C")
	}
	require.Equal(t, 1, p.cmd.ProcessState.ExitCode())
	var id, state string
	require.NoError(t, db.QueryRow("SELECT id, state FROM replay_drain").Scan(&id, &state))
	require.Equal(t, "stopped", state)
	require.Contains(t, p.log.tail(1<<20), "airlock dlq resume "+id)
	first := decided()
	require.Less(t, first, stoppedLetters, "the test has to stop it in the middle")
	require.Equal(t, first, count(db, "SELECT replayed FROM replay_drain"))
	h.checked()

	// kill -9: nothing is said, and nothing is lost.
	p = h.start("dlq", "resume", id)
	atLeast(first + 4)
	p.kill()
	require.NoError(t, db.QueryRow("SELECT state FROM replay_drain").Scan(&state))
	require.Equal(t, "running", state)
	second := decided()
	require.Less(t, second, stoppedLetters, "the test has to kill it in the middle")
	require.Equal(t, second, count(db, "SELECT replayed FROM replay_drain"))

	out := h.ok("dlq", "resume", id, "--wait")
	require.Contains(t, out, fmt.Sprint(stoppedLetters))
	require.Equal(t, stoppedLetters, decided())
	require.Equal(t, stoppedLetters, count(db, "SELECT COUNT(DISTINCT dead_letter_id) FROM dead_letter_audit WHERE drain_id = ? AND outcome = 'resolved'", id))
	require.Equal(t, stoppedLetters, count(db, "SELECT COUNT(*) FROM dead_letter WHERE status = 'resolved'"))
	text, err := os.ReadFile(ledger)
	require.NoError(t, err)
	lines := strings.Fields(string(text))
	seen := map[string]bool{}
	for _, l := range lines {
		seen[l] = true
	}
	require.Equal(t, []int{stoppedLetters, stoppedLetters}, []int{len(lines), len(seen)}, "each effect once")
	h.checked()
}
