package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/sqltest"
)

// onEach runs a benchmark on a fresh database of each kind.
func onEach(b *testing.B, fn func(b *testing.B, dsn string)) {
	b.Helper()
	b.Run("sqlite", func(b *testing.B) { fn(b, sqltest.SQLite(b)) })
	b.Run("server", func(b *testing.B) { fn(b, sqltest.Servers(b)[0].DSN) })
}

// BenchmarkLife is the whole life of tasks that do nothing: runs of ten tasks
// (a root, eight in parallel, a join) through Schedule, Claim and Apply, one
// of each in turn, 100 at a time.
func BenchmarkLife(b *testing.B) {
	onEach(b, func(b *testing.B, dsn string) {
		s := open(b, dsn)
		runs := max(20, b.N/10)
		manyRuns(b, s, runs, 8)
		b.ResetTimer()
		done := 0
		var inSchedule, inClaim, inApply time.Duration
		for done < runs*10 {
			t0 := time.Now()
			_, err := s.Schedule(b.Context(), dag.SchedulePass{Limit: 50}, evaluate(s))
			require.NoError(b, err)
			inSchedule += time.Since(t0)
			for {
				t0 = time.Now()
				claims, err := s.Claim(b.Context(), dag.ClaimParams{WorkerID: "w", N: 100, Lease: time.Minute})
				inClaim += time.Since(t0)
				require.NoError(b, err)
				if len(claims) == 0 {
					break
				}
				var results []dag.Result
				for _, c := range claims {
					results = append(results, success(c, time.Now().UTC()))
				}
				t0 = time.Now()
				_, err = s.Apply(b.Context(), results)
				require.NoError(b, err)
				inApply += time.Since(t0)
				done += len(results)
			}
		}
		b.StopTimer()
		n := float64(done)
		b.ReportMetric(n/b.Elapsed().Seconds(), "tasks/s")
		b.ReportMetric(float64(inSchedule.Microseconds())/n, "schedule-us/task")
		b.ReportMetric(float64(inClaim.Microseconds())/n, "claim-us/task")
		b.ReportMetric(float64(inApply.Microseconds())/n, "apply-us/task")
	})
}

// BenchmarkBareSQL is the baseline of BenchmarkLife on the same machine in the
// same minute: the same number of row changes with the least SQL that could
// do it, also 100 at a time.
func BenchmarkBareSQL(b *testing.B) {
	onEach(b, func(b *testing.B, dsn string) {
		db := sqltest.Open(b, dsn)
		auto, suffix := "INTEGER PRIMARY KEY AUTOINCREMENT", ""
		if !db.IsSQLite() {
			auto, suffix = "BIGINT AUTO_INCREMENT PRIMARY KEY", " ENGINE=InnoDB"
		}
		for _, q := range []string{
			"CREATE TABLE job (id " + auto + ", state INT NOT NULL, pri INT NOT NULL, owner VARCHAR(40), lease DATETIME, ended DATETIME, filler VARCHAR(300))" + suffix,
			"CREATE INDEX k ON job (state, pri, id)",
			"CREATE TABLE attempt (id " + auto + ", job INT NOT NULL, at DATETIME)" + suffix,
		} {
			_, err := db.Writer().Exec(q)
			require.NoError(b, err)
		}
		n := max(200, b.N)
		for i := 0; i < n; i += 100 {
			args := make([]any, 0, 100)
			for range 100 {
				args = append(args, fmt.Sprintf("%0300d", i))
			}
			_, err := db.Writer().Exec("INSERT INTO job (state, pri, filler) VALUES "+repeated("(0, 0, ?)", 100), args...)
			require.NoError(b, err)
		}
		b.ResetTimer()
		for i := 0; i < n; i += 100 {
			ids := span(i+1, 100)
			step(b, db, "UPDATE job SET state = 1 WHERE id IN ("+ids+") AND state = 0")
			step(b, db, "UPDATE job SET state = 2, owner = 'w', lease = '2026-01-01 00:00:00' WHERE id IN ("+ids+") AND state = 1")
			step(b, db, "UPDATE job SET state = 3, lease = NULL, ended = '2026-01-01 00:00:00' WHERE id IN ("+ids+") AND state = 2",
				"INSERT INTO attempt (job, at) VALUES "+repeated("(1, '2026-01-01 00:00:00')", 100))
		}
		b.StopTimer()
		b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "tasks/s")
	})
}

func step(b *testing.B, db *dialect.DB, statements ...string) {
	b.Helper()
	tx, err := db.Writer().Begin()
	require.NoError(b, err)
	for _, q := range statements {
		_, err := tx.Exec(q)
		require.NoError(b, err)
	}
	require.NoError(b, tx.Commit())
}

func repeated(s string, n int) string {
	out := s
	for range n - 1 {
		out += "," + s
	}
	return out
}

func span(from, n int) string {
	out := fmt.Sprint(from)
	for i := 1; i < n; i++ {
		out += fmt.Sprint(",", from+i)
	}
	return out
}
