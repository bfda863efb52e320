package command_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/callbacks/command"
	"github.com/airlock-dag/airlock/dag/proc"
)

// TestWhatAKilledProcessLeftIsEndedBeforeTheNextDelivery kills a process that
// delivers with SIGKILL. Its command is ended by the kernel, and what that had
// started, in its group or out of it, before the event is delivered again. What
// runs for other events is left alone.
func TestWhatAKilledProcessLeftIsEndedBeforeTheNextDelivery(t *testing.T) {
	const installation, folder = "COMMAND_TEST_INSTALLATION", "COMMAND_TEST_FOLDER"
	if dir := os.Getenv(folder); dir != "" {
		d := delivery(t, map[string]any{
			"command": `sleep 300 & echo $! > child.new; setsid sleep 300 & echo $! > session.new; echo $$ > shell.new
for f in child session shell; do mv $f.new $f; done; wait`, "cwd": dir,
		})
		_ = command.New(os.Getenv(installation)).Notify(context.Background(), d)
		return
	}
	t.Parallel()
	dir := t.TempDir()
	name := "killed-command-" + filepath.Base(filepath.Dir(dir))
	t.Cleanup(func() { _, _ = proc.Sweep(name, 0) })
	exe, err := os.Executable()
	require.NoError(t, err)
	killed := exec.Command(exe, "-test.run", "^"+t.Name()+"$")
	killed.Env = append(os.Environ(), folder+"="+dir, installation+"="+name)
	require.NoError(t, killed.Start())
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(dir, "shell"))
		return err == nil
	}, 30*time.Second, 5*time.Millisecond)
	shell, child, session := pidIn(t, filepath.Join(dir, "shell")), pidIn(t, filepath.Join(dir, "child")), pidIn(t, filepath.Join(dir, "session"))
	require.NoError(t, killed.Process.Signal(syscall.SIGKILL))
	_ = killed.Wait()
	require.Eventually(t, func() bool { return gone(shell) }, 30*time.Second, 5*time.Millisecond)
	require.False(t, gone(child))
	require.False(t, gone(session))

	n := command.New(name)
	var warned []string
	again := delivery(t, map[string]any{"command": "true"})
	again.Warn = func(message string, _ ...any) { warned = append(warned, message) }
	again.Event.ID = 11 // its mark begins with that of event 1
	require.NoError(t, n.Notify(t.Context(), again))
	require.Empty(t, warned)
	require.False(t, gone(child), "another event's")

	again.Event.ID = 1
	// The command itself finds them dead: they ended before it began.
	again.Args["command"] = `for f in child session; do ps -o stat= -p "$(cat $f)" | grep -qv Z && exit 3; done; exit 0`
	again.Args["cwd"] = dir
	require.NoError(t, n.Notify(t.Context(), again))
	require.True(t, gone(child))
	require.True(t, gone(session))
	require.Len(t, warned, 1)

	// A command that ends leaves nothing either, in its group or out of it.
	again.Args["command"] = `setsid sleep 300 > /dev/null 2>&1 & echo $! > session; exit 0`
	require.NoError(t, n.Notify(t.Context(), again))
	require.True(t, gone(pidIn(t, filepath.Join(dir, "session"))))
	require.Len(t, warned, 1)
	require.True(t, strings.HasPrefix(warned[0], "ended what an earlier delivery"))
}
