//go:build unix

package upload_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

// A named pipe is refused and not waited for.
func TestPipeIsNotOpened(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe.mp4")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	out, _ := run(t, operator(), dag.Connection{}, map[string]any{"path": path, "target": t.TempDir()})
	require.Equal(t, "INVALID_ARGUMENT", out.Err.Code)
	require.Contains(t, out.Err.Message, "no regular file")
}
