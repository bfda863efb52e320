//go:build linux

package proc_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag/proc"
)

// TestAProcessThatBecomesAnotherProgramIsFound: while the kernel loads the new
// program, the process has no environment to read. This one does nothing but
// become itself again.
func TestAProcessThatBecomesAnotherProgramIsFound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script, begun := filepath.Join(dir, "again"), filepath.Join(dir, "begun")
	// A file that a child of another test still has open for writing may be read,
	// and may not be executed.
	require.NoError(t, os.WriteFile(script, []byte(": > "+begun+"\nexec sh \"$0\"\n"), 0o600))
	marker := markerOf(t, "again")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := proc.Run(ctx, proc.Command{Argv: []string{"sh", script}, Marker: marker})
		done <- err
	}()
	waitFor(t, "the process to run", func() bool { _, err := os.Stat(begun); return err == nil })
	missed := 0
	for range 100 {
		left, err := proc.Leftovers(marker)
		require.NoError(t, err)
		if len(left) == 0 {
			missed++
		}
	}
	stop()
	require.NoError(t, <-done)
	require.Zero(t, missed, "looks that did not see it")
}

// TestASweepReturnsWhenTheProcessHasEnded: one with much memory takes a while to
// end, without an environment and with its files still open.
func TestASweepReturnsWhenTheProcessHasEnded(t *testing.T) {
	const name = "PROC_TEST_LARGE"
	if file := os.Getenv(name); file != "" {
		memory := make([]byte, 256<<20)
		for i := 0; i < len(memory); i += 4096 {
			memory[i] = 1
		}
		_ = os.WriteFile(file, fmt.Appendln(nil, os.Getpid()), 0o600)
		for range time.Tick(time.Hour) {
			runtime.KeepAlive(memory)
		}
	}
	t.Parallel()
	exe, err := os.Executable()
	require.NoError(t, err)
	file, marker := filepath.Join(t.TempDir(), "pid"), markerOf(t, "large")
	large := exec.Command(exe, "-test.run", "^"+t.Name()+"$")
	large.Env = append(os.Environ(), name+"="+file, proc.MarkerEnv+"="+marker)
	require.NoError(t, large.Start())
	go func() { _ = large.Wait() }()
	pid := pidFrom(t, file)
	n, err := proc.Sweep(marker, 0)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.False(t, alive(pid))
}
