package dialect_test

import (
	"context"
	"errors"
	"fmt"
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

// A server may decide which characters its clients speak (character-set-client-handshake,
// init_connect). Where it takes the bytes of UTF-8 for GBK, the last of three takes the
// escape behind it along, and a quote in a value would end the text.
func TestAServerThatDecidesAboutCharacterSets(t *testing.T) {
	t.Parallel()
	p := sqltest.StartMariaDB(t, "--character-set-server=gbk", "--skip-character-set-client-handshake")
	db := openWith(t, p.Fresh(t), dialect.Options{Together: true})
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
}
