package merge_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/merge"
	"github.com/airlock-dag/airlock/sql/sqltest"
)

func TestTiesAtTheWatermark(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.exec("CREATE TABLE src_ties (id INT PRIMARY KEY, v INT NOT NULL, updated_at DATETIME NOT NULL)",
			`INSERT INTO src_ties VALUES (1, 10, '2026-05-01 10:00:00'), (2, 20, '2026-05-01 10:00:01'), (3, 30, '2026-05-01 10:00:01'),
			(4, 40, '2026-05-01 10:00:01'), (5, 50, '2026-05-01 10:00:01'), (6, 60, '2026-05-01 10:00:02')`,
			"CREATE TABLE dst (id INT PRIMARY KEY, v INT NOT NULL, updated_at DATETIME NOT NULL)")
		step := b.spec(`
source: {query: SELECT * FROM src_ties}
target: dst
key: [id]
version: updated_at
chunk: 2
watermark: {column: updated_at, name: ties, lookback: 0, tie_breaker: id}
`)
		d := b.run(step)
		require.Equal(t, int64(6), d.RowsInserted)
		require.Equal(t, 3, d.Transactions)
		require.Equal(t, "2026-05-01 10:00:02.000000", *d.WatermarkTo)
		require.Equal(t, []string{"ties|updated_at|2026-05-01 10:00:02.000000|6"}, b.table("SELECT pipeline, column_name, value, tie_breaker FROM airlock_watermark"))
		b.exec("INSERT INTO src_ties VALUES (7, 70, '2026-05-01 10:00:02')", "UPDATE src_ties SET v = 61 WHERE id = 6")
		d = b.run(step)
		require.Equal(t, int64(2), d.RowsRead, "only what is at the watermark or behind it")
		require.Equal(t, int64(1), d.RowsInserted)
		require.Equal(t, int64(1), d.RowsUpdated)
		require.Equal(t, []string{"7"}, b.table("SELECT COUNT(*) FROM dst"))
		require.Equal(t, []string{"61"}, b.table("SELECT v FROM dst WHERE id = 6"))
		d = b.run(step)
		require.Equal(t, int64(0), d.RowsMerged)
		require.Equal(t, *d.WatermarkFrom, *d.WatermarkTo)
	})
}

func TestRowCommittedBehindTheWatermark(t *testing.T) {
	t.Parallel()
	sqltest.EachServer(t, func(t *testing.T, _, dsn string) {
		b := newBench(t, dsn)
		b.exec("CREATE TABLE src_flight (id INT AUTO_INCREMENT PRIMARY KEY, v INT NOT NULL, updated_at DATETIME(6) NOT NULL)",
			"CREATE TABLE dst (id INT PRIMARY KEY, v INT NOT NULL, updated_at DATETIME(6) NOT NULL)")
		tx, err := b.raw.Begin()
		require.NoError(t, err)
		_, err = tx.Exec("INSERT INTO src_flight (v, updated_at) VALUES (1, NOW(6))")
		require.NoError(t, err)
		b.exec("INSERT INTO src_flight (v, updated_at) VALUES (2, NOW(6))")
		step := b.spec("{source: {query: SELECT * FROM src_flight}, target: dst, key: [id], duplicates: fail, watermark: {column: updated_at, name: f}}")
		d := b.run(step)
		require.Equal(t, int64(1), d.RowsInserted)
		require.NoError(t, tx.Commit())
		d = b.run(step)
		require.Equal(t, int64(1), d.RowsInserted, "the default lookback reads it again")
		require.Equal(t, int64(1), d.RowsUnchanged)
		require.Equal(t, []string{"1", "2"}, b.table("SELECT v FROM dst ORDER BY v"))
	})
}

func TestWatermarkOfNumbersAndOwnParameters(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.exec("CREATE TABLE src (n BIGINT PRIMARY KEY, v VARCHAR(10))", "CREATE TABLE dst (n BIGINT PRIMARY KEY, v VARCHAR(10))",
			"INSERT INTO src VALUES (9, 'a'), (10, 'b'), (100, 'c')")
		step := b.spec(`
source:
  query: "SELECT n AS n, v FROM src WHERE n > :watermark_from AND n <= :watermark_to AND v <> :not"
  parameters: {not: z}
target: dst
key: [n]
duplicates: fail
watermark: {column: n, name: numbers, lookback: 5}
`)
		d := b.run(step)
		require.Equal(t, int64(3), d.RowsInserted)
		require.Equal(t, "100", *d.WatermarkTo)
		b.exec("INSERT INTO src VALUES (101, 'd'), (99, 'late'), (95, 'too late'), (102, 'z')")
		d = b.run(step)
		require.Equal(t, int64(3), d.RowsRead)
		require.Equal(t, int64(2), d.RowsInserted)
		require.Equal(t, "100", *d.WatermarkFrom)
		require.Equal(t, "101", *d.WatermarkTo)
	})
}

func TestTextTimesOfSQLiteAreComparedAsInstants(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqltest.SQLite(t))
	b.exec("CREATE TABLE due (id INTEGER PRIMARY KEY, at TEXT)", "CREATE TABLE dst (id INTEGER PRIMARY KEY, at TIMESTAMP)",
		"INSERT INTO due VALUES (1, '2026-01-01T00:00:00.123Z')")
	step := b.spec("{source: {query: SELECT * FROM due}, target: dst, key: [id], duplicates: fail, watermark: {column: at, name: due, lookback: 0}}")
	d := b.run(step)
	require.Equal(t, "2026-01-01 00:00:00.123000", *d.WatermarkTo)
	// The same instant and later ones, in writings that sort before it as texts.
	b.exec("INSERT INTO due VALUES (2, '2026-01-01 00:00:00.5'), (3, '2026-01-01T01:00:00+00:30'), (4, '2025-12-31 23:59:59.999999999 +0000 UTC'), (5, '2026-01-01T00:00:00.123Z')")
	d = b.run(step)
	require.Equal(t, int64(4), d.RowsInserted+d.RowsQuarantined, "2, 3 and 5 are due; 4 is in a form that SQLite cannot read and is read to be safe")
	require.Equal(t, []string{"1", "2", "3", "5"}, b.table("SELECT id FROM dst WHERE id <> 4 ORDER BY id"))
	require.Equal(t, "2026-01-01 00:30:00.000000", *d.WatermarkTo)
}

func TestRowsFromTheFutureDoNotMoveTheWatermark(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.exec("CREATE TABLE src (id INT PRIMARY KEY, at DATETIME(6))", "CREATE TABLE dst (id INT PRIMARY KEY, at DATETIME(6))",
			"INSERT INTO src VALUES (1, '2026-01-01 00:00:00'), (2, '9000-01-01 00:00:00')")
		step := b.spec("{source: {query: SELECT * FROM src}, target: dst, key: [id], duplicates: fail, watermark: {column: at, name: w}}")
		d := b.run(step)
		require.Equal(t, int64(2), d.RowsInserted)
		require.Less(t, *d.WatermarkTo, "9000")
		b.exec(fmt.Sprintf("INSERT INTO src VALUES (3, '%s')", time.Now().UTC().Format("2006-01-02 15:04:05.000000")))
		d = b.run(step)
		require.Equal(t, int64(1), d.RowsInserted)
		// With a lag nothing that young is read yet.
		lagged := b.spec("{source: {query: SELECT * FROM src}, target: dst, key: [id], duplicates: fail, watermark: {column: at, name: w2, lag: 1h}}")
		b.exec("DELETE FROM dst")
		d = b.run(lagged)
		require.Equal(t, int64(1), d.RowsRead)
	})
}

func TestQueryKeepsEveryDigit(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		dec := "DECIMAL(30,10)"
		if b.db.IsSQLite() {
			dec = "DECIMAL_TEXT(30,10)"
		}
		cols := "id BIGINT PRIMARY KEY, d " + dec + ", f DOUBLE, s VARCHAR(20), b BLOB, day DATE, at DATETIME(6), ok BOOLEAN"
		b.exec("CREATE TABLE src ("+cols+")", "CREATE TABLE dst ("+cols+")",
			"INSERT INTO src VALUES (9007199254740993, '12345678901234567890.0123456789', 0.1, 'ä''\"', x'00ff', '2026-02-28', '2026-01-01 00:00:00.123456', 1), (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL)")
		step := b.spec("{source: {query: SELECT * FROM src}, target: dst, key: [id], duplicates: fail}")
		d := b.run(step)
		require.Equal(t, int64(2), d.RowsInserted, "%v", b.table("SELECT error_message FROM airlock_dead_letter_row"))
		require.Equal(t, b.table("SELECT * FROM src ORDER BY id"), b.table("SELECT * FROM dst ORDER BY id"))
		d = b.run(step)
		require.Equal(t, int64(2), d.RowsUnchanged)
	})
}

func TestConnectionOfItsOwnAndDeclaredColumns(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		shop := newBench(t, sqltest.SQLite(t))
		shop.exec("CREATE TABLE o (no INTEGER, paid TEXT, at TEXT)", "INSERT INTO o VALUES (1, '12.50', '2026-01-01 10:00:00'), (2, '1.234', '2026-01-01 10:00:00'), (3, NULL, 'x')")
		spec := b.spec(`
source: {query: "SELECT no, paid, at FROM o", conn_id: shop}
target: o
create_target: true
key: [id]
columns: {id: {type: bigint, from: no}, paid: {type: "decimal(12,2)"}, at: {type: timestamp}}
`)
		job := b.job(spec)
		job.Source = &merge.QuerySource{DB: shop.db, Spec: spec.Source}
		d, err := b.engine().Run(context.Background(), job)
		require.NoError(t, err)
		require.Equal(t, int64(1), d.RowsInserted)
		require.Equal(t, map[string]string{"2": "TOO_MANY_DECIMALS|paid", "3": "BAD_TIMESTAMP|at"}, b.letters())
		require.Equal(t, []string{`{"no":2,"paid":"1.234","at":"2026-01-01 10:00:00"}`}, b.table("SELECT raw FROM airlock_dead_letter_row WHERE source_line = 2"))
	})
}

func TestLockWaitRunsTheWholeTransactionAgain(t *testing.T) {
	t.Parallel()
	sqltest.EachServer(t, func(t *testing.T, _, dsn string) {
		b := newBench(t, dsn)
		b.exec("CREATE TABLE acc (id INT PRIMARY KEY, v INT NOT NULL)", "INSERT INTO acc VALUES (1, 0), (2, 0), (3, 0)")
		b.file("a.csv", "id,v\n1,100\n2,100\n4,100\n")
		spec := b.spec("{source: {file: a.csv}, target: acc, key: [id], columns: {id: {type: int}, v: {type: int}}}")
		other, err := b.raw.Begin()
		require.NoError(t, err)
		_, err = other.Exec("UPDATE acc SET v = v + 1 WHERE id = 2")
		require.NoError(t, err)
		short := lockWaitOfOneSecond(t, dsn)
		job := b.job(spec)
		logf := job.Logf
		released := false
		job.Logf = func(f string, args ...any) {
			logf(f, args...)
			if !released && f == "the transaction is run again from its start: %v" {
				require.Equal(t, []string{"1|0", "2|0", "3|0"}, b.table("SELECT id, v FROM acc ORDER BY id"), "nothing of the first try is left")
				require.NoError(t, other.Rollback())
				released = true
			}
		}
		e := &merge.Engine{DB: short, Clock: dag.SystemClock{}, Rand: dag.SystemRand{}}
		d, err := e.Run(t.Context(), job)
		require.NoError(t, err)
		require.True(t, released)
		require.Equal(t, int64(2), d.RowsUpdated)
		require.Equal(t, int64(1), d.RowsInserted)
		require.Equal(t, []string{"1|100", "2|100", "3|0", "4|100"}, b.table("SELECT id, v FROM acc ORDER BY id"))
	})
}

// A row without a value in the watermark's column is behind no mark.
func TestRowWithoutAWatermark(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ typ, first, later string }{
		{"DATETIME(6)", "2026-05-01 10:00:00", "2026-05-01 11:00:00"}, {"INT", "10", "20"}, {"DATE", "2026-05-01", "2026-05-02"}, {"VARCHAR(20)", "a", "b"},
	} {
		t.Run(c.typ, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, b *bench) {
				b.exec("CREATE TABLE src_null (id INT PRIMARY KEY, m "+c.typ+")", "CREATE TABLE dst (id INT PRIMARY KEY, m "+c.typ+")", "INSERT INTO src_null VALUES (1, '"+c.first+"')")
				step := b.spec("{source: {query: 'SELECT * FROM src_null'}, target: dst, key: [id], watermark: {column: m, name: n" + map[bool]string{true: "", false: ", lookback: 0"}[c.typ == "VARCHAR(20)"] + "}}")
				b.run(step)
				b.exec("INSERT INTO src_null VALUES (2, NULL), (3, '" + c.later + "')")
				d := b.run(step)
				require.Equal(t, []int64{3, 2, 1}, []int64{d.RowsRead, d.RowsInserted, d.RowsUnchanged})
				d = b.run(step)
				require.Equal(t, []int64{2, 0, 2}, []int64{d.RowsRead, d.RowsMerged, d.RowsUnchanged})
				require.Equal(t, []string{"1", "2", "3"}, b.table("SELECT id FROM dst ORDER BY id"))
			})
		})
	}
}
