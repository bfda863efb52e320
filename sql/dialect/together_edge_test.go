package dialect_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/sqltest"
)

// A first statement that the driver kept back leaves the transaction as it is: what
// comes after it is undone with it.
func TestATransactionWhoseFirstStatementWasNotSent(t *testing.T) {
	t.Parallel()
	sqltest.EachServer(t, func(t *testing.T, _, dsn string) {
		db := openWith(t, dsn, dialect.Options{Together: true})
		table(t, db)
		far := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) // no date of a server's
		update := dialect.Statement{Text: "UPDATE x SET v = 1, at = ? WHERE id = 1", Args: []any{far}}
		boom := errors.New("boom")
		for _, list := range [][]dialect.Statement{{update}, {set(1, 1), update}} {
			require.ErrorIs(t, db.Write(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
				_, err := db.ExecTogether(ctx, tx, list)
				require.ErrorContains(t, err, "year")
				_, err = tx.ExecContext(ctx, "UPDATE x SET v = 2 WHERE id = 1")
				require.NoError(t, err)
				return boom
			}), boom)
			require.Equal(t, 0, value(t, db, 1))
		}
	})
}

// An argument that is no value is an error of its list alone, and not of the next
// that the connection runs.
func TestAListWithAnArgumentThatIsNone(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		db := openWith(t, dsn, dialect.Options{MaxConns: 1, Together: true})
		table(t, db)
		bad := dialect.Statement{Text: "UPDATE x SET v = ? WHERE id = 1", Args: []any{make(chan int)}}
		require.Error(t, db.Write(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
			_, err := db.ExecTogether(ctx, tx, []dialect.Statement{set(2, 7), bad})
			return err
		}))
		require.NoError(t, db.Write(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE x SET v = 3 WHERE id = 1")
			return err
		}))
		require.Equal(t, []int{3, 0}, []int{value(t, db, 1), value(t, db, 2)})
	})
}

// A line that breaks before the server has heard of a transaction: also where its
// owner takes the error for nothing, it is no commit.
func TestATransactionWhoseLineBreaksAtTheFirstStatement(t *testing.T) {
	t.Parallel()
	sqltest.EachServer(t, func(t *testing.T, _, dsn string) {
		direct := sqltest.Open(t, dsn)
		table(t, direct)
		db := openWith(t, dsn, dialect.Options{MaxConns: 1, Together: true})
		calls := 0
		require.NoError(t, db.Write(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
			if calls++; calls > 1 {
				_, err := tx.ExecContext(ctx, "UPDATE x SET v = 1 WHERE id = 1")
				return err
			}
			var ids []int64
			require.NoError(t, direct.Reader().SelectContext(ctx, &ids, "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"))
			for _, id := range ids {
				_, _ = direct.Writer().ExecContext(ctx, fmt.Sprintf("KILL CONNECTION %d", id)) // one may be gone
			}
			_, err := tx.ExecContext(ctx, "UPDATE x SET v = 2 WHERE id = 1")
			require.Error(t, err)
			return nil
		}))
		require.Equal(t, 2, calls)
		require.Equal(t, 1, value(t, db, 1))
	})
}

// A server may decide what its sessions begin with (character-set-client-handshake,
// autocommit, init_connect). Where it takes the bytes of UTF-8 for GBK, the last of
// three takes the escape behind it along, and a quote in a value would end the text.
// Where a statement by itself is not committed, it is lost with its line.
func TestAServerThatDecidesHowSessionsBegin(t *testing.T) {
	t.Parallel()
	p := sqltest.StartMariaDB(t, "--character-set-server=gbk", "--skip-character-set-client-handshake", "--autocommit=0")
	dsn := p.Fresh(t)
	db, other := openWith(t, dsn, dialect.Options{Together: true}), openWith(t, dsn, dialect.Options{})
	table(t, db)
	_, err := db.Writer().Exec("ALTER TABLE x MODIFY s VARCHAR(100) CHARACTER SET utf8mb4")
	require.NoError(t, err)
	text := "中'; UPDATE x SET v = 99 WHERE id = 3; -- "
	require.NoError(t, db.Write(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE x SET s = ? WHERE id = 1", text)
		return err
	}))
	var got string
	require.NoError(t, db.Reader().Get(&got, "SELECT s FROM x WHERE id = 1"))
	require.Equal(t, text, got)
	require.Equal(t, 0, value(t, db, 3))

	_, err = other.Writer().Exec("UPDATE x SET v = 5 WHERE id = 2")
	require.NoError(t, err)
	require.Equal(t, 5, value(t, db, 2))
}

// together runs statements and, where asks is set, leaves the rows of a query behind
// them unread.
func together(ctx context.Context, db *dialect.DB, tx *sqlx.Tx, asks bool, list ...dialect.Statement) error {
	if !asks {
		_, err := db.ExecTogether(ctx, tx, list)
		return err
	}
	rows, _, err := db.QueryAfter(ctx, tx, list, "SELECT v FROM x", nil)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	return nil
}

func adds(ids ...int) []dialect.Statement {
	list := make([]dialect.Statement, len(ids))
	for i, id := range ids {
		list[i] = dialect.Statement{Text: "UPDATE x SET v = v + 1 WHERE id = ?", Args: []any{id}, Asked: true}
	}
	return list
}

// A lock wait undoes the one statement of several that waited: what was before it goes
// with the transaction, and what was behind it has not been run.
func TestStatementsTogetherThatWaitForALock(t *testing.T) {
	t.Parallel()
	sqltest.EachServer(t, func(t *testing.T, _, dsn string) {
		db := openWith(t, dsn, dialect.Options{LockWait: time.Second, Together: true, MaxConns: 2})
		table(t, db)
		for n, asks := range []bool{false, true} {
			other, err := db.Writer().Beginx()
			require.NoError(t, err)
			_, err = other.Exec("UPDATE x SET v = 100 WHERE id = 2")
			require.NoError(t, err)
			calls := 0
			require.NoError(t, db.Write(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
				calls++
				err := together(ctx, db, tx, asks, adds(1, 2, 3)...)
				if err != nil {
					require.Equal(t, dialect.ClassRetryable, dialect.ClassOf(err), "%v", err)
					require.NoError(t, other.Rollback())
				}
				return err
			}))
			require.Equal(t, 2, calls)
			require.Equal(t, []int{n + 1, n + 1, n + 1}, []int{value(t, db, 1), value(t, db, 2), value(t, db, 3)})
		}
	})
}

// Of two deadlocked lists one is undone and begins anew.
func TestStatementsTogetherThatAreADeadlock(t *testing.T) {
	t.Parallel()
	sqltest.EachServer(t, func(t *testing.T, _, dsn string) {
		const times = 50
		db := openWith(t, dsn, dialect.Options{Together: true, MaxConns: 2})
		table(t, db)
		var g sync.WaitGroup
		for _, list := range [][]dialect.Statement{adds(1, 2, 3), adds(3, 2, 1)} {
			g.Go(func() {
				for n := 0; n < times; {
					err := db.Write(context.Background(), func(ctx context.Context, tx *sqlx.Tx) error { return together(ctx, db, tx, n%2 == 0, list...) })
					switch {
					case err == nil:
						n++
					case dialect.ClassOf(err) != dialect.ClassRetryable: // five deadlocks are one too many
						t.Error(err)
						return
					}
				}
			})
		}
		g.Wait()
		require.Equal(t, []int{2 * times, 2 * times, 2 * times}, []int{value(t, db, 1), value(t, db, 2), value(t, db, 3)})
	})
}

// A context that ends while statements run together: none of them is kept, and the
// line is not used again.
func TestStatementsTogetherWhoseContextEnds(t *testing.T) {
	t.Parallel()
	sqltest.EachServer(t, func(t *testing.T, _, dsn string) {
		db := openWith(t, dsn, dialect.Options{Together: true, MaxConns: 2})
		table(t, db)
		other, err := db.Writer().Beginx()
		require.NoError(t, err)
		_, err = other.Exec("UPDATE x SET v = v + 1 WHERE id = 2")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			defer cancel()
			for range 1000 {
				var n int
				if other.Get(&n, "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE '%v + 100%' AND id <> CONNECTION_ID()"); n > 0 {
					return
				}
			}
		}()
		text := "UPDATE x SET v = v + 100 WHERE id = ?"
		err = db.Write(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
			_, err := db.ExecTogether(ctx, tx, []dialect.Statement{{Text: text, Args: []any{1}}, {Text: text, Args: []any{2}}, {Text: text, Args: []any{3}}})
			return err
		})
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, other.Rollback())
		require.NoError(t, db.Write(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error { // waits for what the server still runs
			_, err := db.ExecTogether(ctx, tx, []dialect.Statement{set(3, 5), set(3, 6)})
			return err
		}))
		require.Equal(t, []int{6, 6, 6}, []int{value(t, db, 1), value(t, db, 2), value(t, db, 3)})
	})
}

// Two transactions find out at once that the driver keeps back what was to go with
// COMMIT. Both are made again without.
func TestTransactionsWhoseLastStatementsAreKeptBack(t *testing.T) {
	t.Parallel()
	sqltest.EachServer(t, func(t *testing.T, _, dsn string) {
		db := openWith(t, dsn, dialect.Options{Together: true, MaxConns: 2})
		table(t, db)
		var met sync.WaitGroup
		met.Add(2)
		errs := make(chan error, 2)
		for i := range 2 {
			go func() {
				first := true
				errs <- db.Write(context.WithoutCancel(t.Context()), func(ctx context.Context, tx *sqlx.Tx) error {
					// With a value too many the driver will not write it into the text.
					goes, err := db.AtCommit(ctx, tx, []dialect.Statement{{Text: "UPDATE x SET v = ? WHERE id = 3", Args: []any{1, 2}}})
					if first {
						first = false
						met.Done()
						met.Wait()
						return err
					}
					if err == nil && goes {
						err = errors.New("it is to go again")
					}
					if err == nil {
						_, err = tx.ExecContext(ctx, "UPDATE x SET v = 5 WHERE id = ?", i+1)
					}
					return err
				})
			}()
		}
		require.NoError(t, errors.Join(<-errs, <-errs))
		require.Equal(t, []int{5, 5, 0}, []int{value(t, db, 1), value(t, db, 2), value(t, db, 3)})
	})
}
