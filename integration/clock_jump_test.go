package integration

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/sqltest"
)

// jumpFile has a schedule that catches up, and a task that runs while the clock
// jumps. %[2]s is the start date, %[1]s a folder.
const jumpFile = `
tick:
  schedule: "*/30 * * * *"
  start_date: %[2]s
  catchup: true
  tasks: {t: {operator: bash, bash_command: "echo {{ ts }} >> %[1]s/ticks"}}
long:
  schedule: null
  tasks: {t: {operator: bash, max_crashes: 1, bash_command: "echo >> %[1]s/starts; while [ ! -e %[1]s/go ]; do sleep 0.2; done"}}
`

// TestAClockThatJumps: the clock of all processes is set back by an hour and
// then forward to tomorrow, while a task runs. No tick is left out or made
// twice, and the task keeps its lease. A process of its own goes by the clock
// that it has; in a fleet the database's counts, and tomorrow is not made.
func TestAClockThatJumps(t *testing.T) {
	t.Parallel()
	bin, err := crashBuild()
	require.NoError(t, err)
	for _, c := range []struct {
		name     string
		commands []string
		ahead    time.Duration // how far the clock is ahead that counts
	}{
		{"alone", []string{"standalone"}, 24 * time.Hour},
		{"fleet", []string{"scheduler", "worker"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			clock := filepath.Join(dir, "clock")
			set := func(by string) { // at once for whoever reads
				require.NoError(t, os.WriteFile(clock+".new", []byte(by), 0o600))
				require.NoError(t, os.Rename(clock+".new", clock))
			}
			set("0s")
			var h *house
			var db *sql.DB
			if c.name == "fleet" {
				dsn := sqltest.MariaDB(t)
				h = newHouse(t, "AIRLOCK__DATABASE__DSN="+dsn)
				db = open(t, dsn)
			} else {
				h = newHouse(t)
				db = h.db()
			}
			h.bin = bin
			h.ok("db", "migrate")
			start := time.Now().UTC().Truncate(30 * time.Minute).Add(-2 * time.Hour)
			h.file("jump.yml", fmt.Sprintf(jumpFile, dir, start.Format("2006-01-02T15:04:05Z")))
			var processes []*process
			for _, command := range c.commands {
				processes = append(processes, h.startWith([]string{"AIRLOCK_CRASH_CLOCK=" + clock}, command))
			}
			// made tells whether each half hour from the start to now has its run.
			made := func(ahead time.Duration) func() bool {
				return func() bool {
					want := int(time.Since(start)+ahead)/int(30*time.Minute) + 1
					return count(db, "SELECT COUNT(*) FROM dag_run WHERE dag_id = 'tick' AND state = 'success'") == want
				}
			}
			require.Eventually(t, made(0), patience, pause)
			h.ok("dags", "trigger", "long")
			lines := func(name string) []string {
				text, _ := os.ReadFile(filepath.Join(dir, name))
				return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
			}
			require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(dir, "starts")); return err == nil }, patience, pause)
			noticed := func(by string) func() bool {
				return func() bool {
					return strings.Contains(processes[0].log.tail(1<<20), "clock was set, or the machine slept; what is due is due by the clock as it is now\" by="+by)
				}
			}
			set("-1h")
			require.Eventually(t, noticed("-1h0m0s"), patience, pause)
			time.Sleep(4 * time.Second) // longer than a lease
			set("24h")
			require.Eventually(t, noticed("25h0m0s"), patience, pause)
			time.Sleep(4 * time.Second)
			require.Eventually(t, made(c.ahead), patience, pause)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
			until(t, db, 1, "SELECT COUNT(*) FROM dag_run WHERE dag_id = 'long' AND state = 'success'")
			set("0s")
			require.Eventually(t, noticed("-24h0m0s"), patience, pause)
			for _, p := range processes {
				require.Zero(t, p.term(t))
			}
			require.Len(t, lines("starts"), 1, "it was never taken for lost")
			require.Zero(t, count(db, "SELECT COALESCE(SUM(crash_count + failure_count), 0) FROM task_instance"))
			once := map[string]bool{}
			for _, line := range lines("ticks") {
				require.False(t, once[line], "%s ran twice", line)
				once[line] = true
			}
			for at := start; len(once) > 0; at = at.Add(30 * time.Minute) { // no gap
				name := at.Format("2006-01-02T15:04:05+00:00")
				require.True(t, once[name], name)
				delete(once, name)
			}
			h.checked()
		})
	}
}
