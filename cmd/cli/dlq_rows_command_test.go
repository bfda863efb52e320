package cli_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/cli"
	"github.com/airlock-dag/airlock/dag"
)

const rowsDag = `
shop:
  schedule: null
  tasks:
    load:
      operator: merge
      conn_id: w
      source: {file: "orders-*.csv"}
      columns:
        id:   {type: int, required: true}
        name: {type: "varchar(40)", pattern: "^.{0,LENGTH}$"}
        at:   {type: timestamp, timezone: UTC}
      target: orders
      create_target: true
      key: [id]
      version: at
      bad_rows: {max_ratio: 1}
`

func rowsHouse(t *testing.T) *house {
	t.Helper()
	h := newHouse(t, map[string]string{
		"dags/shop.yml":     strings.Replace(rowsDag, "LENGTH", "4", 1),
		"dags/orders-1.csv": "id,name,at\n1,Ada,2026-03-01 08:00\nx2,Bo,2026-03-01 08:00\n3,Caroline,2026-03-01 08:00\n",
		"dags/orders-2.csv": "id,name,at\n4,D\xe9,2026-03-01 08:00\n5,Eve\n",
	})
	h.env = append(h.env, "AIRLOCK_CONN_W=sqlite:///"+h.path("w.db"))
	h.ok("dags", "test", "shop")
	return h
}

func TestRowsAreListedShownAndExported(t *testing.T) {
	t.Parallel()
	h := rowsHouse(t)
	rows := h.list("dlq", "rows", "--conn-id", "w")
	require.Equal(t, []any{"NOT_AN_INTEGER", "PATTERN_MISMATCH", "INVALID_UTF8", "TOO_FEW_FIELDS"}, column(rows, "error_code"))
	require.Equal(t, "NCxE6SwyMDI2LTAzLTAxIDA4OjAw", rows[2]["raw_base64"])
	require.Len(t, h.list("dlq", "rows", "list", "--conn-id", "w", "--source", "orders-2.csv"), 2)
	show := h.ok("dlq", "rows", "show", "3", "--conn-id", "w").stdout
	for _, words := range []string{`4,D\xe9,2026-03-01 08:00`, "id,name,at", "orders-2.csv", "quarantined"} {
		require.Contains(t, show, words)
	}
	h.fails(cli.ExitFailed, []string{"row letter 9", "none with this id"}, "dlq", "rows", "show", "9", "--conn-id", "w")
	h.fails(cli.ExitUsage, []string{"--status"}, "dlq", "rows", "list", "--conn-id", "w", "--status", "open")
	require.Equal(t, "4 rows written\n", h.ok("dlq", "rows", "export", "out.csv", "--conn-id", "w", "--format", "raw").stderr)
	raw, err := os.ReadFile(h.path("out.csv"))
	require.NoError(t, err)
	require.Equal(t, "id,name,at\nx2,Bo,2026-03-01 08:00\n3,Caroline,2026-03-01 08:00\n4,D\xe9,2026-03-01 08:00\n5,Eve\n", string(raw), "the bytes as they were read")
	lines := strings.Split(strings.TrimSpace(h.ok("dlq", "rows", "export", "--conn-id", "w", "--format", "jsonl", "--error-code", "PATTERN_MISMATCH").stdout), "\n")
	require.Len(t, lines, 1)
	var one map[string]any
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &one))
	require.Equal(t, "3,Caroline,2026-03-01 08:00", one["raw"])
	table := h.ok("dlq", "rows", "export", "--conn-id", "w").stdout
	require.Equal(t, 5, strings.Count(table, "\n"))
	require.True(t, strings.HasPrefix(table, "id,dag_id,run_id,"))
}

func TestRowsAreCorrectedAndReplayed(t *testing.T) {
	t.Parallel()
	h := rowsHouse(t)
	h.fails(cli.ExitUsage, []string{"exactly one"}, "dlq", "rows", "edit", "1", "--conn-id", "w")
	h.fails(cli.ExitUsage, []string{`no column "idd"`, "--raw"}, "dlq", "rows", "edit", "1", "--conn-id", "w", "--set", "idd=2")
	require.Contains(t, h.ok("dlq", "rows", "edit", "1", "--conn-id", "w", "--set", "id=2", "--reason", "a typo").stdout, "+ 2,Bo,2026-03-01 08:00")
	h.stdin = "4,Dé,2026-03-01 08:00\n"
	h.ok("dlq", "rows", "edit", "3", "--conn-id", "w", "--file", "-")
	dry := h.ok("dlq", "rows", "replay", "--conn-id", "w")
	require.Contains(t, dry.stderr, "a dry run")
	require.Contains(t, dry.stderr, "rejected: PATTERN_MISMATCH")
	// The rule was too narrow: the step is corrected, and its letters go in.
	h.write("dags/shop.yml", strings.Replace(rowsDag, "LENGTH", "40", 1))
	r := h.run("dlq", "rows", "replay", "--conn-id", "w", "--apply", "-o", "json")
	require.Equal(t, cli.ExitDone, r.code, r.stderr)
	var out map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &out))
	require.Equal(t, []any{3.0, 1.0, 4.0}, []any{out["replayed"], out["rejected"], out["selected"]}, r.stdout)
	require.Equal(t, []any{"resolved", "resolved", "resolved", "quarantined"}, column(h.list("dlq", "rows", "--conn-id", "w"), "status"))
	show := h.ok("dlq", "rows", "show", "1", "--conn-id", "w").stdout
	for _, words := range []string{"edited by cli:alice: a typo", "replayed by cli:alice", "original_raw", "x2,Bo"} {
		require.Contains(t, show, words)
	}
	require.Contains(t, h.ok("dlq", "rows", "show", "4", "--conn-id", "w").stdout, "TOO_FEW_FIELDS")
	require.Contains(t, h.ok("db", "check").stdout, "every promise holds")
	require.Contains(t, h.ok("dlq", "rows", "drop", "4", "--conn-id", "w", "--reason", "a test row").stdout, "row 4 dropped")
	h.fails(cli.ExitFailed, []string{"it is dropped"}, "dlq", "rows", "edit", "4", "--conn-id", "w", "--raw", "x")
	h.ok("dlq", "rows", "release", "4", "--conn-id", "w", "--reason", "no, it is real")
	h.ok("dlq", "rows", "resolve", "4", "--conn-id", "w", "--reason", "typed in by hand")
	require.Contains(t, h.ok("dlq", "rows", "replay", "--conn-id", "w", "--apply").stdout, "selected")
	h.fails(cli.ExitFailed, []string{"none with this id"}, "dlq", "rows", "replay", "77", "--conn-id", "w")
}

func TestRowsOfATaskThatIsGone(t *testing.T) {
	t.Parallel()
	h := rowsHouse(t)
	require.NoError(t, os.Remove(h.path("dags/shop.yml")))
	h.write("dags/shop.yml", "shop:\n  schedule: null\n  tasks: {load: {operator: empty}}\n")
	h.fails(cli.ExitFailed, []string{"shop.load", "no such merge task", "export"}, "dlq", "rows", "replay", "--conn-id", "w", "--apply")
	h.write("dags/shop.yml", strings.Replace(strings.Replace(rowsDag, "LENGTH", "40", 1), "conn_id: w", "conn_id: other", 1))
	h.fails(cli.ExitFailed, []string{"connection other", "letters are in w"}, "dlq", "rows", "replay", "--conn-id", "w", "--apply")
	require.Equal(t, []any{"quarantined", "quarantined", "quarantined", "quarantined"}, column(h.list("dlq", "rows", "--conn-id", "w"), "status"))
}

func TestRowsExpireByAnAct(t *testing.T) {
	t.Parallel()
	h := rowsHouse(t)
	require.Contains(t, h.ok("dlq", "rows", "expire", "--conn-id", "w").stdout, "│ expired             │ 0 ")
	h.clock = laterClock{dag.SystemClock{}, 13 * 24 * time.Hour}
	require.Contains(t, h.ok("dlq", "rows", "expire", "--conn-id", "w", "--dry-run").stdout, "│ expiring_within_48h │ 4 ")
	h.clock = laterClock{dag.SystemClock{}, 15 * 24 * time.Hour}
	require.Contains(t, h.ok("dlq", "rows", "expire", "--conn-id", "w", "-o", "json").stdout, `"expired": 4`)
	require.Equal(t, []any{"expired", "expired", "expired", "expired"}, column(h.list("dlq", "rows", "--conn-id", "w"), "status"))
	require.Contains(t, h.ok("dlq", "rows", "show", "2", "--conn-id", "w").stdout, "expired by cli:alice: its time is over")
	require.Contains(t, h.ok("db", "check").stdout, "every promise holds")
}

// laterClock is the present, moved on.
type laterClock struct {
	dag.Clock
	by time.Duration
}

func (c laterClock) Now() time.Time { return c.Clock.Now().Add(c.by) }
