package integration

import (
	"context"
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

// outageFile has no budget to waste: one crash or failure seals. %[1]s is a
// file that gets a line for each start. The first two tasks end when the database
// is away, the third outlives its lease.
const outageFile = `
outage:
  schedule: null
  default_args: {retries: 0, max_crashes: 1, on_failure_callback: {callback: log}}
  tasks:
    short: {operator: bash, bash_command: "echo short >> %[1]s; until test -e %[1]s.away; do sleep 0.05; done; echo ok"}
    wrong: {operator: bash, bash_command: "echo wrong >> %[1]s; until test -e %[1]s.away; do sleep 0.05; done; exit 65"}
    long:  {operator: bash, bash_command: "echo long >> %[1]s; sleep 8; echo ok"}
    next:  {operator: bash, dependencies: [short], bash_command: "echo {{ ti.xcom_pull(task_ids='short') }} >> %[1]s"}
`

// outageLease outlasts the short steps and ends before the outage does.
const outageLease = "AIRLOCK__WORKER__LEASE_DURATION=6s"

// survives begins the DAG, has the database away for longer than a lease, and
// counts: what had ended is written once, and nothing is spent by the outage.
// away calls gone when it is.
func survives(t *testing.T, h *house, db *sql.DB, away func(gone func())) {
	t.Helper()
	starts := filepath.Join(filepath.Dir(h.home), "starts")
	h.file("outage.yml", fmt.Sprintf(outageFile, starts))
	until(t, db, 1, "SELECT COUNT(*) FROM dag")
	h.ok("dags", "trigger", "outage")
	lines := func() []string { b, _ := os.ReadFile(starts); return strings.Fields(string(b)) }
	require.Eventually(t, func() bool { return len(lines()) == 3 }, patience, 20*time.Millisecond)
	away(func() { require.NoError(t, os.WriteFile(starts+".away", nil, 0o600)) })
	until(t, db, 1, "SELECT COUNT(*) FROM dag_run WHERE state = 'failed'")
	until(t, db, 3, "SELECT COUNT(*) FROM task_instance WHERE state = 'success' AND failure_count = 0 AND crash_count = 0")
	until(t, db, 1, "SELECT COUNT(*) FROM dead_letter WHERE task_id = 'wrong' AND error_code = 'DATA_ERROR'")
	require.Equal(t, 1, count(db, "SELECT COUNT(*) FROM dead_letter"))
	once := map[string]int{}
	for _, line := range lines() {
		once[line]++
	}
	delete(once, "long") // stopped before its lease ended, and begun again
	require.Equal(t, map[string]int{"short": 1, "wrong": 1, "ok": 1}, once)
	for _, a := range always() {
		require.Equal(t, 0, count(db, a.query), a.breaks)
	}
	h.checked()
}

// saysLittle holds that a process complained of each thing that it tried once,
// or each ten seconds when the cause changed, though it tried all the time.
func saysLittle(t *testing.T, p *process) {
	t.Helper()
	of := map[string]int{}
	for line := range strings.Lines(p.log.tail(1 << 20)) {
		if _, rest, found := strings.Cut(line, ` msg="`); found && strings.Contains(rest, " error=") && !strings.Contains(rest, "task_") {
			message, _, _ := strings.Cut(rest, `"`)
			of[message]++
		}
	}
	for message, n := range of {
		require.LessOrEqual(t, n, 2+int(patience/(10*time.Second)), message)
	}
}

// TestLockedFile: another program holds the SQLite file's write lock.
func TestLockedFile(t *testing.T) {
	t.Parallel()
	h := newHouse(t, outageLease)
	p := h.start("standalone")
	survives(t, h, h.db(), func(gone func()) {
		other, err := sql.Open("sqlite", "file:"+filepath.Join(h.home, "airlock.db")+"?_txlock=immediate&_pragma=busy_timeout(10000)")
		require.NoError(t, err)
		defer func() { require.NoError(t, other.Close()) }()
		tx, err := other.BeginTx(context.Background(), nil)
		require.NoError(t, err)
		gone()
		time.Sleep(10 * time.Second)
		require.NoError(t, tx.Rollback())
	})
	saysLittle(t, p)
}

// TestServerAway: the server is killed and comes back later, or hangs.
func TestServerAway(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(*testing.T, *sqltest.Process, func()){
		"killed": func(t *testing.T, p *sqltest.Process, gone func()) {
			p.Kill()
			gone()
			time.Sleep(8 * time.Second)
			p.Restart(t)
		},
		"hangs": func(t *testing.T, p *sqltest.Process, gone func()) {
			require.NoError(t, syscall.Kill(p.Pid(), syscall.SIGSTOP))
			gone()
			time.Sleep(8 * time.Second)
			require.NoError(t, syscall.Kill(p.Pid(), syscall.SIGCONT))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := sqltest.StartMariaDB(t)
			dsn := server.Fresh(t)
			h := newHouse(t, "AIRLOCK__DATABASE__DSN="+dsn, outageLease)
			h.ok("db", "migrate")
			processes := []*process{h.start("scheduler"), h.start("worker")}
			survives(t, h, open(t, dsn), func(gone func()) { away(t, server, gone) })
			for _, p := range processes {
				saysLittle(t, p)
			}
			if name == "killed" {
				require.Contains(t, processes[0].log.tail(1<<20), "the scheduler's passes work again")
			}
		})
	}
}

// TestALimitOnTheSizeOfFilesIsSaid: what is written does not fit under the
// process's limit. It says why, goes on trying, and loses nothing: a process
// without the limit does the rest.
func TestALimitOnTheSizeOfFilesIsSaid(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.file("wide.yml", `
wide:
  schedule: null
  default_args: {retries: 0, max_crashes: 1000}
  tasks: {t: {operator: bash, partial: {bash_command: "true"}, expand: {env: [`+strings.Repeat("{A: b}, ", 100)+`]}}}
`)
	h.ok("db", "migrate")
	airlock := h.bin
	h.bin = "/bin/sh"
	p := h.start("-c", "ulimit -f 2000; exec "+airlock+" standalone") // a megabyte: sh counts blocks of 512 bytes
	h.bin = airlock
	db := h.db()
	until(t, db, 1, "SELECT COUNT(*) FROM dag")
	h.ok("dags", "trigger", "wide")
	require.Eventually(t, func() bool { return strings.Contains(p.log.tail(1<<20), "a limit on the size of files is reached") }, patience, pause)
	require.False(t, p.dead())
	p.kill()
	h.start("standalone")
	until(t, db, 1, "SELECT COUNT(*) FROM dag_run WHERE state = 'success'")
	require.Equal(t, 100, count(db, "SELECT COUNT(*) FROM task_instance WHERE state = 'success' AND failure_count = 0"))
	h.checked()
}
