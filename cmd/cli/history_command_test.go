package cli_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/cli"
	"github.com/airlock-dag/airlock/dag/dagtest"
)

const historyDAG = `
history:
  schedule: null
  default_args: {start_date: 2026-01-01}
  tasks:
    fine: {operator: bash, bash_command: echo hello}
    wrong: {operator: bash, bash_command: exit 3, retries: 1, retry_delay: 0.01}
`

// TestHistoryIsToldAndCleaned runs a DAG, reads what happened to its failed
// task, and cleans: the open letter keeps its run, whatever its age.
func TestHistoryIsToldAndCleaned(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"dags/history.yml": historyDAG})
	require.Equal(t, cli.ExitFailed, h.run("dags", "test", "history", "2026-02-01").code)

	told := h.list("tasks", "history", "history", "2026-02-01", "wrong")
	tries := map[any]int{}
	for _, e := range told {
		if e["fence"] != float64(0) {
			tries[e["try_number"]]++
		}
	}
	events := column(told, "event")
	require.Subset(t, events, []any{"scheduled", "queued", "started", "up_for_retry", "failed", "sealed"})
	require.Equal(t, map[any]int{float64(0): 1, float64(1): 2, float64(2): 2}, tries) // the letter; two entries for each of two tries
	h.fails(cli.ExitFailed, []string{"nobody", "tasks list"}, "tasks", "history", "history", "2026-02-01", "nobody")

	h.fails(cli.ExitUsage, []string{"--only", "runs, attempts"}, "db", "clean", "--before", "1d", "--only", "letters")
	h.fails(cli.ExitUsage, []string{"in the past"}, "db", "clean", "--before", "2999-01-01")
	logs := func() []string {
		found, err := filepath.Glob(h.path("home/logs/*/*/*/*.log"))
		require.NoError(t, err)
		return found
	}
	before := len(logs())
	require.Positive(t, before)

	// A machine whose clock is a year ahead makes no history old: the database's counts.
	h.clock = dagtest.NewClock(time.Now().AddDate(1, 0, 0))
	h.ok("db", "clean", "--before", "1d", "--yes")
	require.Len(t, logs(), before)
	h.clock = nil

	// The log of the task that went well is old enough; the other's is held.
	old := time.Now().AddDate(-1, 0, 0)
	for _, file := range logs() {
		require.NoError(t, os.Chtimes(file, old, old))
	}
	h.fails(cli.ExitUsage, []string{"add --yes"}, "db", "clean", "--before", "1d", "--only", "logs")
	h.ok("db", "clean", "--before", "1d", "--yes")
	require.Len(t, logs(), before-1)
	h.ok("tasks", "states-for-dag-run", "history", "2026-02-01")
	h.ok("db", "check")

	// Retention that would let a replay do an effect twice is refused.
	require.NoError(t, os.WriteFile(h.path("home/airlock.yaml"), []byte("retention: {effects: 13d}\n"), 0o600))
	h.fails(cli.ExitUsage, []string{"retention.effects is 13d", "14d"}, "config", "list")
	require.NoError(t, os.WriteFile(h.path("home/airlock.yaml"), []byte("retention: {effects: never, runs: 12h, logs: soon}\n"), 0o600))
	h.fails(cli.ExitUsage, []string{"retention.logs", "soon", "30d"}, "config", "list")
	require.NoError(t, os.WriteFile(h.path("home/airlock.yaml"), []byte("retention: {effects: never, runs: 12h}\n"), 0o600))
	require.Contains(t, h.ok("config", "list", "-o", "plain").stdout, "12h0m0s")

	h.fails(cli.ExitUsage, []string{"add --yes"}, "db", "reset")
	require.Contains(t, h.ok("db", "reset", "--yes").stdout, "is empty")
	require.Contains(t, h.ok("dlq", "list").stdout, "none")
}

func TestLogsAndHistoryOfAMappedTaskNeedTheIndex(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"dags/d.yml": "d:\n  schedule: null\n  tasks:\n    m: {operator: bash, expand: {bash_command: [\"echo 1\", \"echo 2\"]}}\n    one: {operator: bash, bash_command: \"true\"}\n"})
	h.ok("dags", "test", "d", "2026-02-01")
	for _, command := range []string{"logs", "history"} {
		h.fails(cli.ExitUsage, []string{"m is mapped and has 2 instances", "give --map-index 0 to 1"}, "tasks", command, "d", "2026-02-01", "m")
		h.fails(cli.ExitUsage, []string{"one is not mapped", "leave --map-index out"}, "tasks", command, "d", "2026-02-01", "one", "--map-index", "3")
		h.ok("tasks", command, "d", "2026-02-01", "m", "--map-index", "1")
	}
}
