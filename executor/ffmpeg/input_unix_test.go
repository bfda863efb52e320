//go:build unix

package ffmpeg_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/executor/ffmpeg"
)

// A file that is not there is told from a link that leads nowhere and from a name
// that was lost on the way.
func TestMissingInputs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := filepath.Join(dir, "link.mp4")
	require.NoError(t, os.Symlink("gone.mp4", link))
	for path, words := range map[string]string{
		filepath.Join(dir, "a.mp4"): "a relative one starts", link: "is a link to gone.mp4, which does not exist", filepath.Join(dir, "a\uFFFD.mp4"): "rename the file",
	} {
		_, err := ffmpeg.ReadInput(t.Context(), path)
		require.Equal(t, ffmpeg.CodeInputMissing, codeOf(t, err))
		require.ErrorContains(t, err, words)
	}
}

// What is no file is refused without being opened: a named pipe would keep the
// attempt waiting for a writer, whatever its time limit.
func TestOnlyFilesAreOpened(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe.mp4")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	for path, what := range map[string]string{pipe: "named pipe", t.TempDir(): "folder", "/dev/zero": "device"} {
		for _, cache := range []*ffmpeg.HashCache{nil, {}} {
			_, err := cache.ReadInput(t.Context(), path)
			require.Equal(t, ffmpeg.CodeNotMedia, codeOf(t, err))
			require.ErrorContains(t, err, what)
		}
	}
}
