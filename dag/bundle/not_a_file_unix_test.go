//go:build unix

package bundle_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/bundle"
)

// What only has the name of a file is a problem of this name: the scan neither
// waits for a writer nor gives up the files beside it.
func TestScanWaitsForNoPipe(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, "good.yml", "a: 1\n")
	write(t, root, "sub/also.yml", "a: 1\n")
	write(t, root, "large/last.yml", "a: 1\n")
	write(t, root, "large/.airflowignore", string(make([]byte, bundle.MaxFileSize+1)))
	require.NoError(t, syscall.Mkfifo(filepath.Join(root, ".airflowignore"), 0o600))
	require.NoError(t, syscall.Mkfifo(filepath.Join(root, "pipe.yml"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(root, "sub", ".airflowignore"), 0o755))
	require.NoError(t, os.Symlink("/dev/zero", filepath.Join(root, "zero.yml")))
	require.Equal(t, []string{
		".airflowignore: cannot be read, so nothing is left out: not a regular file but a named pipe",
		"good.yml",
		"large/.airflowignore: cannot be read, so nothing is left out: has 5242881 bytes; at most 5242880 are read",
		"large/last.yml",
		"pipe.yml: not a regular file but a named pipe",
		"sub/.airflowignore: cannot be read, so nothing is left out: not a regular file but a folder",
		"sub/also.yml",
		"zero.yml: not a regular file but a device",
	}, scan(t, bundle.NewFolder(root)))

	pipe := filepath.Join(root, "pipe.yml")
	_, err := bundle.NewFolder(pipe).Scan()
	require.Equal(t, dag.ErrInvalid, dag.CodeOf(err))
	require.ErrorContains(t, err, "read the DAGs folder "+pipe)
	require.ErrorContains(t, err, "it is a named pipe")
}
