package integration

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/replay"
	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/sqltest"
	"github.com/airlock-dag/airlock/sql/store"
)

// Sizes of the desk's benchmarks.
const (
	smallDrain = 3_000
	largeDrain = 100_000
	manyGroups = 300
	payload1K  = 1 << 10
)

// BenchmarkDrain drains letters without a rate, and the same number with the
// least SQL that could do it (lock, mark, audit; batches of 100) beside it.
func BenchmarkDrain(b *testing.B) {
	deskBench(b, func(b *testing.B, st *store.Store) {
		for _, n := range []int{smallDrain, largeDrain} {
			b.Run(fmt.Sprint(n), func(b *testing.B) {
				var ours, bare time.Duration
				for range b.N {
					b.StopTimer()
					letters(b, st, n, 0)
					desk := replay.New(replay.Options{Store: st, Clock: dag.SystemClock{}, IDs: dag.SystemIDs{}})
					d, err := desk.Begin(b.Context(), replay.Request{MaxReturns: 3, PauseShare: 1, Actor: "bench"})
					require.NoError(b, err)
					b.StartTimer()
					start := time.Now()
					d, err = desk.Run(b.Context(), d.ID, "bench", nil)
					ours += time.Since(start)
					b.StopTimer()
					require.NoError(b, err)
					require.Equal(b, n, d.Replayed)
					letters(b, st, n, 0)
					bare += bareDrain(b, st.DB(), n)
				}
				b.ReportMetric(float64(n*b.N)/ours.Seconds(), "letters/s")
				b.ReportMetric(float64(n*b.N)/bare.Seconds(), "bare-letters/s")
				b.ReportMetric(bare.Seconds()/ours.Seconds(), "of-bare-SQL")
			})
		}
	})
}

// BenchmarkDryRun decides about 100,000 letters and changes nothing.
func BenchmarkDryRun(b *testing.B) {
	deskBench(b, func(b *testing.B, st *store.Store) {
		letters(b, st, largeDrain, 0)
		desk := replay.New(replay.Options{Store: st, Clock: dag.SystemClock{}, IDs: dag.SystemIDs{}})
		b.ResetTimer()
		cpu := cpuTime()
		for range b.N {
			plan, err := desk.DryRun(b.Context(), replay.Request{MaxReturns: 3, PauseShare: 1}, nil)
			require.NoError(b, err)
			require.Equal(b, largeDrain, plan.Replayed)
		}
		b.ReportMetric((cpuTime()-cpu).Seconds()/float64(b.N), "cpu-s/op")
	})
}

// BenchmarkStats counts the groups among a million letters: of which one in
// fifty is open, and of which all are.
func BenchmarkStats(b *testing.B) {
	deskBench(b, func(b *testing.B, st *store.Store) {
		letters(b, st, 1_000_000, 50)
		for _, open := range []string{"2% open", "all open"} {
			if open == "all open" {
				_, err := st.DB().Writer().Exec("UPDATE dead_letter SET status = 'sealed'")
				require.NoError(b, err)
				_, err = st.Recount(b.Context())
				require.NoError(b, err)
			}
			b.Run(open, func(b *testing.B) {
				for range b.N {
					groups, err := st.LetterStats(b.Context(), dag.LetterFilter{Open: true, Limit: -1})
					require.NoError(b, err)
					require.Len(b, groups, manyGroups)
				}
			})
			b.Run(open+", metrics", func(b *testing.B) {
				for range b.N {
					_, err := st.Stats(b.Context())
					require.NoError(b, err)
				}
			})
		}
	})
}

func deskBench(b *testing.B, fn func(b *testing.B, st *store.Store)) {
	for _, db := range []string{"sqlite", "mariadb"} {
		b.Run(db, func(b *testing.B) {
			dsn := "sqlite:///" + filepath.Join(b.TempDir(), "state.db")
			if db == "mariadb" {
				dsn = sqltest.MariaDB(b)
			}
			st, err := store.Open(b.Context(), dsn, store.Options{})
			require.NoError(b, err)
			b.Cleanup(func() { _ = st.Close() })
			require.NoError(b, st.Migrate(b.Context()))
			fn(b, st)
		})
	}
}

// letters puts n sealed letters with their failed instances into an otherwise
// empty database, a hundred instances in each run. Of every openOf letters only
// one is open; 0 for all.
func letters(b *testing.B, st *store.Store, n, openOf int) {
	b.Helper()
	ctx := context.Background()
	d := &dag.DAG{ID: "bench", MaxActiveRuns: 1, MaxActiveTasks: 1, Timezone: "UTC", Tasks: []dag.Task{{
		ID: "work", Operator: "bash", Queue: dag.DefaultQueue, Pool: dag.DefaultPool, PoolSlots: 1, PriorityWeight: 1, WeightRule: "absolute",
		TriggerRule: dag.AllSuccess, Retry: dag.RetryPolicy{Retries: 2},
	}}}
	versions, err := st.SyncDAGs(ctx, []dag.DAGUpdate{{DAG: d}})
	require.NoError(b, err)
	db := st.DB().Writer()
	for _, table := range []string{"dead_letter", "dead_letter_audit", "task_instance", "dag_run"} {
		_, err := db.Exec("DELETE FROM " + table)
		require.NoError(b, err)
	}
	at := "2026-01-01 00:00:00.000000"
	body := fmt.Sprintf(`{"text":"%0*d"}`, payload1K, 0)
	hash := dag.PayloadHash([]byte(body))
	const each = 500
	for from := 1; from <= n; from += each {
		tx, err := db.Begin()
		require.NoError(b, err)
		var runs, instances, list []any
		for i := from; i < from+each; i++ {
			run := (i-1)/100 + 1
			if (i-1)%100 == 0 {
				runs = append(runs, run, "bench", fmt.Sprint("r", run), "manual", "failed", at, at, "task_failure", "", "", 0, versions[0], at)
			}
			instances = append(instances, i, run, "bench", fmt.Sprint("r", run), "work", i, "failed", 1, 2, 1, 0, 0, 1, "bash", "default", "default_pool", 1, 1, -1,
				versions[0], "w", "h", at)
			status := "sealed"
			if openOf > 0 && i%openOf != 0 {
				status = "resolved"
			}
			text := "{}"
			digest := dag.PayloadHash([]byte(text))
			if openOf == 0 {
				text, digest = body, hash
			}
			list = append(list, i, fmt.Sprint("j", i), i, 1, "bench", fmt.Sprint("r", run), "work", i, "default", 1, "exhausted", "EXIT_CODE", "exit code 1", "",
				fmt.Sprintf("%032d", (i/max(1, openOf))%manyGroups), text, digest, fmt.Sprint("bench/work/", i), 0, status, 1, at, at, "2036-01-01 00:00:00.000000", at)
		}
		for _, q := range []struct {
			head  string
			width int
			args  []any
		}{
			{"INSERT INTO dag_run (id, dag_id, run_id, run_type, state, run_after, end_date, reason, triggered_by, note, clear_number, dag_version_id, updated_at) VALUES ", 13, runs},
			{`INSERT INTO task_instance (id, dag_run_id, dag_id, run_id, task_id, map_index, state, try_number, max_tries, failure_count, crash_count, throttled_us, fence,
 operator, queue, pool, pool_slots, priority_weight, claim_rank, dag_version_id, worker_id, hostname, updated_at) VALUES `, 23, instances},
			{`INSERT INTO dead_letter (id, job_id, task_instance_id, fence, dag_id, run_id, task_id, map_index, queue, attempt_count, error_class, error_code,
 error_message, stack_trace, fingerprint, payload, original_payload_hash, idempotency_key, return_count, status, schema_version, first_failed_at,
 enqueued_at, expires_at, updated_at) VALUES `, 25, list},
		} {
			_, err := tx.Exec(q.head+dialect.Rows(len(q.args)/q.width, q.width), q.args...)
			require.NoError(b, err)
		}
		require.NoError(b, tx.Commit())
	}
	_, err = st.Recount(ctx)
	require.NoError(b, err)
	if !st.DB().IsSQLite() {
		_, err := db.Exec("ANALYZE TABLE dead_letter, task_instance, dag_run")
		require.NoError(b, err)
	} else {
		_, err := db.Exec("ANALYZE")
		require.NoError(b, err)
	}
}

// bareDrain locks, marks and audits letters in batches of 100, and gives the
// time that took.
func bareDrain(b *testing.B, db *dialect.DB, n int) time.Duration {
	b.Helper()
	start := time.Now()
	after := 0
	for done := 0; done < n; {
		tx, err := db.Writer().Begin()
		require.NoError(b, err)
		rows, err := tx.Query("SELECT id, payload FROM dead_letter WHERE status = 'sealed' AND id > ? ORDER BY id LIMIT 100"+db.ForUpdate(), after)
		require.NoError(b, err)
		var args []any
		for rows.Next() {
			var text string
			require.NoError(b, rows.Scan(&after, &text))
			args = append(args, "bare", after, "replayed", "k", "", "bench", "2026-01-01 00:00:00.000000")
			done++
		}
		require.NoError(b, rows.Err())
		require.NoError(b, rows.Close()) //nolint:sqlclosecheck // before the next statement of the connection
		_, err = tx.Exec(fmt.Sprintf("UPDATE dead_letter SET status = 'replaying', return_count = return_count + 1 WHERE id BETWEEN %d AND %d", after-99, after))
		require.NoError(b, err)
		_, err = tx.Exec("INSERT INTO dead_letter_audit (drain_id, dead_letter_id, decision, idempotency_key, reason, actor, decided_at) VALUES "+
			dialect.Rows(len(args)/7, 7), args...)
		require.NoError(b, err)
		require.NoError(b, tx.Commit())
	}
	return time.Since(start)
}
