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

	"github.com/airlock-dag/airlock/sql/migrations"
	"github.com/airlock-dag/airlock/sql/sqltest"
)

const longFile = `
long:
  schedule: null
  tasks:
    sleep: {operator: bash, max_crashes: 1, bash_command: "echo >> %s; sleep 600"}
`

// running starts a standalone process with one task that does not end.
func running(t *testing.T, env ...string) (*house, *process) {
	t.Helper()
	h := newHouse(t, env...)
	h.file("long.yml", fmt.Sprintf(longFile, filepath.Join(h.home, "starts")))
	p := h.start("standalone")
	until(t, h.db(), 1, "SELECT COUNT(*) FROM dag")
	h.ok("dags", "trigger", "long")
	until(t, h.db(), 1, "SELECT COUNT(*) FROM task_instance WHERE state = 'running'")
	return h, p
}

// TestSIGTERMDrains: what runs may finish until the limit, and is then handed
// back with nothing spent. The next process runs it again.
func TestSIGTERMDrains(t *testing.T) {
	t.Parallel()
	h, p := running(t, "AIRLOCK__WORKER__DRAIN_TIMEOUT=1s", unhurried)
	require.Zero(t, p.term(t))
	require.Contains(t, p.log.tail(1<<20), "running tasks may finish")
	require.Contains(t, p.log.tail(1<<20), "handed back")
	require.Equal(t, 1, count(h.db(), "SELECT COUNT(*) FROM task_instance WHERE state = 'queued' AND try_number = 0 AND crash_count = 0"))
	h.start("standalone")
	until(t, h.db(), 1, "SELECT COUNT(*) FROM task_instance WHERE state = 'running' AND try_number = 1")
	h.checked()
}

// TestASecondSIGTERMEndsAtOnce: the drain limit is an hour, and nobody waits for it.
func TestASecondSIGTERMEndsAtOnce(t *testing.T) {
	t.Parallel()
	h, p := running(t, "AIRLOCK__WORKER__DRAIN_TIMEOUT=1h", unhurried)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Eventually(t, func() bool { return strings.Contains(p.log.tail(1<<20), "running tasks may finish") }, patience, pause)
	require.False(t, p.dead(), "one signal waits for what runs")
	require.Eventually(t, func() bool { _ = p.cmd.Process.Signal(syscall.SIGTERM); return p.dead() }, patience, pause)
	require.True(t, p.cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled())
	require.Equal(t, 1, count(h.db(), "SELECT COUNT(*) FROM task_instance WHERE state = 'running'"), "as after a crash: its lease ends")
}

// TestAMonthOff: the machine was off for thirty days. A DAG that catches up
// makes up for each of them, once; one that does not makes one run.
func TestAMonthOff(t *testing.T) {
	t.Parallel()
	bin, err := crashBuild()
	require.NoError(t, err)
	h := newHouse(t)
	h.bin = bin
	start := time.Now().UTC().AddDate(0, 0, -33).Format(time.DateOnly)
	for _, catchup := range []bool{true, false} {
		h.file(fmt.Sprintf("catchup_%t.yml", catchup), fmt.Sprintf(`
catchup_%[1]t:
  schedule: "@daily"
  start_date: %[2]s
  catchup: %[1]t
  tasks: {only: {operator: bash, bash_command: "true"}}
`, catchup, start))
	}
	db := h.db()
	// One run for each midnight since the start, the first one included.
	caughtUp := func(daysAgo int) func() bool {
		return func() bool {
			want := count(db, fmt.Sprintf("SELECT CAST(julianday('now', 'start of day', '-%d days') - julianday('%s') AS INTEGER) + 1", daysAgo, start))
			return want > 0 && count(db, "SELECT COUNT(*) FROM dag_run WHERE dag_id = 'catchup_true' AND state = 'success'") == want
		}
	}
	before := h.startWith([]string{"AIRLOCK_CRASH_CLOCK=-720h"}, "standalone")
	require.Eventually(t, caughtUp(30), patience, pause)
	until(t, db, 1, "SELECT COUNT(*) FROM dag_run WHERE dag_id = 'catchup_false' AND state = 'success'")
	require.Zero(t, before.term(t))
	h.start("standalone")
	require.Eventually(t, caughtUp(0), patience, pause)
	until(t, db, 2, "SELECT COUNT(*) FROM dag_run WHERE dag_id = 'catchup_false' AND state = 'success'")
	require.Zero(t, count(db, "SELECT COUNT(*) FROM dag_run WHERE state <> 'success'"))
	h.checked()
}

// TestANewerSchemaIsRefused: a database that a newer binary has migrated.
func TestANewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	server := sqltest.MariaDB(t)
	for _, h := range []*house{newHouse(t), newHouse(t, "AIRLOCK__DATABASE__DSN="+server)} {
		h.ok("db", "migrate")
		dsn := server
		if !strings.Contains(strings.Join(h.env, " "), server) {
			dsn = "sqlite:///" + filepath.Join(h.home, "airlock.db")
		}
		sqltest.Exec(t, dsn, fmt.Sprintf("INSERT INTO %s (version_id, is_applied) VALUES (9999, 1)", migrations.TableName))
		for _, command := range [][]string{{"standalone"}, {"worker"}, {"db", "migrate"}} {
			r := h.run(command...)
			require.Equal(t, 1, r.code)
			require.Contains(t, r.errOut, "9999")
			require.Contains(t, r.errOut, "newer airlock")
		}
	}
}

// TestAReadOnlyDatabaseIsSaid: the file may be read and not written.
func TestAReadOnlyDatabaseIsSaid(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.ok("db", "migrate")
	file := filepath.Join(h.home, "airlock.db")
	for path, mode := range map[string]os.FileMode{file: 0o444, filepath.Join(h.home, "fernet.key"): 0o444, h.home: 0o555} {
		require.NoError(t, os.Chmod(path, mode))
		t.Cleanup(func() { _ = os.Chmod(path, 0o755) })
	}
	if os.Getuid() == 0 { // root may write everything: nobody may not
		for dir := h.home; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
			require.NoError(t, os.Chmod(dir, 0o755))
		}
		require.NoError(t, os.Chmod(filepath.Dir(h.bin), 0o755))
	}
	p := h.startAs(65534, "standalone")
	<-p.done
	said := p.log.tail(1 << 20)
	require.Positive(t, p.cmd.ProcessState.ExitCode(), said)
	require.Contains(t, said, file)
	require.Regexp(t, "(?i)read.?only|permission denied", said)
	require.Contains(t, said, "hint: ")
}

// TestAFullDiskLosesNothing: the disk of the state database fills up while
// tasks run, and has room again later. Their ends are kept and written then.
func TestAFullDiskLosesNothing(t *testing.T) {
	t.Parallel()
	small := t.TempDir()
	if err := syscall.Mount("none", small, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("a small disk needs the right to mount: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(small, syscall.MNT_DETACH) })
	h := newHouse(t, "AIRLOCK__DATABASE__DSN=sqlite:///"+filepath.Join(small, "airlock.db"))
	starts := filepath.Join(h.dags, "starts")
	h.file("disk.yml", fmt.Sprintf(`
disk:
  schedule: null
  default_args: {retries: 0, max_crashes: 1000, on_failure_callback: {callback: log}}
  tasks:
    good:  {operator: bash, bash_command: "echo good >> %[1]s; sleep 2"}
    bad:   {operator: bash, bash_command: "echo bad >> %[1]s; sleep 2; exit 65"}
    after: {operator: bash, dependencies: [good], bash_command: "echo after >> %[1]s"}
`, starts))
	p := h.start("standalone")
	db := sqltest.Raw(t, "sqlite:///"+filepath.Join(small, "airlock.db"))
	until(t, db, 1, "SELECT COUNT(*) FROM dag")
	h.ok("dags", "trigger", "disk")
	require.Eventually(t, func() bool { b, _ := os.ReadFile(starts); return strings.Count(string(b), "\n") == 2 }, patience, pause)
	filler := filepath.Join(small, "filler")
	f, err := os.Create(filler)
	require.NoError(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, f.Close())
	require.Eventually(t, func() bool { return strings.Contains(p.log.tail(1<<20), "disk is full") }, patience, pause)
	require.False(t, p.dead(), "it waits for room")
	time.Sleep(3 * time.Second) // how long it is full
	require.NoError(t, os.Remove(filler))
	until(t, db, 1, "SELECT COUNT(*) FROM dag_run WHERE state = 'failed'")
	until(t, db, 1, "SELECT COUNT(*) FROM dead_letter WHERE task_id = 'bad' AND error_code = 'DATA_ERROR'")
	require.Equal(t, 2, count(db, "SELECT COUNT(*) FROM task_instance WHERE state = 'success' AND failure_count = 0"))
	for _, a := range always() {
		require.Equal(t, 0, count(db, a.query), a.breaks)
	}
	require.Zero(t, p.term(t))
	h.checked()
}
