package merge_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge"
	"github.com/airlock-dag/airlock/sql/sqltest"
)

// TestBatchesAtTheSameTime merges batches that share their keys from several
// connections at once: each accounts for its rows, and the newest version of
// each key is in the target at the end.
func TestBatchesAtTheSameTime(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		b := newBench(t, dsn)
		b.exec("CREATE TABLE r (k INT PRIMARY KEY, v INT NOT NULL, ver INT NOT NULL)")
		require.NoError(t, merge.EnsureTables(t.Context(), b.db))
		const writers, keys = 4, 50
		var g sync.WaitGroup
		errs := make(chan error, writers)
		for w := range writers {
			var text strings.Builder
			text.WriteString("k,v,ver\n")
			for i := range keys {
				k := (i*7 + w*13) % keys // each in an order of its own
				fmt.Fprintf(&text, "%d,%d,%d\n", k, w, (k+w)%writers)
			}
			name := fmt.Sprintf("r%d.csv", w)
			b.file(name, text.String())
			job := b.job(b.spec("{source: {file: " + name + "}, target: r, key: [k], version: ver, columns: {k: {type: int}, v: {type: int}, ver: {type: int}}, watermark: {column: ver, name: r}}"))
			job.Logf = nil
			g.Go(func() {
				db, err := dialect.Open(t.Context(), dsn, dialect.Options{})
				if err != nil {
					errs <- err
					return
				}
				defer func() { _ = db.Close() }()
				d, err := (&merge.Engine{DB: db, Clock: dag.SystemClock{}, Rand: dag.SystemRand{}}).Run(t.Context(), job)
				if err == nil && d.RowsMerged+d.RowsUnchanged+d.RowsSuperseded != keys {
					err = fmt.Errorf("%+v", d)
				}
				errs <- err
			})
		}
		g.Wait()
		for range writers {
			require.NoError(t, <-errs)
		}
		require.Equal(t, []string{fmt.Sprintf("%d|%d", keys, keys*(writers-1))}, b.table("SELECT COUNT(*), SUM(ver) FROM r"))
		v, err := merge.Check(t.Context(), b.db)
		require.NoError(t, err)
		require.Empty(t, v)
	})
}
