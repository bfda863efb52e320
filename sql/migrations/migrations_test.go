package migrations_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/pressly/goose/v3/database"
	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/migrations"
	"github.com/airlock-dag/airlock/sql/sqltest"
)

func TestUpFromEmptyAndAgain(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		db := sqltest.Open(t, dsn)
		have, want, err := migrations.Version(t.Context(), db)
		require.NoError(t, err)
		require.Zero(t, have)
		require.Positive(t, want)
		for range 2 {
			require.NoError(t, migrations.Up(t.Context(), db))
			have, _, err = migrations.Version(t.Context(), db)
			require.NoError(t, err)
			require.Equal(t, want, have)
		}
		var slots int
		require.NoError(t, db.Reader().Get(&slots, "SELECT slots FROM pool WHERE name = ?", dag.DefaultPool))
		require.Equal(t, 128, slots)
		for _, table := range []string{
			"dead_letter", "dead_letter_audit", "effect", "dag", "dag_version", "dag_run", "task_instance", "task_attempt",
			"xcom", "variable", "connection", "callback_event", "audit_log", "import_error", "circuit_breaker", "circuit_window",
		} {
			var n int
			require.NoError(t, db.Reader().Get(&n, "SELECT COUNT(*) FROM "+table))
			require.Zero(t, n, table)
		}
	})
}

func TestSeveralProcessesMigrateAtOnce(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		var g sync.WaitGroup
		errs := make([]error, 6)
		for i := range errs {
			g.Go(func() {
				db, err := dialect.Open(context.Background(), dsn, dialect.Options{Create: true})
				if err != nil {
					errs[i] = err
					return
				}
				defer func() { _ = db.Close() }()
				errs[i] = migrations.Up(context.Background(), db)
			})
		}
		g.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
		var n int
		require.NoError(t, sqltest.Open(t, dsn).Reader().Get(&n, "SELECT COUNT(*) FROM pool"))
		require.Equal(t, 2, n, "default_pool and replay_pool")
	})
}

func TestANewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		db := sqltest.Open(t, dsn)
		require.NoError(t, migrations.Up(t.Context(), db))
		_, want, err := migrations.Version(t.Context(), db)
		require.NoError(t, err)
		sqltest.Exec(t, dsn, fmt.Sprintf("INSERT INTO %s (version_id, is_applied) VALUES (%d, 1)", migrations.TableName, want+1))
		err = migrations.Up(t.Context(), db)
		require.Equal(t, dag.ErrConflict, dag.CodeOf(err))
		require.ErrorContains(t, err, fmt.Sprintf("version %d", want+1))
		require.ErrorContains(t, err, "newer airlock")
	})
}

// On a server DDL commits by itself: a migration that was cut off must be able
// to start over.
func TestAHalfRunFileIsRunAgain(t *testing.T) {
	t.Parallel()
	sqltest.EachServer(t, func(t *testing.T, _, dsn string) {
		db := sqltest.Open(t, dsn)
		require.NoError(t, migrations.Up(t.Context(), db))
		sqltest.Exec(t, dsn, "DROP TABLE audit_log;\nDROP TABLE effect;\nDELETE FROM "+migrations.TableName+" WHERE version_id > 0;")
		require.NoError(t, migrations.Up(t.Context(), db))
		var n int
		require.NoError(t, db.Reader().Get(&n, "SELECT COUNT(*) FROM audit_log"))
	})
}

// The table of files is committed before its first row: a process may die between.
func TestAnEmptyTableOfFilesIsNoObstacle(t *testing.T) {
	t.Parallel()
	sqltest.EachServer(t, func(t *testing.T, _, dsn string) {
		db := sqltest.Open(t, dsn)
		table, err := database.NewStore(database.DialectMySQL, migrations.TableName)
		require.NoError(t, err)
		require.NoError(t, table.CreateVersionTable(t.Context(), db.Writer().DB))
		require.NoError(t, migrations.Up(t.Context(), db))
		have, want, err := migrations.Version(t.Context(), db)
		require.NoError(t, err)
		require.Equal(t, want, have)
	})
}

// A file may get a lower number than one that a database has seen already.
func TestAFileThatCameLaterIsRun(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		db := sqltest.Open(t, dsn)
		require.NoError(t, migrations.Up(t.Context(), db))
		sqltest.Exec(t, dsn, "DROP TABLE media_input;\nDROP TABLE media_input_use;\nDELETE FROM "+migrations.TableName+" WHERE version_id = 5;")
		have, want, err := migrations.Version(t.Context(), db)
		require.NoError(t, err)
		require.Equal(t, int64(4), have, "as old as what comes before the missing file")
		require.NoError(t, migrations.Up(t.Context(), db))
		have, _, err = migrations.Version(t.Context(), db)
		require.NoError(t, err)
		require.Equal(t, want, have)
		var n int
		require.NoError(t, db.Reader().Get(&n, "SELECT COUNT(*) FROM media_input"))
	})
}
