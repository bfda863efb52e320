package merge_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/merge"
)

const chunkStep = `
source: {file: c.csv}
target: c
key: [id]
version: at
chunk: 10
bad_rows: {max_ratio: 1}
columns: {id: {type: int}, v: {type: int}, at: {type: timestamp, timezone: UTC}}
watermark: {column: at, name: c}
`

// chunkFile has 35 rows in the order of their times; rows 5 and 25 are bad, and
// row 31 has the key of row 1 and is newer.
func chunkFile() string {
	var lines []string
	for i := range 35 {
		id, v := i+1, fmt.Sprint(i+1)
		if i+1 == 31 {
			id = 1
		}
		if i+1 == 5 || i+1 == 25 {
			v = "x"
		}
		lines = append(lines, fmt.Sprintf("%d,%s,2026-03-01 00:00:%02d", id, v, i+1))
	}
	return "id,v,at\n" + strings.Join(lines, "\n") + "\n"
}

var errStop = errors.New("stopped")

// stopAt fails the n-th transaction just before its COMMIT.
func stopAt(job *merge.Job, n int) {
	asked := 0
	job.StillMine = func(context.Context) error {
		if asked++; asked == n {
			return errStop
		}
		return nil
	}
}

// TestChunksAreTransactionsOfTheirOwn stops a batch of four chunks at its third:
// rows, letters, watermark and counts are those of two chunks, and the next
// attempt does the other two only.
func TestChunksAreTransactionsOfTheirOwn(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.exec("CREATE TABLE c (id INT PRIMARY KEY, v INT, at DATETIME(6))")
		b.file("c.csv", chunkFile())
		job := b.job(b.spec(chunkStep))
		stopAt(job, 3)
		_, err := b.engine().Run(t.Context(), job)
		require.ErrorIs(t, err, errStop)
		// Rows 2 to 20 without 5; row 1 is superseded within the batch.
		require.Equal(t, []string{"18"}, b.table("SELECT COUNT(*) FROM c"))
		require.Equal(t, map[string]string{"6": "NOT_AN_INTEGER|v"}, b.letters())
		require.Equal(t, []string{"2026-03-01 00:00:20.000000"}, b.table("SELECT value FROM airlock_watermark"))
		require.Equal(t, []string{"open|20|18|0|1|1"}, b.table("SELECT status, rows_read, rows_merged, rows_unchanged, rows_quarantined, rows_superseded FROM airlock_effect"))

		// The done rows are not touched again: a change that somebody made stays.
		b.exec("UPDATE c SET v = -2, at = '2026-01-01 00:00:00' WHERE id = 2")
		job.Fence, job.StillMine = 2, nil
		d, err := b.engine().Run(t.Context(), job)
		require.NoError(t, err)
		b.accounts(d)
		require.Equal(t, []int64{35, 32, 0, 2, 1}, []int64{d.RowsRead, d.RowsMerged, d.RowsUnchanged, d.RowsQuarantined, d.RowsSuperseded})
		require.Equal(t, 4, d.Transactions)
		require.Equal(t, map[string]int64{"NOT_AN_INTEGER": 2}, d.QuarantinedByCode)
		require.Equal(t, map[string]string{"6": "NOT_AN_INTEGER|v", "26": "NOT_AN_INTEGER|v"}, b.letters())
		require.Nil(t, d.WatermarkFrom)
		require.Equal(t, "2026-03-01 00:00:35.000000", *d.WatermarkTo)
		require.Equal(t, []string{"-2"}, b.table("SELECT v FROM c WHERE id = 2"))
		require.Equal(t, []string{"31"}, b.table("SELECT v FROM c WHERE id = 1"))

		// A third attempt finds it done.
		again, err := b.engine().Run(t.Context(), job)
		require.NoError(t, err)
		require.True(t, again.AlreadyDone)
		require.Equal(t, d.Result, again.Result)
	})
}

// TestChunksOfAnotherReading: the file was exchanged after two chunks; all of it
// is merged, and every row that was read counts.
func TestChunksOfAnotherReading(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.exec("CREATE TABLE c (id INT PRIMARY KEY, v INT, at DATETIME(6))")
		b.file("c.csv", chunkFile())
		job := b.job(b.spec(chunkStep))
		stopAt(job, 3)
		_, err := b.engine().Run(t.Context(), job)
		require.ErrorIs(t, err, errStop)
		b.file("c.csv", "id,v,at\n2,2,2026-03-01 00:00:02\n50,50,2026-03-01 00:00:50\n")
		job.Fence, job.StillMine = 2, nil
		d, err := b.engine().Run(t.Context(), job)
		require.NoError(t, err)
		b.accounts(d)
		require.Equal(t, []int64{22, 19, 1, 1, 1}, []int64{d.RowsRead, d.RowsMerged, d.RowsUnchanged, d.RowsQuarantined, d.RowsSuperseded})
		require.Equal(t, []string{"19"}, b.table("SELECT COUNT(*) FROM c"))
	})
}

// TestWatermarkOfChunksWaitsForRowsToCome: the rows are not in the order of
// their times, so that the watermark may not pass the oldest that is not done.
func TestWatermarkOfChunksWaitsForRowsToCome(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.exec("CREATE TABLE c (id INT PRIMARY KEY, v INT, at DATETIME(6))")
		text := "id,v,at\n"
		for i, second := range []int{1, 9, 2, 8, 3, 7, 4, 6, 5} {
			text += fmt.Sprintf("%d,0,2026-03-01 00:00:%02d\n", i, second)
		}
		b.file("c.csv", text)
		spec := b.spec(strings.Replace(chunkStep, "chunk: 10", "chunk: 3", 1))
		require.NoError(t, merge.EnsureTables(t.Context(), b.db))
		for i, want := range [][]string{nil, {"2026-03-01 00:00:03.000000"}, {"2026-03-01 00:00:04.000000"}} {
			b.exec("DELETE FROM c", "DELETE FROM airlock_watermark")
			job := b.job(spec)
			stopAt(job, i+1)
			_, err := b.engine().Run(t.Context(), job)
			require.ErrorIs(t, err, errStop)
			require.Equal(t, want, b.table("SELECT value FROM airlock_watermark"), "stopped at %d", i+1)
		}
	})
}

// TestChunksOfAQueryMoveWithTheWatermark: a query is read in the watermark's
// order, whatever its own, and an attempt after a crash begins at the mark.
func TestChunksOfAQueryMoveWithTheWatermark(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.exec("CREATE TABLE c (id INT PRIMARY KEY, v INT)", "CREATE TABLE feed (id INT PRIMARY KEY, v INT)")
		for i := range 50 {
			b.exec(fmt.Sprintf("INSERT INTO feed VALUES (%d, %d)", 50-i, i))
		}
		spec := b.spec(`
source: {query: "SELECT id, v FROM feed ORDER BY v"}
target: c
key: [id]
chunk: 10
watermark: {column: id, name: feed, lookback: 0}
`)
		job := b.job(spec)
		stopAt(job, 4)
		_, err := b.engine().Run(t.Context(), job)
		require.ErrorIs(t, err, errStop)
		require.Equal(t, []string{"30|1|30"}, b.table("SELECT COUNT(*), MIN(id), MAX(id) FROM c"))
		require.Equal(t, []string{"30"}, b.table("SELECT value FROM airlock_watermark"))
		job.Fence, job.StillMine = 2, nil
		d, err := b.engine().Run(t.Context(), job)
		require.NoError(t, err)
		b.accounts(d)
		// 30 rows before, and 21 from the watermark on, of which one is read again.
		require.Equal(t, []int64{51, 50, 1}, []int64{d.RowsRead, d.RowsMerged, d.RowsUnchanged})
		require.Equal(t, "50", *d.WatermarkTo)
		require.Equal(t, []string{"50"}, b.table("SELECT COUNT(*) FROM c"))
	})
}

// TestTooManyBadRowsInALaterChunk says what the chunks before have done.
func TestTooManyBadRowsInALaterChunk(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.exec("CREATE TABLE c (id INT PRIMARY KEY, v INT CHECK (v < 100), at DATETIME(6))")
		text := "id,v,at\n"
		for i := range 30 {
			v := i
			if i >= 22 {
				v = 100 + i
			}
			text += fmt.Sprintf("%d,%d,2026-03-01 00:00:%02d\n", i, v, i)
		}
		b.file("c.csv", text)
		e := b.fail(b.spec(strings.Replace(chunkStep, "max_ratio: 1", "max: 5", 1)), merge.CodeTooManyBadRows)
		require.Contains(t, e.Message, "beyond the 20 rows of the chunks before")
		require.Equal(t, dag.ClassPermanent, e.Class)
		require.Equal(t, []string{"20"}, b.table("SELECT COUNT(*) FROM c"))
		require.Equal(t, []string{"2026-03-01 00:00:19.000000"}, b.table("SELECT value FROM airlock_watermark"))
	})
}

func hostOf(dsn string) (host, database string) {
	host, database, _ = strings.Cut(strings.TrimPrefix(dsn, "mysql://root@"), "/")
	return host, database
}
