package bash_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag/proc"
	"github.com/airlock-dag/airlock/executor/operator/bash"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
)

// TestAKilledWorkerLeavesNothingThatCannotBeFound kills a process that runs the
// operator, as a worker would, with SIGKILL: the command dies with it, and what
// the command had started is found by its mark.
func TestAKilledWorkerLeavesNothingThatCannotBeFound(t *testing.T) {
	if dir := os.Getenv("BASH_TEST_WORKER"); dir != "" {
		f := operatortest.New(t, map[string]any{
			"bash_command": `cd "$DIR"; sleep 300 & echo $! > child; setsid sleep 300 & echo $! > session; echo $$ > shell; wait`,
			"env":          map[string]any{"DIR": dir}, "append_env": true,
		})
		f.Task.Marker = os.Getenv("BASH_TEST_MARKER")
		bash.New().Run(context.Background(), f.Task)
		return
	}
	t.Parallel()
	dir := t.TempDir()
	marker := "killed-worker-" + filepath.Base(dir) + "/7/3"
	exe, err := os.Executable()
	require.NoError(t, err)
	worker := exec.Command(exe, "-test.run", "^"+t.Name()+"$")
	worker.Env = append(os.Environ(), "BASH_TEST_WORKER="+dir, "BASH_TEST_MARKER="+marker)
	require.NoError(t, worker.Start())
	shell := pidFrom(t, filepath.Join(dir, "shell"))
	child, session := pidFrom(t, filepath.Join(dir, "child")), pidFrom(t, filepath.Join(dir, "session"))
	require.NoError(t, worker.Process.Signal(syscall.SIGKILL))
	_ = worker.Wait()
	require.Eventually(t, func() bool { return !alive(shell) }, 20*time.Second, 5*time.Millisecond)

	// The next attempt on this machine begins with this.
	n, err := proc.Sweep("killed-worker-"+filepath.Base(dir)+"/7/", time.Second)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.False(t, alive(child))
	require.False(t, alive(session))
}
