package merge_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/sqltest"
)

const benchRows = 20000

func benchFile(shift int) string {
	var b strings.Builder
	b.WriteString("id,customer,amount,at\n")
	for i := range benchRows {
		fmt.Fprintf(&b, "%d,customer %d,%d.%02d,2026-01-01T00:00:%02dZ\n", i*2+shift, i%100, i%1000, (i+shift)%100, i%60)
	}
	return b.String()
}

const benchTable = "CREATE TABLE o (id BIGINT PRIMARY KEY, customer VARCHAR(40), amount DECIMAL(12,2), at DATETIME(6))"

const benchStep = `
source: {file: o.csv}
target: o
key: [id]
version: at
columns: {id: {type: bigint}, customer: {type: varchar(40)}, amount: {type: "decimal(12,2)"}, at: {type: timestamp}}
watermark: {column: at, name: o}
`

// BenchmarkMerge merges a file of which half is new and half changes rows, and
// beside it the hand-written way: rows parsed by hand, a multi-row INSERT with
// ON CONFLICT or ON DUPLICATE KEY UPDATE, without checks, letters or counts.
func BenchmarkMerge(b *testing.B) {
	for _, s := range append([]sqltest.Server{{Name: "sqlite"}}, sqltest.Servers(b)...) {
		fresh := func(b *testing.B) *bench {
			dsn := s.DSN
			if s.Name == "sqlite" {
				dsn = sqltest.SQLite(b)
			} else {
				sqltest.Exec(b, dsn, "DROP TABLE IF EXISTS o;\nDROP TABLE IF EXISTS airlock_effect;\nDROP TABLE IF EXISTS airlock_watermark;\nDROP TABLE IF EXISTS airlock_dead_letter_row;")
			}
			t := newBench(b, dsn)
			t.exec(benchTable)
			t.file("o.csv", benchFile(0))
			t.run(t.spec(benchStep))
			t.file("o.csv", half())
			return t
		}
		b.Run(s.Name+"/engine", func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				t := fresh(b)
				b.StartTimer()
				d := t.run(t.spec(benchStep))
				require.Equal(b, int64(benchRows), d.RowsMerged)
			}
			b.ReportMetric(float64(benchRows*b.N)/b.Elapsed().Seconds(), "rows/s")
		})
		b.Run(s.Name+"/by-hand", func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				t := fresh(b)
				b.StartTimer()
				byHand(t)
			}
			b.ReportMetric(float64(benchRows*b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// half has changed rows for every second key and new ones between them.
func half() string {
	var b strings.Builder
	b.WriteString("id,customer,amount,at\n")
	for i := range benchRows {
		fmt.Fprintf(&b, "%d,changed %d,%d.%02d,2026-01-02T00:00:%02dZ\n", i*2+i%2, i%100, i%1000, i%100, i%60)
	}
	return b.String()
}

func byHand(t *bench) {
	tail := " ON DUPLICATE KEY UPDATE customer = VALUES(customer), amount = VALUES(amount), at = VALUES(at)"
	if t.db.IsSQLite() {
		tail = " ON CONFLICT (id) DO UPDATE SET customer = excluded.customer, amount = excluded.amount, at = excluded.at"
	}
	tx, err := t.raw.Begin()
	require.NoError(t.t, err)
	lines := strings.Split(strings.TrimSpace(half()), "\n")[1:]
	const n = 500
	for from := 0; from < len(lines); from += n {
		part := lines[from:min(from+n, len(lines))]
		args := make([]any, 0, 4*n)
		for _, l := range part {
			f := strings.Split(l, ",")
			args = append(args, f[0], f[1], f[2], strings.NewReplacer("T", " ", "Z", "").Replace(f[3]))
		}
		_, err := tx.Exec("INSERT INTO o (id, customer, amount, at) VALUES "+strings.TrimSuffix(strings.Repeat("(?,?,?,?),", len(part)), ",")+tail, args...)
		require.NoError(t.t, err)
	}
	require.NoError(t.t, tx.Commit())
}
