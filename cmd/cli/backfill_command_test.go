package cli_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/cli"
	"github.com/airlock-dag/airlock/dag/dagtest"
)

func TestBackfillCommands(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"dags/nightly.yml": "nightly:\n  schedule: \"0 2 * * *\"\n  tasks:\n    only: {operator: empty}\n"})
	h.clock = dagtest.NewClock(time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC))
	create := []string{"backfill", "create", "-d", "nightly", "--from-date", "2025-03-01", "--to-date", "2025-03-04"}

	r := h.ok(append(create, "--dry-run")...)
	require.Contains(t, r.stderr, "3 runs would run, 0 stay")
	require.Empty(t, h.list("backfill", "list"))
	r = h.ok(append(create, "--max-active-runs", "2", "--dag-run-conf", `{"n": 1}`)...)
	require.Contains(t, r.stderr, "backfill 1: 3 runs to do")
	require.Contains(t, r.stderr, "airlock dags unpause nightly")
	require.Contains(t, r.stdout, "backfill__2025-03-02T02:00:00+00:00")
	listed := h.list("backfill", "list", "--dag-id", "nightly")
	require.Len(t, listed, 1)
	require.Equal(t, []any{2.0}, column(listed, "max_active_runs"))
	require.Equal(t, map[string]any{"queued": 3.0}, listed[0]["run_states"])
	require.Equal(t, []any{"backfill", "backfill", "backfill"}, column(h.list("dags", "list-runs", "nightly"), "run_type"))

	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{create, cli.ExitFailed, "has not ended"},
		{append(create, "--reprocess-behavior", "all"), cli.ExitUsage, "none, failed or completed"},
		{append(create, "--max-active-runs", "0"), cli.ExitUsage, "1 or more"},
		{[]string{"backfill", "create", "-d", "nightl", "--from-date", "2025-03-01", "--to-date", "2025-03-04"}, cli.ExitFailed, "did you mean nightly?"},
		{[]string{"backfill", "create", "-d", "nightly", "--from-date", "2025-03-05", "--to-date", "2025-03-04"}, cli.ExitUsage, "earlier date"},
		{[]string{"backfill", "create", "-d", "nightly", "--from-date", "yesterday", "--to-date", "2025-03-04"}, cli.ExitUsage, "is no date"},
		{[]string{"backfill", "list", "-d", "nightl"}, cli.ExitFailed, "did you mean nightly?"},
	} {
		r := h.run(c.args...)
		require.Equal(t, c.code, r.code, "%v: %s", c.args, r.stderr)
		require.Contains(t, r.stderr, c.says)
	}
}
