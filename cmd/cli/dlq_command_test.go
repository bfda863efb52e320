package cli_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/cli"
)

// newDoomedHouse has one sealed letter.
func newDoomedHouse(t *testing.T) *house {
	t.Helper()
	h := newHouse(t, map[string]string{"dags/doomed.yml": doomed})
	require.Equal(t, cli.ExitFailed, h.run("dags", "test", "doomed").code)
	require.Len(t, h.list("dlq", "list"), 1)
	return h
}

func TestReplayCommand(t *testing.T) {
	t.Parallel()
	h := newDoomedHouse(t)
	counts := map[string]any{"replayed": 1.0, "drop_duplicate": 0.0, "quarantine": 0.0, "deferred": 0.0, "rejected": 0.0, "selected": 1.0}
	require.Contains(t, h.ok("dlq", "replay").stderr, "DAG doomed is paused", "nothing of it would run")
	require.InDelta(t, 1, h.show("dlq", "replay", "--no-probe")["replayed"], 0)
	h.ok("dags", "unpause", "doomed")
	dry := h.show("dlq", "replay")
	require.Subset(t, dry, counts)
	require.Contains(t, h.ok("dlq", "replay").stderr, "nothing was changed")
	require.Empty(t, h.list("dlq", "drains"))
	for where, want := range map[string]float64{
		`error_code == "DATA_ERROR" and payload.bash_command contains "wrong"`: 1, `payload.codec == "h264"`: 0, `attempt_count > 3`: 0,
	} {
		require.InDelta(t, want, h.show("dlq", "replay", "--where", where)["selected"], 0, where)
	}
	unsure := h.ok("dlq", "replay", "--where", `payload.bash_command > 3`)
	require.Contains(t, unsure.stderr, "1 letter not selected")
	h.fails(cli.ExitUsage, []string{"--where", "cdec"}, "dlq", "replay", "--where", "cdec == 1")
	h.fails(cli.ExitUsage, []string{"--rate", "50/s"}, "dlq", "replay", "--rate", "fast")
	h.fails(cli.ExitUsage, []string{"--error-class"}, "dlq", "replay", "--error-class", "transient")
	h.fails(cli.ExitUsage, []string{"share"}, "dlq", "replay", "--pause-share", "2")

	done := h.show("dlq", "replay", "--apply", "--rate", "0")
	require.Subset(t, done, counts)
	require.Equal(t, "done", done["state"])
	require.Equal(t, "cli:alice", done["actor"])
	require.InDelta(t, 0, done["double_published"], 0)
	require.Equal(t, map[string]any{"in_flight": 1.0, "resolved": 0.0, "back": 0.0}, done["outcome"])
	letter := h.list("dlq", "list")[0]
	require.Equal(t, []any{"replaying", 1.0}, []any{letter["status"], letter["return_count"]})
	require.InDelta(t, 0, h.show("dlq", "replay")["selected"], 0, "nothing is sealed")
	deferred := h.ok("dlq", "replay", "--ids", "1")
	require.Contains(t, deferred.stderr, "being replayed already")
	drains := h.list("dlq", "drains")
	require.Len(t, drains, 1)
	id := fmt.Sprint(drains[0]["id"])
	h.fails(cli.ExitFailed, []string{"it is done"}, "dlq", "resume", id)
	h.fails(cli.ExitFailed, []string{"did you mean " + id}, "dlq", "resume", id[:11]+"x")
	h.ok("db", "check")
}

func TestLettersByHand(t *testing.T) {
	t.Parallel()
	h := newDoomedHouse(t)
	h.fails(cli.ExitUsage, []string{"which letters"}, "dlq", "quarantine")
	h.fails(cli.ExitUsage, []string{"--yes"}, "dlq", "quarantine", "--dag", "doomed")
	require.Equal(t, []any{"quarantined"}, column(h.list("dlq", "quarantine", "--dag", "doomed", "--yes", "--reason", "look"), "status"))
	require.Contains(t, h.ok("dlq", "replay", "--ids", "1").stderr, "release it first")
	h.fails(cli.ExitFailed, []string{"it is quarantined"}, "dlq", "quarantine", "1")

	h.fails(cli.ExitUsage, []string{"--file"}, "dlq", "edit", "1")
	edited := h.ok("dlq", "edit", "1", "--set", "bash_command=echo mended", "--reason", "typo").stdout
	require.Contains(t, edited, `+ bash_command: "echo mended"`)
	require.Contains(t, edited, "- bash_command:")
	var payload map[string]any
	require.NoError(t, json.Unmarshal([]byte(h.ok("dlq", "show", "1", "--payload").stdout), &payload))
	require.Equal(t, "echo mended", payload["bash_command"])
	h.stdin = `{"bash_command": "echo again"}`
	h.ok("dlq", "edit", "1", "--file", "-")
	h.fails(cli.ExitFailed, []string{"is the old one"}, "dlq", "edit", "1", "--file", "-")
	shown := h.show("dlq", "show", "1")
	require.Len(t, shown["edits"], 2)
	require.Len(t, shown["decisions"], 1)
	require.Contains(t, h.ok("dlq", "show", "1").stdout, "by cli:alice: typo")

	h.ok("dlq", "release", "1")
	h.ok("dlq", "export", "letters.jsonl")
	h.fails(cli.ExitUsage, []string{"--reason"}, "dlq", "resolve", "1")
	require.Equal(t, []any{"resolved"}, column(h.list("dlq", "resolve", "1", "--reason", "sent by mail"), "status"))
	require.Equal(t, map[string]any{"added": 0.0, "restored": 0.0, "there": 1.0, "refused": 0.0}, h.show("dlq", "import", "letters.jsonl"))
	h.stdin = "{}\nno json\n"
	refused := h.run("dlq", "import", "-")
	require.Equal(t, cli.ExitFailed, refused.code)
	require.Contains(t, refused.stderr, "-:1:")
	require.Contains(t, refused.stderr, "-:2:")

	require.Empty(t, h.list("dlq", "stats"), "settled letters are not counted")
	all := h.list("dlq", "stats", "--all")
	require.Len(t, all, 1)
	require.InDelta(t, 1, all[0]["count"], 0)
	require.Equal(t, map[string]any{"expired": 0.0, "expiring_within_48h": 0.0, "dry_run": false}, h.show("dlq", "expire"))
	h.ok("db", "check")
}
