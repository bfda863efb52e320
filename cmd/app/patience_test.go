package app_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/app"
	"github.com/airlock-dag/airlock/cmd/config"
	"github.com/airlock-dag/airlock/sql/sqltest"
	"github.com/airlock-dag/airlock/sql/store"
)

// TestAServerThatComesLater: what starts together starts in any order.
func TestAServerThatComesLater(t *testing.T) {
	t.Parallel()
	server := sqltest.StartMariaDB(t)
	cfg := config.Default(t.TempDir())
	cfg.Database = config.DSN(server.Fresh(t))
	st, err := store.Open(t.Context(), cfg.Database.Reveal(), store.Options{})
	require.NoError(t, err)
	require.NoError(t, st.Migrate(t.Context()))
	require.NoError(t, st.Close())
	server.Kill()

	_, err = app.New(t.Context(), app.Options{Config: cfg})
	require.ErrorContains(t, err, "is the server running")

	var said syncBuffer
	started := make(chan error, 1)
	go func() {
		a, err := app.New(t.Context(), app.Options{Config: cfg, Log: slog.New(slog.NewTextHandler(&said, nil)), Patience: patience})
		if err == nil {
			err = a.Close()
		}
		started <- err
	}()
	require.Eventually(t, func() bool { return strings.Contains(said.String(), "not there yet") }, patience, 10*time.Millisecond)
	server.Restart(t)
	require.NoError(t, <-started)
}
