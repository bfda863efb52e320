package app_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/app"
	"github.com/airlock-dag/airlock/cmd/config"
	"github.com/airlock-dag/airlock/dag"
)

func TestTheDAGsFolderIsFoundOrMade(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	open := func(folder string) *app.App {
		cfg := config.Default(home)
		if folder != "" {
			cfg.DagsFolder = folder
		}
		a, err := app.New(t.Context(), app.Options{Config: cfg, Log: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, a.Close()) })
		return a
	}
	own := open("")
	require.NoError(t, own.FindDAGs(t.Context()))
	require.DirExists(t, filepath.Join(home, "dags"), "the default folder is made")
	require.NoError(t, own.FindDAGs(t.Context()))

	other := filepath.Join(t.TempDir(), "flows")
	named := open(other)
	err := named.FindDAGs(t.Context())
	require.Equal(t, dag.ErrInvalid, dag.CodeOf(err), "%v", err)
	require.NoDirExists(t, other, "a folder that somebody names may be misspelt")

	// Once the database knows its DAGs, a folder that is gone is an outage.
	require.NoError(t, os.Mkdir(other, 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(other, "d.yml"), []byte("d:\n  schedule: null\n  tasks:\n    a: {operator: empty}\n"), 0o600))
	_, err = named.Catalog().Sync(t.Context())
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(other))
	require.NoError(t, named.FindDAGs(t.Context()))
}
