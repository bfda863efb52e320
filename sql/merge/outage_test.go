package merge_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge"
	"github.com/airlock-dag/airlock/sql/sqltest"
)

// TestServerKilledBetweenChunks kills the database with SIGKILL just before the
// third of four COMMITs. After its restart whole chunks are there with their
// letters and watermark, and the next attempt does the rest.
func TestServerKilledBetweenChunks(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a server of its own takes seconds")
	}
	p := sqltest.StartMariaDB(t)
	dsn := p.Fresh(t)
	b := newBench(t, dsn)
	b.exec("CREATE TABLE c (id INT PRIMARY KEY, v INT, at DATETIME(6))")
	b.file("c.csv", chunkFile())
	job := b.job(b.spec(chunkStep))
	asked := 0
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	job.StillMine = func(context.Context) error {
		if asked++; asked == 3 {
			p.Kill()
		}
		return nil
	}
	_, err := b.engine().Run(ctx, job)
	require.Error(t, err, "the server is gone")
	p.Restart(t)
	db, err := dialect.Open(t.Context(), dsn, dialect.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	var rows, letters int
	var mark string
	require.NoError(t, db.Reader().Get(&rows, "SELECT COUNT(*) FROM c"))
	require.NoError(t, db.Reader().Get(&letters, "SELECT COUNT(*) FROM airlock_dead_letter_row"))
	require.NoError(t, db.Reader().Get(&mark, "SELECT value FROM airlock_watermark"))
	require.Equal(t, 18, rows)
	require.Equal(t, 1, letters)
	require.Equal(t, "2026-03-01 00:00:20.000000", mark)
	job.Fence, job.StillMine = 2, nil
	d, err := (&merge.Engine{DB: db, Clock: dag.SystemClock{}, Rand: dag.SystemRand{}}).Run(t.Context(), job)
	require.NoError(t, err)
	require.Equal(t, []int64{35, 32, 0, 2, 1}, []int64{d.RowsRead, d.RowsMerged, d.RowsUnchanged, d.RowsQuarantined, d.RowsSuperseded})
	violations, err := merge.Check(t.Context(), db)
	require.NoError(t, err)
	require.Empty(t, violations)
}

// TestLostCommitOfAChunk loses the request or the answer of a chunk's COMMIT:
// the batch goes on behind what is there, within the same attempt.
func TestLostCommitOfAChunk(t *testing.T) {
	t.Parallel()
	sqltest.EachServer(t, func(t *testing.T, _, dsn string) {
		for _, dropAnswer := range []bool{false, true} {
			b := newBench(t, dsn)
			b.exec("DROP TABLE IF EXISTS c", "CREATE TABLE c (id INT PRIMARY KEY, v INT, at DATETIME(6))")
			b.file("c.csv", chunkFile())
			require.NoError(t, merge.EnsureTables(t.Context(), b.db))
			for _, table := range []string{"airlock_effect", "airlock_watermark", "airlock_dead_letter_row"} {
				b.exec("DELETE FROM " + table)
			}
			host, database := hostOf(dsn)
			p := sqltest.CutAtCommit(t, host, dropAnswer)
			db, err := dialect.Open(t.Context(), "mysql://root@"+p.Addr+"/"+database, dialect.Options{})
			require.NoError(t, err)
			job := b.job(b.spec(chunkStep))
			asked := 0
			job.StillMine = func(context.Context) error {
				if asked++; asked == 2 {
					p.Arm()
				}
				return nil
			}
			d, err := (&merge.Engine{DB: db, Clock: dag.SystemClock{}, Rand: dag.SystemRand{}}).Run(t.Context(), job)
			require.NoError(t, err)
			require.NoError(t, db.Close())
			require.Equal(t, 1, p.Cuts())
			require.Equal(t, []int64{35, 32, 0, 2, 1}, []int64{d.RowsRead, d.RowsMerged, d.RowsUnchanged, d.RowsQuarantined, d.RowsSuperseded})
			require.Equal(t, []string{"32"}, b.table("SELECT COUNT(*) FROM c"))
			require.Equal(t, []string{"2"}, b.table("SELECT COUNT(*) FROM airlock_dead_letter_row"))
		}
	})
}
