package dialect_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/sqltest"
)

// must is a statement that sets v of row 1 and has to match so many rows.
func must(v, rows int) dialect.Statement {
	s := set(1, v)
	s.Must = rows
	return s
}

// atCommit is a transaction that ends with statements that go with its COMMIT.
func atCommit(db *dialect.DB, list ...dialect.Statement) func(context.Context, *sqlx.Tx) error {
	return func(ctx context.Context, tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, "UPDATE x SET v = v + 1 WHERE id = 3"); err != nil {
			return err
		}
		goes, err := db.AtCommit(ctx, tx, list)
		if err == nil && !goes {
			err = errors.New("they do not go")
		}
		return err
	}
}

func through(t *testing.T, dsn string, dropAnswer bool, o dialect.Options) (*dialect.DB, *sqltest.CutProxy) {
	t.Helper()
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	proxy := sqltest.CutAtCommit(t, u.Host, dropAnswer)
	u.Host = proxy.Addr
	o.MaxConns, o.Together = 1, true
	return openWith(t, u.String(), o), proxy
}

func TestStatementsThatGoWithCommit(t *testing.T) {
	t.Parallel()
	sqltest.EachServer(t, func(t *testing.T, _, dsn string) {
		db, proxy := through(t, dsn, false, dialect.Options{})
		table(t, db)
		before := proxy.Trips()
		require.NoError(t, db.Write(t.Context(), atCommit(db, must(5, 1), set(0, 9), must(6, 1))))
		require.Equal(t, 2, proxy.Trips()-before)
		require.Equal(t, []int{6, 0, 1}, []int{value(t, db, 1), value(t, db, 2), value(t, db, 3)})

		// Alone they take one trip, with BEGIN.
		before = proxy.Trips()
		require.NoError(t, db.Write(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
			_, err := db.AtCommit(ctx, tx, []dialect.Statement{must(7, 1)})
			return err
		}))
		require.Equal(t, 1, proxy.Trips()-before)
		require.Equal(t, 7, value(t, db, 1))

		// Matched is matched, also where the row had that value.
		require.NoError(t, db.Write(t.Context(), atCommit(db, must(7, 1))))
	})
}

// What fails at COMMIT leaves nothing of the transaction, and the connection to
// the next one.
func TestStatementsThatFailAtCommit(t *testing.T) {
	t.Parallel()
	sqltest.EachServer(t, func(t *testing.T, _, dsn string) {
		db, _ := through(t, dsn, false, dialect.Options{})
		table(t, db)
		other := sqltest.Open(t, dsn)
		clean := func() {
			t.Helper()
			require.Equal(t, []int{0, 0, 0}, []int{value(t, db, 1), value(t, db, 2), value(t, db, 3)})
			tx, err := other.Writer().Beginx()
			require.NoError(t, err)
			defer func() { _ = tx.Rollback() }()
			var ids []int
			require.NoError(t, tx.Select(&ids, "SELECT id FROM x"+other.SkipLocked()))
			require.Len(t, ids, 3, "no lock is left")
		}
		for _, list := range [][]dialect.Statement{
			{must(5, 2)},
			{must(5, 2), set(2, 5)},
			{set(2, 5), {Text: "UPDATE x SET v = 5 WHERE id = 99", Must: 1}, {Text: "INSERT INTO x (id, v) VALUES (1, 2)"}},
		} {
			require.ErrorIs(t, db.Write(t.Context(), atCommit(db, list...)), dialect.ErrOtherRows)
			clean()
		}
		err := db.Write(t.Context(), atCommit(db, must(5, 1), dialect.Statement{Text: "INSERT INTO x (id, v) VALUES (1, 2)"}))
		require.Equal(t, dialect.ClassDuplicate, dialect.ClassOf(err), "%v", err)
		clean()

		// A transaction that is taken back takes them with it.
		boom := errors.New("boom")
		require.ErrorIs(t, db.Write(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
			return errors.Join(atCommit(db, must(5, 1))(ctx, tx), boom)
		}), boom)
		require.NoError(t, db.Write(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
			var n int
			return tx.GetContext(ctx, &n, "SELECT COUNT(*) FROM x")
		}))
		clean()
	})
}

// A lock that is not to be had at COMMIT repeats the transaction like any other.
func TestALockWaitAtCommitIsRepeated(t *testing.T) {
	t.Parallel()
	sqltest.EachServer(t, func(t *testing.T, _, dsn string) {
		other := sqltest.Open(t, dsn)
		table(t, other)
		holder, err := other.Writer().Beginx()
		require.NoError(t, err)
		defer func() { _ = holder.Rollback() }()
		_, err = holder.Exec("UPDATE x SET v = 1 WHERE id = 1")
		require.NoError(t, err)
		var why []string
		db, _ := through(t, dsn, false, dialect.Options{LockWait: time.Second, OnRepeat: func(cause string) {
			why = append(why, cause)
			_ = holder.Commit()
		}})
		require.NoError(t, db.Write(t.Context(), atCommit(db, must(5, 1))))
		require.Equal(t, []string{"lock_wait"}, why)
		require.Equal(t, []int{5, 1}, []int{value(t, db, 1), value(t, db, 3)})
	})
}

// The answer to a COMMIT with statements before it may be lost like any other's.
func TestALostCommitWithStatements(t *testing.T) {
	t.Parallel()
	sqltest.EachServer(t, func(t *testing.T, _, dsn string) {
		for dropAnswer, want := range map[bool]int{true: 5, false: 0} {
			db, proxy := through(t, dsn, dropAnswer, dialect.Options{})
			direct := sqltest.Open(t, dsn)
			_, err := direct.Writer().Exec("DROP TABLE IF EXISTS x, parent")
			require.NoError(t, err)
			table(t, direct)
			proxy.Arm()
			err = db.Write(t.Context(), atCommit(db, must(5, 1)))
			require.True(t, dialect.LostCommit(err), "%v", err)
			require.Equal(t, want, value(t, direct, 1))
		}
	})
}

func TestWhatIsLongDoesNotGoWithCommit(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, name, dsn string) {
		db := openWith(t, dsn, dialect.Options{Together: true})
		table(t, db)
		require.NoError(t, db.Write(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
			goes, err := db.AtCommit(ctx, tx, []dialect.Statement{{Text: "UPDATE x SET v = LENGTH(?)", Args: []any{strings.Repeat("a", 64<<10)}}})
			require.NoError(t, err)
			require.False(t, goes)
			goes, err = db.AtCommit(ctx, tx, []dialect.Statement{must(5, 1)})
			require.NoError(t, err)
			require.Equal(t, name != "sqlite", goes, "a file has no round trips")
			return nil
		}))
		apart := openWith(t, dsn, dialect.Options{})
		require.NoError(t, apart.Write(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
			goes, err := apart.AtCommit(ctx, tx, []dialect.Statement{must(5, 1)})
			require.NoError(t, err)
			require.False(t, goes)
			return nil
		}))
	})
}
