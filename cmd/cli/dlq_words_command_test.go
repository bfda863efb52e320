package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/cli"
)

// pausedFailure is a house with one letter of a DAG that is paused.
func pausedFailure(t *testing.T) *house {
	h := newHouse(t, map[string]string{"dags/d.yml": "d:\n  schedule: null\n  tasks:\n    a: {operator: bash, bash_command: \"echo no header >&2; exit 65\"}\n"})
	h.run("dags", "test", "d")
	return h
}

func TestReplaySaysWhyNothingWasPutBack(t *testing.T) {
	t.Parallel()
	h := pausedFailure(t)
	require.NotContains(t, h.list("dlq", "list")[0], "payload", "a list does not read payloads, and does not say that there are none")
	require.Contains(t, h.show("dlq", "show", "1"), "payload")
	done := h.ok("dlq", "replay", "--apply", "--rate", "0")
	require.Contains(t, done.stderr, "1 letter: deferred: DAG d is paused")
	require.Contains(t, done.stderr, "(letter 1)")
	shown := h.show("dlq", "replay", "--apply", "--rate", "0")
	require.Len(t, shown["reasons"], 1)
	require.Contains(t, h.ok("dlq", "show", "1").stdout, "\nstack_trace, or the end of stderr:\nno header")
}

func TestSetKeepsATextAText(t *testing.T) {
	t.Parallel()
	h := pausedFailure(t)
	for _, c := range []struct{ set, want string }{
		{"bash_command=true", `"true"`},       // a command, not a truth value
		{`bash_command="echo 1"`, `"echo 1"`}, // JSON's own text
		{"bash_command=42", `"42"`},
	} {
		h.ok("dlq", "edit", "1", "--set", c.set)
		var payload map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(h.ok("dlq", "show", "1", "--payload").stdout), &payload), c.set)
		require.JSONEq(t, c.want, string(payload["bash_command"]), c.set)
	}
	h.ok("dlq", "edit", "1", "--set", "skip_on_exit_code=98")
	var payload map[string]any
	require.NoError(t, json.Unmarshal([]byte(h.ok("dlq", "show", "1", "--payload").stdout), &payload))
	require.InDelta(t, 98, payload["skip_on_exit_code"], 0, "a key that is new takes JSON")
	// A misspelt key would change nothing in the replay.
	h.fails(cli.ExitUsage, []string{`no key "bash_comand"`, "did you mean bash_command?", "append_env, bash_command, cwd", "--file"}, "dlq", "edit", "1", "--set", "bash_comand=true")
}

func TestReplayWarnsOfAFileThatNobodyHasReadYet(t *testing.T) {
	t.Parallel()
	file := "d:\n  schedule: null\n  is_paused_upon_creation: false\n  tasks:\n    a: {operator: bash, bash_command: \"exit 65\"}\n"
	h := newHouse(t, map[string]string{"dags/d.yml": file, "dags/e.yml": strings.Replace(file, "d:", "e:", 1)})
	h.fails(cli.ExitFailed, nil, "dags", "test", "d")
	require.NotContains(t, h.ok("dlq", "replay").stderr, "is not what the state database has")
	h.write("dags/d.yml", strings.Replace(file, "65", "0", 1))
	require.Contains(t, h.ok("dlq", "replay", "--dag", "d").stderr, "DAG d: its file is not what the state database has")
	require.NotContains(t, h.ok("dlq", "replay", "--dag", "e").stderr, "its file is not")
}
