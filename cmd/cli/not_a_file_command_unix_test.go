//go:build unix

package cli_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/cli"
)

// No command waits for a pipe that has a file's name: it says what it found.
func TestNoCommandWaitsForAPipe(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"dags/hello.yml": hello})
	for _, name := range []string{"pipe.json", "pipe.env", "pipe.sql", "dags/pipe.yml", "dags/.airflowignore"} {
		require.NoError(t, syscall.Mkfifo(h.path(name), 0o600))
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(shortDir(t), "socket"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	require.NoError(t, os.Symlink(l.Addr().String(), h.path("socket.json")))

	pipe := "not a regular file but a named pipe"
	for _, args := range [][]string{
		{"connections", "import", "pipe.json"}, {"connections", "import", "pipe.env"}, {"variables", "import", "pipe.json"},
		{"import", "adf", "pipe.json"}, {"dlq", "import", "pipe.json"}, {"merge", "plan", "pipe.sql", "--conn-id", "x"},
	} {
		h.fails(cli.ExitUsage, []string{h.path(args[min(2, len(args)-1)]), pipe}, args...)
	}
	h.fails(cli.ExitUsage, []string{h.path("socket.json"), "not a regular file but a socket"}, "connections", "import", "socket.json")

	// A broken file is told with its name, and hides no other.
	r := h.run("dags", "validate")
	require.Equal(t, cli.ExitFailed, r.code)
	require.Contains(t, r.stdout+r.stderr, "pipe.yml: error: "+pipe)
	require.Contains(t, r.stdout+r.stderr, ".airflowignore: error: cannot be read, so nothing is left out: "+pipe)
	require.Equal(t, []any{"hello"}, column(h.list("dags", "list"), "dag_id"))
}

// shortDir is a folder whose path is short enough for a socket in it.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cli") //nolint:usetesting // t.TempDir has the long name of the test
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// What the shell has opened, as <(command) does, is read like a file.
func TestACommandReadsWhatTheShellOpened(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	_, err = w.WriteString(`{"color": "red"}`)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	name, err := os.Readlink("/dev/fd")
	if err != nil {
		t.Skip("this system has no /dev/fd")
	}
	require.NotEmpty(t, name)
	h.ok("variables", "import", fmt.Sprintf("/dev/fd/%d", r.Fd()))
	require.Equal(t, "red\n", h.ok("variables", "get", "color").stdout)
}
