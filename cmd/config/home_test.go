package config_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/config"
	"github.com/airlock-dag/airlock/dag"
)

func TestPrepareMakesOneKeyHoweverManyAsk(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "home")
	keys := make([]config.Secret, 8)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			c := config.Default(dir)
			if err := c.Prepare(); err == nil {
				keys[i] = c.FernetKey
			}
		})
	}
	wg.Wait()
	raw, err := base64.URLEncoding.DecodeString(keys[0].Reveal())
	require.NoError(t, err)
	require.Len(t, raw, 32)
	for _, key := range keys {
		require.Equal(t, keys[0].Reveal(), key.Reveal())
	}
	info, err := os.Stat(filepath.Join(dir, "fernet.key"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing but the key is left")

	c, err := config.Load(config.Sources{Environ: []string{"AIRLOCK_HOME=" + dir}})
	require.NoError(t, err)
	require.Equal(t, keys[0].Reveal(), c.FernetKey.Reveal(), "the key is found again")
}

func TestPrepareLeavesASetKeyAlone(t *testing.T) {
	t.Parallel()
	c := config.Default(t.TempDir())
	c.FernetKey = "mine"
	require.NoError(t, c.Prepare())
	require.Equal(t, "mine", c.FernetKey.Reveal())
	require.NoFileExists(t, filepath.Join(c.Home, "fernet.key"))
}

func TestABrokenKeyFileIsNotReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "fernet.key")
	require.NoError(t, os.WriteFile(name, []byte("short\n"), 0o600))
	_, err := config.Load(config.Sources{Environ: []string{"AIRLOCK_HOME=" + dir}})
	require.Equal(t, dag.ErrInvalid, dag.CodeOf(err))
	require.NotContains(t, err.Error(), "short")
	content, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "short\n", string(content))
}
