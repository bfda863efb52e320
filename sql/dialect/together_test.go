package dialect_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/sqltest"
)

func set(id, v int) dialect.Statement {
	return dialect.Statement{Text: "UPDATE x SET v = ? WHERE id <= ?", Args: []any{v, id}}
}

func TestExecTogetherTellsWhatEachCameTo(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		for _, together := range []bool{false, true} {
			db := openWith(t, dsn, dialect.Options{Together: together})
			if !together {
				table(t, db)
			}
			require.NoError(t, db.Write(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
				out, err := db.ExecTogether(ctx, tx, []dialect.Statement{
					set(2, 7), set(0, 8), {Text: "DELETE FROM x WHERE id = 3"}, {Text: "INSERT INTO x (id, v, s) VALUES (?, 1, 'a;b')", Args: []any{3}},
				})
				require.NoError(t, err)
				var rows []int64
				for _, o := range out {
					rows = append(rows, o.Rows)
				}
				require.Equal(t, []int64{2, 0, 1, 1}, rows)
				// What comes after them sees them, and gets an answer of its own.
				r, err := tx.ExecContext(ctx, "UPDATE x SET v = 9 WHERE v = 7")
				require.NoError(t, err)
				n, err := r.RowsAffected()
				require.NoError(t, err)
				require.Equal(t, int64(2), n)
				return nil
			}))
			require.Equal(t, []int{9, 9, 1}, []int{value(t, db, 1), value(t, db, 2), value(t, db, 3)})
		}
	})
}

// The first that fails is the last that was run, and the transaction's owner
// decides about it as after any other error.
func TestExecTogetherStopsAtTheFirstError(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		db := openWith(t, dsn, dialect.Options{Together: true})
		table(t, db)
		list := []dialect.Statement{set(1, 5), {Text: "INSERT INTO x (id, v) VALUES (2, 2)"}, set(3, 6)}
		err := db.Write(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
			_, err := db.ExecTogether(ctx, tx, list)
			return err
		})
		require.Equal(t, dialect.ClassDuplicate, dialect.ClassOf(err), "%v", err)
		require.Equal(t, 0, value(t, db, 1), "undone with the rest")
		require.NoError(t, db.Write(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
			_, err := db.ExecTogether(ctx, tx, list)
			require.Equal(t, dialect.ClassDuplicate, dialect.ClassOf(err), "%v", err)
			return nil // a duplicate leaves the transaction open
		}))
		require.Equal(t, []int{5, 0, 0}, []int{value(t, db, 1), value(t, db, 2), value(t, db, 3)})
	})
}

func TestTransactionsThatBeginWithTheirFirstStatement(t *testing.T) {
	t.Parallel()
	sqltest.EachServer(t, func(t *testing.T, _, dsn string) {
		u, err := url.Parse(dsn)
		require.NoError(t, err)
		proxy := sqltest.CutAtCommit(t, u.Host, false)
		u.Host = proxy.Addr
		db := openWith(t, u.String(), dialect.Options{MaxConns: 1, Together: true})
		table(t, db)
		trips := func(fn func(ctx context.Context, tx *sqlx.Tx) error) (int, error) {
			before := proxy.Trips()
			err := db.Write(t.Context(), fn)
			return proxy.Trips() - before, err
		}
		n, err := trips(func(context.Context, *sqlx.Tx) error { return nil })
		require.NoError(t, err)
		require.Equal(t, 0, n, "nothing to say")
		n, err = trips(func(ctx context.Context, tx *sqlx.Tx) error {
			var v int
			if err := tx.GetContext(ctx, &v, "SELECT v FROM x WHERE id = ?", 1); err != nil { // with BEGIN
				return err
			}
			_, err := db.ExecTogether(ctx, tx, []dialect.Statement{set(1, v+1), set(1, v+2), set(1, v+3)})
			return err
		})
		require.NoError(t, err)
		require.Equal(t, 3, n, "the question, three statements, COMMIT")
		require.Equal(t, 3, value(t, db, 1))

		// What begins with a statement that fails is a transaction all the same.
		boom := errors.New("boom")
		_, err = trips(func(ctx context.Context, tx *sqlx.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO x (id, v) VALUES (1, 1)")
			require.Equal(t, dialect.ClassDuplicate, dialect.ClassOf(err), "%v", err)
			_, err = tx.ExecContext(ctx, "UPDATE x SET v = 100 WHERE id = 1")
			require.NoError(t, err)
			return boom
		})
		require.ErrorIs(t, err, boom)
		require.Equal(t, 3, value(t, db, 1))

		// A read-only one, at another level, is the driver's own.
		require.NoError(t, db.Snapshot(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE x SET v = 1 WHERE id = 1")
			require.Equal(t, dialect.ClassProgram, dialect.ClassOf(err), "%v", err)
			return nil
		}))
	})
}

// What is too long for one packet with the others goes by itself; what is too
// long by itself is refused, and the transaction holds.
func TestStatementsThatDoNotFitIntoOnePacket(t *testing.T) {
	t.Parallel()
	sqltest.EachServer(t, func(t *testing.T, _, dsn string) {
		db := openWith(t, dsn, dialect.Options{Together: true})
		table(t, db)
		var limit int
		require.NoError(t, db.Reader().Get(&limit, "SELECT @@max_allowed_packet"))
		long := dialect.Statement{Text: "UPDATE x SET v = v + LENGTH(?) WHERE id = 1", Args: []any{strings.Repeat("a", 100)}}
		half := dialect.Statement{Text: "UPDATE x SET v = v + (LENGTH(?) > 100) WHERE id = 2", Args: []any{strings.Repeat("b", limit/2)}}
		require.NoError(t, db.Write(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
			out, err := db.ExecTogether(ctx, tx, []dialect.Statement{long, half, half, half})
			require.NoError(t, err)
			require.Len(t, out, 4)
			return nil
		}))
		require.Equal(t, []int{100, 3}, []int{value(t, db, 1), value(t, db, 2)})

		boom := errors.New("boom")
		whole := dialect.Statement{Text: half.Text, Args: []any{strings.Repeat("c", limit+1)}}
		require.ErrorIs(t, db.Write(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
			_, err := db.ExecTogether(ctx, tx, []dialect.Statement{whole})
			require.Error(t, err)
			_, err = db.ExecTogether(ctx, tx, []dialect.Statement{long, long})
			require.NoError(t, err)
			return boom
		}), boom)
		require.Equal(t, 100, value(t, db, 1))
	})
}

func TestQueryAfter(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		for _, together := range []bool{false, true} {
			db := openWith(t, dsn, dialect.Options{Together: together})
			if !together {
				table(t, db)
			}
			ask := func(list []dialect.Statement, query string, args ...any) (out []dialect.Outcome, found []int, err error) {
				err = db.Write(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
					var rows *sqlx.Rows
					var err error
					if rows, out, err = db.QueryAfter(ctx, tx, list, query, args); err != nil {
						return err
					}
					defer func() { require.NoError(t, rows.Close()) }()
					found = nil
					for rows.Next() {
						var v int
						require.NoError(t, rows.Scan(&v))
						found = append(found, v)
					}
					require.NoError(t, rows.Err())                                      // read to its end, it is closed
					_, err = tx.ExecContext(ctx, "UPDATE x SET v = v + 1 WHERE id = 3") // the line is free again
					return err
				})
				return out, found, err
			}
			asked := func(s dialect.Statement) dialect.Statement {
				s.Asked = true
				return s
			}
			out, found, err := ask([]dialect.Statement{asked(set(3, 4)), set(1, 5), asked(set(0, 6)), asked(set(2, 5))}, "SELECT v FROM x WHERE id <= ? ORDER BY id", 3)
			require.NoError(t, err)
			require.Equal(t, []int{5, 5, 4}, found)
			require.Equal(t, []int64{3, 0, 2}, []int64{out[0].Rows, out[2].Rows, out[3].Rows}, "rows that are matched, changed or not")
			require.Equal(t, 5, value(t, db, 3))

			_, found, err = ask([]dialect.Statement{set(3, 7)}, "SELECT v FROM x WHERE id = 4")
			require.NoError(t, err)
			require.Empty(t, found)
			require.Equal(t, 8, value(t, db, 3))

			// Whichever of them fails, nothing stays.
			duplicate := dialect.Statement{Text: "INSERT INTO x (id, v) VALUES (2, 2)"}
			for _, list := range [][]dialect.Statement{{duplicate}, {asked(set(3, 1)), duplicate}, {asked(set(3, 1)), asked(duplicate), asked(set(3, 2))}} {
				_, _, err = ask(list, "SELECT v FROM x")
				require.Equal(t, dialect.ClassDuplicate, dialect.ClassOf(err), "%v", err)
				require.Equal(t, 8, value(t, db, 3))
			}
			_, _, err = ask([]dialect.Statement{asked(set(3, 1))}, "SELECT nothing FROM x")
			require.Equal(t, dialect.ClassProgram, dialect.ClassOf(err), "%v", err)
			require.Equal(t, 8, value(t, db, 3))

			// What is too long for one packet goes in pieces.
			var limit int
			if !db.IsSQLite() {
				require.NoError(t, db.Reader().Get(&limit, "SELECT @@max_allowed_packet"))
			}
			half := dialect.Statement{Text: "UPDATE x SET v = v + (LENGTH(?) > 100) WHERE id = 2", Args: []any{strings.Repeat("b", max(limit/2, 200))}, Asked: true}
			out, found, err = ask([]dialect.Statement{half, half, half}, "SELECT v FROM x WHERE id = 2")
			require.NoError(t, err)
			require.Equal(t, []int{10}, found, "7 and three times 1")
			require.EqualValues(t, 1, out[2].Rows)
		}
	})
}
