package dialect_test

import (
	"context"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/sqltest"
)

// A process that stands still in a transaction keeps others waiting for a while
// only. When it goes on it finds out, and does all of the transaction again.
func TestATransactionThatStandsStillIsUndone(t *testing.T) {
	t.Parallel()
	sqltest.EachServer(t, func(t *testing.T, name, dsn string) {
		if name == "mysql" {
			t.Skip("MySQL has no limit for a transaction that nobody goes on with")
		}
		for _, together := range []bool{false, true} {
			db, err := dialect.Open(t.Context(), dsn, dialect.Options{IdleTransaction: time.Second, Together: together})
			require.NoError(t, err)
			defer func() { require.NoError(t, db.Close()) }()
			other := sqltest.Open(t, dsn)
			if !together {
				table(t, other)
			}
			add := func(ctx context.Context, tx *sqlx.Tx) error {
				_, err := tx.ExecContext(ctx, "UPDATE x SET v = v + 1 WHERE id = 1")
				return err
			}
			before, calls := value(t, other, 1), 0
			require.NoError(t, db.Write(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
				if err := add(ctx, tx); err != nil {
					return err
				}
				if calls++; calls == 1 { // the other has the row when the server has taken it from us
					require.NoError(t, other.Write(t.Context(), add))
				}
				_, err := tx.ExecContext(ctx, "UPDATE x SET v = v + 100 WHERE id = 2")
				if calls == 1 {
					require.Equal(t, dialect.ClassLost, dialect.ClassOf(err), "%v", err)
				}
				return err
			}))
			require.Equal(t, 2, calls)
			require.Equal(t, before+2, value(t, other, 1), "once by each")
		}
	})
}
