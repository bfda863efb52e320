package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/cli"
)

func TestClearPastAndFuture(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"dags/d.yml": "d:\n  schedule: null\n  tasks:\n    a: {operator: empty}\n    b: {operator: empty, dependencies: [a]}\n"})
	for _, day := range []string{"2026-02-01", "2026-02-02", "2026-02-03"} {
		h.ok("dags", "test", "d", day)
	}
	runs := column(h.list("dags", "list-runs", "d"), "run_id") // newest first
	require.Len(t, runs, 3)
	cleared := func(flags ...string) []any {
		h.t.Helper()
		return column(h.list(append([]string{"tasks", "clear", "d", "--dry-run"}, flags...)...), "run_id")
	}
	require.Equal(t, []any{runs[1]}, cleared("-r", "2026-02-02", "-t", "a"))
	require.Equal(t, []any{runs[2], runs[1]}, cleared("-r", "2026-02-02", "-t", "a", "--past"))
	require.Equal(t, []any{runs[1], runs[0]}, cleared("-r", "2026-02-02", "-t", "a", "--future"))
	require.Equal(t, []any{runs[2], runs[2], runs[1], runs[1], runs[0], runs[0]}, cleared("-r", "2026-02-02", "-t", "a", "-d", "--past", "--future"))
	require.Equal(t, []any{runs[2]}, cleared("-e", "2026-02-01", "-t", "b"))
	require.Empty(t, cleared("-r", "2026-02-02", "--only-running"))

	h.fails(cli.ExitUsage, []string{"--run-id"}, "tasks", "clear", "d", "-s", "2026-02-01", "--past")
	h.fails(cli.ExitUsage, []string{"--past or --future"}, "tasks", "clear", "d", "-r", "2026-02-02", "-s", "2026-02-01")
	h.fails(cli.ExitUsage, []string{"one of them"}, "tasks", "clear", "d", "-r", "2026-02-02", "-f", "--only-running")
}

func TestClearSaysWhoStartsWhatIsCleared(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"dags/d.yml": "d:\n  schedule: null\n  tasks:\n    a: {operator: empty}\n"})
	h.ok("dags", "test", "d", "2026-02-01")
	require.Contains(t, h.ok("tasks", "clear", "d", "-r", "2026-02-01", "-y").stderr, "1 instance cleared: d is paused, so they wait until `airlock dags unpause d`")
	h.ok("dags", "test", "d", "2026-02-02")
	h.ok("dags", "unpause", "d")
	require.Contains(t, h.ok("tasks", "clear", "d", "-r", "2026-02-02", "-y").stderr, "1 instance cleared: the scheduler starts")
}

func TestClearSaysThatARunKeepsItsVersion(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"dags/d.yml": "d:\n  schedule: null\n  tasks:\n    a: {operator: bash, bash_command: \"exit 65\"}\n"})
	h.fails(cli.ExitFailed, nil, "dags", "test", "d", "2026-02-01")
	h.fails(cli.ExitFailed, nil, "dags", "test", "d", "2026-02-02")
	require.NotContains(t, h.ok("tasks", "clear", "d", "-r", "2026-02-02", "-y").stderr, "has changed")
	h.write("dags/d.yml", "d:\n  schedule: null\n  tasks:\n    a: {operator: bash, bash_command: \"exit 0\"}\n")
	require.Contains(t, h.ok("tasks", "clear", "d", "-r", "2026-02-01", "-y").stderr, "the DAG has changed since 1 run of these began")
}
