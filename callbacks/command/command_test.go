package command_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/callbacks"
	"github.com/airlock-dag/airlock/callbacks/command"
	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 500, time.UTC)

func delivery(t *testing.T, args map[string]any) callbacks.Delivery {
	t.Helper()
	c := dag.EventContext{
		Event: dag.EventFailure, DedupKey: "key-1", DagID: "media", RunID: "manual__1", TaskID: "transcode", MapIndex: 3,
		TryNumber: 2, MaxTries: 5, State: "failed", LogicalDate: &noon, Exception: "EXIT_CODE: it's \"over\" $(touch /x)",
		ErrorClass: dag.ClassPermanent, ErrorCode: "EXIT_CODE", ErrorMessage: "two\nlines\x00", LogPath: "a/b.log", At: noon,
	}
	raw, err := json.Marshal(c)
	require.NoError(t, err)
	return callbacks.Delivery{Event: dag.Event{ID: 1, DedupKey: "key-1"}, Context: c, Body: raw, Args: args, Clock: dagtest.NewClock(noon)}
}

func notify(t *testing.T, args map[string]any) error {
	t.Helper()
	return command.New("").Notify(t.Context(), delivery(t, args))
}

func failure(t *testing.T, args map[string]any) *callbacks.Failure {
	t.Helper()
	var f *callbacks.Failure
	require.ErrorAs(t, notify(t, args), &f)
	return f
}

func TestCommandLearnsOfTheEvent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, notify(t, map[string]any{
		"command": `cat > stdin.json; env | grep '^AIRLOCK_' | sort > env.txt; printf %s "$AIRLOCK_EXCEPTION" > exception; printf %s "$TEAM" > team`,
		"cwd":     dir, "env": map[string]any{"TEAM": "media"},
	}))
	read := func(name string) string {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(raw)
	}
	var c dag.EventContext
	require.NoError(t, json.Unmarshal([]byte(read("stdin.json")), &c))
	require.Equal(t, "transcode", c.TaskID)
	require.True(t, strings.HasSuffix(read("stdin.json"), "}\n"), "one line")
	require.Equal(t, "EXIT_CODE: it's \"over\" $(touch /x)", read("exception"))
	require.Equal(t, "media", read("team"))
	for _, line := range []string{
		"AIRLOCK_EVENT=on_failure_callback", "AIRLOCK_DEDUP_KEY=key-1", "AIRLOCK_DAG_ID=media", "AIRLOCK_RUN_ID=manual__1",
		"AIRLOCK_TASK_ID=transcode", "AIRLOCK_MAP_INDEX=3", "AIRLOCK_TRY_NUMBER=2", "AIRLOCK_MAX_TRIES=5", "AIRLOCK_STATE=failed",
		"AIRLOCK_LOGICAL_DATE=2026-03-01T12:00:00.0000005Z", "AIRLOCK_NEXT_TRY_AT=", "AIRLOCK_ERROR_CLASS=permanent",
		"AIRLOCK_ERROR_CODE=EXIT_CODE", "AIRLOCK_ERROR_MESSAGE=two", "AIRLOCK_LOG_PATH=a/b.log", "AIRLOCK_REASON=",
	} {
		require.Contains(t, strings.Split(read("env.txt"), "\n"), line)
	}
}

func TestEndings(t *testing.T) {
	t.Parallel()
	cases := []struct {
		command   string
		permanent bool
		says      string
	}{
		{"echo to stderr >&2; exit 3", false, "exit status 3: to stderr"},
		{"exit 75", false, "exit status 75"},
		{"exit 65", true, "exit status 65"},
		{"no-such-command-here", true, "exit status 127"},
		{"/dev/null", true, "exit status 126"},
		{"if then", false, "exit status 2"},
		{"kill -9 $$", false, "killed"},
		{"  ", true, "command is missing"},
	}
	for _, c := range cases {
		f := failure(t, map[string]any{"command": c.command})
		require.Equal(t, c.permanent, f.Permanent, c.command)
		require.False(t, f.Down, c.command)
		require.Contains(t, f.Error(), c.says)
	}
	require.NoError(t, notify(t, map[string]any{"command": "true"}))
	require.NoError(t, notify(t, map[string]any{"command": "exec <&-; exit 0"}), "nobody reads the event")
	require.NoError(t, notify(t, map[string]any{"command": "true", "timeout": 3600.0}), "the longest stands for what is longer")
}

func TestArgumentsThatCannotWork(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]map[string]any{
		"no command":     {},
		"command a list": {"command": []any{"x"}},
		"unknown":        {"command": "true", "shell": "bash"},
		"cwd a number":   {"command": "true", "cwd": 1.0},
		"env a text":     {"command": "true", "env": "A=b"},
		"no such folder": {"command": "true", "cwd": filepath.Join(t.TempDir(), "gone")},
	} {
		require.True(t, failure(t, args).Permanent, name)
	}
}

func TestOutputIsBounded(t *testing.T) {
	t.Parallel()
	f := failure(t, map[string]any{"command": "head -c 20000000 /dev/zero | tr '\\0' x; echo; echo the end; exit 1"})
	require.Less(t, len(f.Error()), 1024)
	require.Contains(t, f.Error(), "the end")
}

// gone tells whether a process is gone or a zombie that waits for its parent.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(raw), ") Z ")
}

func pidIn(t *testing.T, path string) int {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	require.NoError(t, err)
	return pid
}

func TestTimeLimitEndsTheWholeGroup(t *testing.T) {
	t.Parallel()
	pid := filepath.Join(t.TempDir(), "pid")
	// A busy machine may not begin the command within its limit: then a longer one.
	for limit := 300 * time.Millisecond; ; limit *= 4 {
		// The shell and its child ignore SIGTERM.
		f := failure(t, map[string]any{
			"command": `trap '' TERM; sleep 600 & echo $! > pid.new; mv pid.new pid; wait; wait`, "cwd": filepath.Dir(pid), "timeout": limit.String(),
		})
		require.True(t, f.Down)
		require.Contains(t, f.Error(), "did not end within "+limit.String())
		if _, err := os.Stat(pid); err == nil {
			break
		}
		require.Less(t, limit, time.Minute, "the command never begins")
	}
	require.Eventually(t, func() bool { return gone(pidIn(t, pid)) }, time.Minute, 10*time.Millisecond)
}

func TestNothingIsLeftBehindByACommandThatEndedWell(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, notify(t, map[string]any{"command": `sleep 600 & echo $! > pid`, "cwd": dir}))
	require.Eventually(t, func() bool { return gone(pidIn(t, filepath.Join(dir, "pid"))) }, time.Minute, 10*time.Millisecond)
}

func TestStopsWithItsContext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	pipe := filepath.Join(dir, "started")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	go func() {
		_, _ = os.ReadFile(pipe) // returns when the command has started
		cancel()
	}()
	err := command.New("").Notify(ctx, delivery(t, map[string]any{"command": "echo > started; sleep 600", "cwd": dir}))
	require.ErrorIs(t, err, context.Canceled)
}

func TestTemplatesSeeHarmlessErrors(t *testing.T) {
	t.Parallel()
	n := command.New("")
	c := n.TemplateContext(delivery(t, nil).Context)
	require.Equal(t, "EXIT_CODE: it s over touch /x", c.Exception)
	require.Equal(t, "two lines", c.ErrorMessage)
	require.Equal(t, "transcode", c.TaskID)

	// Inside and outside of quotes it is only words.
	dir := t.TempDir()
	nasty := "a'b\"c`touch hit1`$(touch hit2);touch hit3|tee hit4&touch hit5>hit6\\\n#é*?[x]{y}~!"
	said := n.TemplateContext(dag.EventContext{Exception: nasty}).Exception
	require.NoError(t, notify(t, map[string]any{
		"command": fmt.Sprintf("printf '%%s ' %s \"%s\" '%s' > said", said, said, said), "cwd": dir,
	}))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	raw, err := os.ReadFile(filepath.Join(dir, "said"))
	require.NoError(t, err)
	require.Equal(t, strings.Repeat(said+" ", 3), string(raw))
}
