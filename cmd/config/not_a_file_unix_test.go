//go:build unix

package config_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/config"
)

// A pipe or a folder in the place of a file that Airlock reads at its start is an
// error that names it, and never waited for.
func TestWhatIsNoFileIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	for kind, put := range map[string]func(path string) error{
		"a named pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a folder":     func(path string) error { return os.Mkdir(path, 0o700) },
		"a device":     func(path string) error { return os.Symlink("/dev/zero", path) },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			settings := filepath.Join(dir, config.FileName)
			require.NoError(t, put(settings))
			_, err := config.Load(config.Sources{Environ: []string{"AIRLOCK_HOME=" + dir}})
			require.ErrorContains(t, err, "open "+settings+": not a regular file but "+kind)

			dir = t.TempDir()
			require.NoError(t, put(filepath.Join(dir, "fernet.key")))
			c, err := config.Load(config.Sources{Environ: []string{"AIRLOCK_HOME=" + dir}})
			if err == nil {
				err = c.Prepare()
			}
			require.ErrorContains(t, err, "open "+filepath.Join(dir, "fernet.key")+": not a regular file but "+kind)
		})
	}
}
