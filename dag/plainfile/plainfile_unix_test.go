//go:build unix

package plainfile_test

import (
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag/plainfile"
)

// Whatever is no file is refused in words, with its path, and never waited for.
func TestOpenRefusesWhatIsNoFile(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "plain") //nolint:usetesting // a socket has a short path, t.TempDir the long name of the test
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	pipe, socket, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "socket"), filepath.Join(dir, "link")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	require.NoError(t, os.Symlink(pipe, link))
	for path, kind := range map[string]string{
		pipe: "a named pipe", link: "a named pipe", socket: "a socket", dir: "a folder", "/dev/zero": "a device",
	} {
		_, err := plainfile.Open(path)
		require.EqualError(t, err, "open "+path+": not a regular file but "+kind)
		require.ErrorIs(t, err, plainfile.ErrNotPlain)
		_, err = plainfile.Read(path, 10)
		require.ErrorIs(t, err, plainfile.ErrNotPlain)
	}
	_, err = plainfile.Open(filepath.Join(dir, "nothing"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestReadTakesAFileUpToItsLimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, link := filepath.Join(dir, "five"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(path, []byte("12345"), 0o600))
	require.NoError(t, os.Symlink(path, link))
	for _, limit := range []int64{0, 5, 6} {
		data, err := plainfile.Read(link, limit)
		require.NoError(t, err)
		require.Equal(t, "12345", string(data))
	}
	_, err := plainfile.Read(path, 4)
	var large *plainfile.TooLargeError
	require.ErrorAs(t, err, &large)
	require.Equal(t, plainfile.TooLargeError{Size: 5, Limit: 4}, *large)
	require.EqualError(t, err, "read "+path+": has 5 bytes; at most 4 are read")

	f, err := plainfile.Open(path)
	require.NoError(t, err)
	data, err := io.ReadAll(f)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.Equal(t, "12345", string(data))
}
