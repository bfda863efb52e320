package dialect_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/dialect"
)

func keeping(t *testing.T) *dialect.DB {
	t.Helper()
	db, err := dialect.Open(t.Context(), "sqlite:///"+filepath.Join(t.TempDir(), "x.db"), dialect.Options{Create: true, KeepStatements: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	_, err = db.Writer().Exec("CREATE TABLE x (id INTEGER PRIMARY KEY, v TEXT); CREATE INDEX xv ON x (v)")
	require.NoError(t, err, "a script is left to the driver")
	return db
}

func TestKeptStatementsComeAgain(t *testing.T) {
	t.Parallel()
	db := keeping(t)
	for i := range 5 {
		_, err := db.Writer().Exec("INSERT INTO x (id, v) VALUES (?, ?)", i, fmt.Sprint("v", i))
		require.NoError(t, err)
	}
	_, err := db.Writer().Exec("INSERT INTO x (id, v) VALUES (?, ?)", 3, "again")
	require.Equal(t, dialect.ClassDuplicate, dialect.ClassOf(err))
	_, err = db.Writer().Exec("INSERT INTO x (id, v) VALUES (?, ?)", 5, nil)
	require.NoError(t, err, "a statement that failed is as good as new, and forgets its arguments")
	var got []sql.NullString
	require.NoError(t, db.Writer().Select(&got, "SELECT v FROM x WHERE id >= ? ORDER BY id", 4))
	require.Len(t, got, 2)
	require.Equal(t, "v4", got[0].String)
	require.False(t, got[1].Valid)

	// A changed schema is seen by a kept statement.
	row := map[string]any{}
	require.NoError(t, db.Writer().QueryRowx("SELECT * FROM x WHERE id = ?", 1).MapScan(row))
	require.Len(t, row, 2)
	_, err = db.Writer().Exec("ALTER TABLE x ADD COLUMN w TEXT DEFAULT 'new'")
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, db.Writer().QueryRowx("SELECT * FROM x WHERE id = ?", 1).MapScan(row))
		require.Equal(t, "new", row["w"])
	}
}

func TestTheSameTextWhileItsRowsAreOpen(t *testing.T) {
	t.Parallel()
	db := keeping(t)
	tx, err := db.Writer().Beginx()
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	for i := range 3 {
		_, err := tx.Exec("INSERT INTO x (id, v) VALUES (?, 'a')", i)
		require.NoError(t, err)
	}
	const query = "SELECT id FROM x WHERE v = ? ORDER BY id"
	outer, err := tx.Query(query, "a")
	require.NoError(t, err)
	defer func() { _ = outer.Close() }()
	var ids []int
	for outer.Next() {
		var id int
		require.NoError(t, outer.Scan(&id))
		ids = append(ids, id)
		var inner []int
		require.NoError(t, tx.Select(&inner, query, "a"))
		require.Equal(t, []int{0, 1, 2}, inner)
	}
	require.NoError(t, outer.Err())
	require.Equal(t, []int{0, 1, 2}, ids)
}

func TestManyTextsAreDroppedAgain(t *testing.T) {
	t.Parallel()
	db := keeping(t)
	for round := range 2 {
		for i := range 300 {
			var n int
			require.NoError(t, db.Writer().Get(&n, fmt.Sprintf("SELECT %d + ?", i), round))
			require.Equal(t, i+round, n)
		}
	}
}

func TestAnEndedContextStartsNothing(t *testing.T) {
	t.Parallel()
	db := keeping(t)
	ctx, stop := context.WithCancel(t.Context())
	const insert = "INSERT INTO x (v) VALUES (?)"
	_, err := db.Writer().ExecContext(ctx, insert, "one")
	require.NoError(t, err)
	stop()
	_, err = db.Writer().ExecContext(ctx, insert, "two")
	require.ErrorIs(t, err, context.Canceled)
	var n int
	require.NoError(t, db.Reader().Get(&n, "SELECT COUNT(*) FROM x"))
	require.Equal(t, 1, n)
}

func TestCommitsAreCounted(t *testing.T) {
	t.Parallel()
	db := keeping(t)
	before := db.Commits()
	require.NoError(t, put(t, db, "one"))
	require.Error(t, put(t, db, ""))
	require.Equal(t, before+1, db.Commits())
}

// put inserts a value in a transaction; an empty one is an error after the INSERT.
func put(t *testing.T, db *dialect.DB, v string) error {
	t.Helper()
	return db.Write(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO x (v) VALUES (?)", v); err != nil {
			return err
		}
		if v == "" {
			return errors.New("not this one")
		}
		return nil
	})
}
