package dialect_test

import (
	"context"
	"fmt"
	"net/url"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/sqltest"
)

func TestLostCommitIsATypeOfItsOwn(t *testing.T) {
	t.Parallel()
	sqltest.EachServer(t, func(t *testing.T, _, dsn string) {
		direct := sqltest.Open(t, dsn)
		table(t, direct)
		for want := 11; want <= 14; want++ {
			dropAnswer, together := want%2 == 1, want > 12
			u, err := url.Parse(dsn)
			require.NoError(t, err)
			proxy := sqltest.CutAtCommit(t, u.Host, dropAnswer)
			u.Host = proxy.Addr
			db, err := dialect.Open(t.Context(), u.String(), dialect.Options{MaxConns: 1, Together: together})
			require.NoError(t, err)
			proxy.Arm()
			calls := 0
			err = db.Write(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
				calls++
				_, err := tx.ExecContext(ctx, "INSERT INTO x (id, v) VALUES (?, 1)", want)
				return err
			})
			require.True(t, dialect.LostCommit(err), "%v", err)
			require.ErrorIs(t, err, mysql.ErrInvalidConn)
			require.Equal(t, dialect.ClassLost, dialect.ClassOf(err))
			require.Equal(t, 1, calls, "never repeated without a look")
			// A locking read waits for what the server has not finished yet.
			var n []int
			require.NoError(t, direct.Writer().Select(&n, "SELECT id FROM x WHERE id = ? FOR UPDATE", want))
			require.Equal(t, dropAnswer, len(n) == 1, "dropped answer: applied; dropped request: not")
			require.NoError(t, db.Close())
		}
	})
}

func TestConnectionKilledBeforeCommitIsRepeated(t *testing.T) {
	t.Parallel()
	sqltest.EachServer(t, func(t *testing.T, _, dsn string) {
		table(t, sqltest.Open(t, dsn))
		for _, together := range []bool{false, true} {
			killedBeforeCommit(t, openWith(t, dsn, dialect.Options{Together: together}))
		}
	})
}

func killedBeforeCommit(t *testing.T, db *dialect.DB) {
	t.Helper()
	before := value(t, db, 1)
	calls := 0
	err := db.Write(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
		calls++
		if _, err := tx.ExecContext(ctx, "UPDATE x SET v = v + 1 WHERE id = 1"); err != nil {
			return err
		}
		if calls == 1 {
			var id int
			if err := tx.GetContext(ctx, &id, "SELECT CONNECTION_ID()"); err != nil {
				return err
			}
			_, err := db.Writer().ExecContext(ctx, fmt.Sprintf("KILL CONNECTION %d", id))
			require.NoError(t, err)
		}
		_, err := tx.ExecContext(ctx, "UPDATE x SET v = v + 1 WHERE id = 2")
		return err
	})
	require.NoError(t, err)
	require.Equal(t, 2, calls)
	require.Equal(t, before+1, value(t, db, 1))
	require.Equal(t, before+1, value(t, db, 2))
}

// openWith opens a database that is closed at the end of the test.
func openWith(t *testing.T, dsn string, o dialect.Options) *dialect.DB {
	t.Helper()
	db, err := dialect.Open(t.Context(), dsn, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}
