package integration

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/sqltest"
)

// pointsFile has a task for each thing that the engine does.
const pointsFile = `
points:
  schedule: null
  default_args: {retries: 5, retry_delay: 0.1s, max_crashes: 1}
  tasks:
    first: {operator: bash, bash_command: "echo '[1, 2]' > /dev/null", on_execute_callback: {callback: command, command: "sleep 4; exit 1"}}
    list:  {operator: python, python_callable: numbers.two}
    many:  {operator: python, python_callable: numbers.five}
    part:  {operator: bash, dependencies: [list], partial: {bash_command: "true"}, expand: {env: list.output}}
    over:  {operator: bash, dependencies: [many], partial: {bash_command: "true"}, expand: {env: many.output}}
    call:  {operator: http, endpoint: "$WEB/count", method: POST, on_success_callback: {callback: webhook, url: "$WEB/busy"}}
    count: {operator: sql, conn_id: target, sql: ["INSERT INTO tally VALUES (2, 0)"]}
    add:
      operator: merge
      conn_id: target
      sql: |
        MERGE INTO tally AS target USING (SELECT 1 AS id, 1 AS n) AS source ON target.id = source.id
        WHEN MATCHED THEN UPDATE SET n = target.n + source.n
    sound: {operator: transcode, path: in.wav, profile: audio-aac, output_dir: "$DIR", accelerator: cpu}
    fails: {operator: bash, retries: 1, bash_command: "exit 1", on_failure_callback: {callback: command, command: "true"}}
    long:  {operator: bash, max_crashes: 5, bash_command: "sleep 600"}
    again: {operator: bash, max_crashes: 5, bash_command: "sleep 600"}
`

// sound is a second of silence as a WAV file.
func sound(t testing.TB, path string) {
	t.Helper()
	const rate = 8000
	b := append([]byte("RIFF"), binary.LittleEndian.AppendUint32(nil, 36+2*rate)...)
	b = append(b, "WAVEfmt "...)
	b = binary.LittleEndian.AppendUint32(b, 16)
	for _, v := range []uint16{1, 1} { // PCM, mono
		b = binary.LittleEndian.AppendUint16(b, v)
	}
	b = binary.LittleEndian.AppendUint32(b, rate)
	b = binary.LittleEndian.AppendUint32(b, 2*rate)
	for _, v := range []uint16{2, 16} { // bytes a frame, bits a sample
		b = binary.LittleEndian.AppendUint16(b, v)
	}
	b = append(b, "data"...)
	b = binary.LittleEndian.AppendUint32(b, 2*rate)
	require.NoError(t, os.WriteFile(path, append(b, make([]byte, 2*rate)...), 0o644))
}

// tally is a target with the one table that the tests' steps change.
func tally(t testing.TB) (dsn string) {
	t.Helper()
	dsn = sqltest.MariaDB(t)
	sqltest.Exec(t, dsn, "CREATE TABLE tally (id BIGINT PRIMARY KEY, n BIGINT NOT NULL);\nINSERT INTO tally VALUES (1, 0);")
	return dsn
}

// TestEveryCrashPointIsReached walks an installation through what the engine
// does, and traces the points that it comes by: one that is never hit would be a
// crash that no test can cause. On the way a claim is committed whose answer is
// lost while the server stays away, which must cost no crash.
func TestEveryCrashPointIsReached(t *testing.T) {
	t.Parallel()
	bin, err := crashBuild()
	require.NoError(t, err)
	server := sqltest.StartMariaDB(t)
	dsn := server.Fresh(t)
	web := newCounter(t)
	h := newHouse(t, "AIRLOCK__DATABASE__DSN="+dsn, "AIRLOCK_CONN_TARGET="+tally(t), "AIRLOCK__CORE__MAX_MAP_LENGTH=3",
		"AIRLOCK__WORKER__LEASE_DURATION=6s", "AIRLOCK__WORKER__HEARTBEAT_INTERVAL=1s")
	h.bin = bin
	trace := filepath.Join(filepath.Dir(h.home), "trace")
	h.env = append(h.env, "AIRLOCK_CRASH_TRACE="+trace)
	sound(t, filepath.Join(h.dags, "in.wav"))
	h.file("numbers.py", "def two():\n    return [{'A': '1'}, {'A': '2'}]\n\ndef five():\n    return [{'A': '1'}] * 5\n")
	h.file("points.yml", strings.NewReplacer("$WEB", web.url, "$DIR", h.dags).Replace(pointsFile))
	h.ok("db", "migrate")
	db := open(t, dsn)
	wire := newLine(t, server.Addr())
	h.start("scheduler")
	until(t, db, 1, "SELECT COUNT(*) FROM dag")
	worker := h.startWith([]string{"AIRLOCK__DATABASE__DSN=" + strings.Replace(dsn, server.Addr(), wire.addr, 1)}, "worker")
	require.Eventually(t, func() bool { return strings.Contains(worker.log.tail(1<<20), "airlock is up") }, patience, pause)

	wire.loseCommitAndServer("SET state = 'running', fence = fence + 1")
	h.ok("dags", "trigger", "points", "--run-id", "r")
	require.Eventually(t, func() bool { return wire.lost() == 1 }, patience, pause)
	require.Eventually(t, func() bool { return strings.Contains(worker.log.tail(1<<20), "no work could be claimed") }, patience, pause)
	wire.to(server.Addr())
	until(t, db, 2, "SELECT COUNT(*) FROM task_instance WHERE task_id IN ('long', 'again') AND state = 'running'")
	until(t, db, 0, "SELECT COUNT(*) FROM task_instance WHERE task_id NOT IN ('long', 'again') AND state NOT IN ('success', 'failed')")
	require.Zero(t, count(db, "SELECT SUM(crash_count) FROM task_instance"), "a lost answer is nobody's crash")
	require.Equal(t, 2, count(db, "SELECT COUNT(*) FROM dead_letter WHERE task_id IN ('over', 'fails')"))
	require.Equal(t, 2, count(db, "SELECT COUNT(*) FROM dead_letter"))
	require.Contains(t, worker.log.tail(1<<20), "a claim whose answer was lost is found again")

	// The reaper takes over one that ran, and settles one that was cleared.
	worker.kill()
	h.ok("tasks", "clear", "points", "-t", "again", "--run-id", "r", "-y")

	// One process that schedules and works does both in one transaction.
	h.file("lone.yml", "lone:\n  schedule: null\n  tasks:\n    a: {operator: bash, bash_command: \"true\"}\n    b: {operator: bash, bash_command: \"true\", dependencies: [a]}\n")
	h.start("standalone")
	until(t, db, 1, "SELECT COUNT(*) FROM dag WHERE dag_id = 'lone'")
	// Which of the two schedulers sees a run first, and whether the one's own worker
	// waits for work just then, is chance: runs come until each point was hit.
	begun, left := time.Now(), crashPoints(t)
	for n := 0; ; n++ {
		b, _ := os.ReadFile(trace)
		traced := strings.Split(string(b), "\n")
		left = slices.DeleteFunc(left, func(point string) bool {
			return slices.ContainsFunc(traced, func(line string) bool { return hits(point, line) })
		})
		if len(left) == 0 {
			break
		}
		require.Less(t, time.Since(begun), patience, "nothing comes by %q", left)
		h.ok("dags", "trigger", "lone", "--run-id", fmt.Sprint("r", n))
		time.Sleep(pause)
	}
	h.checked()
}

// TestAMigrationMayBeKilledAnywhere: before the first file, after each of them,
// and at a moment that nobody chose. The next one goes on where it stopped.
func TestAMigrationMayBeKilledAnywhere(t *testing.T) {
	t.Parallel()
	bin, err := crashBuild()
	require.NoError(t, err)
	for name, h := range map[string]*house{"sqlite": newHouse(t), "mariadb": newHouse(t, "AIRLOCK__DATABASE__DSN="+sqltest.MariaDB(t))} {
		h.bin = bin
		kill := func(at string) (killed bool) {
			p := h.startWith([]string{"AIRLOCK_CRASH_AT=" + at}, "db", "migrate")
			<-p.done
			return p.cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled()
		}
		require.True(t, kill("migration: before the first file"), name)
		for range 3 { // in the middle of the first file, say
			p := h.start("db", "migrate")
			time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
			p.kill()
		}
		files := 0
		for kill("migration: after a file") {
			files++ // each leaves one file more behind it
			require.Less(t, files, 100, name)
		}
		t.Logf("%s: killed after %d files", name, files)
		h.ok("db", "migrate")
		h.checked()
	}
}
