package merge_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/sqltest"
)

// BenchmarkOneBadRow merges 10,000 new rows, of which none or one breaks a CHECK
// of the table, which only the database can find: the search for it must cost
// less than the batch itself.
func BenchmarkOneBadRow(b *testing.B) {
	const rows = 10000
	for _, kind := range []string{"mariadb", "sqlite"} {
		b.Run(kind, func(b *testing.B) {
			l := &large{rows: rows}
			if kind == "sqlite" {
				l.bench = newBench(b, sqltest.SQLite(b))
			} else {
				p := sqltest.StartMariaDB(b)
				l.bench, l.server = newBench(b, p.Fresh(b)), p.Pid()
			}
			l.write(0)
			merge := func(check string, bad int64) (wall, cpu float64) {
				l.exec("DROP TABLE IF EXISTS big", "DROP TABLE IF EXISTS airlock_watermark",
					"CREATE TABLE big (id BIGINT PRIMARY KEY, customer VARCHAR(40), amount DECIMAL(12,2), at DATETIME(6), CHECK ("+check+"))")
				start, before := time.Now(), l.spent()
				require.Equal(b, bad, l.run(l.spec(largeStep)).RowsQuarantined)
				return time.Since(start).Seconds(), l.spent() - before
			}
			var clean, one, cleanCPU, oneCPU float64
			for b.Loop() {
				wall, cpu := merge("id <> -1", 0)
				clean, cleanCPU = clean+wall, cleanCPU+cpu
				wall, cpu = merge("id <> 123410", 1)
				one, oneCPU = one+wall, oneCPU+cpu
			}
			b.ReportMetric(one/clean, "one-bad-of-clean")
			b.ReportMetric(oneCPU/cleanCPU, "one-bad-of-clean-by-cpu")
		})
	}
}
