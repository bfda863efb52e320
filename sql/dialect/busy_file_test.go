package dialect_test

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag/dagtest"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// heldBy is a file that is no WAL yet, and a transaction that means to write:
// what another process that is just making it looks like.
func heldBy(t *testing.T) (string, *sql.Tx) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "new.db")
	other, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate")
	require.NoError(t, err)
	t.Cleanup(func() { _ = other.Close() })
	_, err = other.Exec("CREATE TABLE x (id INTEGER PRIMARY KEY)")
	require.NoError(t, err)
	tx, err := other.Begin()
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return file, tx
}

func TestAFileThatIsBeingMadeIsWaitedFor(t *testing.T) {
	t.Parallel()
	file, maker := heldBy(t)
	clock := dagtest.NewClock(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC))
	released := make(chan error, 1)
	go func() {
		clock.BlockUntil(1)
		released <- maker.Rollback()
		clock.Advance(time.Second)
	}()
	db, err := dialect.Open(t.Context(), "sqlite:///"+file, dialect.Options{Clock: clock, BusyTimeout: 5 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	require.NoError(t, <-released)
	var journal string
	require.NoError(t, db.Writer().Get(&journal, "PRAGMA journal_mode"))
	require.Equal(t, "wal", journal)
}

func TestAFileThatAnotherKeepsIsRefusedInTheEnd(t *testing.T) {
	t.Parallel()
	file, _ := heldBy(t)
	clock := dagtest.NewClock(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC))
	go func() {
		for range 5 {
			clock.BlockUntil(1)
			clock.Advance(time.Second)
		}
	}()
	_, err := dialect.Open(t.Context(), "sqlite:///"+file, dialect.Options{Clock: clock, BusyTimeout: 5 * time.Second})
	require.Equal(t, dialect.ClassBusy, dialect.ClassOf(err), "%v", err)
	require.ErrorContains(t, err, "another process holds the file")
}
