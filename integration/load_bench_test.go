package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/sqltest"
	"github.com/airlock-dag/airlock/sql/store"
)

// databases are the kinds that the benchmarks run on: MySQL, too, where a server
// is named (.ci/test-mysql starts one and names it).
func databases() []string {
	kinds := []string{"sqlite", "mariadb"}
	if os.Getenv(sqltest.MySQLEnv) != "" {
		kinds = append(kinds, "mysql")
	}
	return kinds
}

// stateDSN is a fresh state database of one kind.
func stateDSN(b *testing.B, kind string) string {
	switch kind {
	case "mariadb":
		return sqltest.MariaDB(b)
	case "mysql":
		dsn := sqltest.MySQL(b)
		// That server is set up for tests; here each commit has to be durable.
		_, err := sqltest.Raw(b, dsn).ExecContext(b.Context(), "SET GLOBAL innodb_flush_log_at_trx_commit = 1")
		require.NoError(b, err)
		return dsn
	}
	return "sqlite:///" + filepath.Join(b.TempDir(), "state.db")
}

// sized is a size that the environment may change, for a shorter or longer run.
func sized(b *testing.B, name string, usual int) int {
	b.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	require.NoError(b, err, name)
	return n
}

// percentiles reports the median and the 99th percentile in milliseconds.
func percentiles(b *testing.B, name string, list []time.Duration) {
	b.Helper()
	require.NotEmpty(b, list)
	sort.Slice(list, func(i, j int) bool { return list[i] < list[j] })
	b.ReportMetric(float64(list[len(list)/2].Microseconds())/1000, "median-"+name+"-ms")
	b.ReportMetric(float64(list[len(list)*99/100].Microseconds())/1000, "p99-"+name+"-ms")
}

// everySeconds is a DAG of one task that is due each n seconds, or never for 0.
func everySeconds(id string, n int) *dag.DAG {
	d := diamond(3)
	d.ID, d.Tasks, d.MaxActiveRuns = id, d.Tasks[:1], 16
	d.StartDate = new(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	d.Schedule = dag.Schedule{Kind: dag.ScheduleCronTrigger, Crons: []string{"0 0 1 1 *"}}
	if n > 0 {
		d.Schedule.Crons[0] = fmt.Sprintf("* * * * * */%d", n)
	}
	return d
}

// BenchmarkDue takes the time from the second at which DAGs are due to the
// start of their runs and of their tasks: a thousand at once, with few slots and with one for
// each, and a hundred among ten thousand. It
// is their second tick: at the first each DAG's version is read.
func BenchmarkDue(b *testing.B) {
	for _, kind := range databases() {
		for _, c := range []struct{ dags, due, slots int }{{1000, 1000, 32}, {1000, 1000, 1024}, {10_000, 100, 32}} {
			b.Run(fmt.Sprintf("%s/dags=%d/due=%d/slots=%d", kind, c.dags, c.due, c.slots), func(b *testing.B) {
				var runs, waits []time.Duration
				for b.Loop() {
					e := newEngine(b, stateDSN(b, kind), c.slots)
					// The tick is far enough away for all DAGs to be there before it.
					tick := time.Now().UTC().Truncate(5 * time.Second).Add(10 * time.Second)
					updates := make([]dag.DAGUpdate, c.dags)
					for i := range updates {
						period := 5
						if i >= c.due {
							period = 0
						}
						d := everySeconds(fmt.Sprintf("due%05d", i), period)
						next := tick
						if period == 0 {
							next = tick.AddDate(1, 0, 0)
						}
						updates[i] = dag.DAGUpdate{DAG: d, Next: &dag.PlannedRun{LogicalDate: next, DataIntervalStart: next, DataIntervalEnd: next, RunAfter: next}}
					}
					_, err := e.st.SyncDAGs(b.Context(), updates)
					require.NoError(b, err)
					require.Less(b, time.Now(), tick, "the DAGs took too long to load")
					e.wake.Signal()
					for range c.due {
						<-e.ended // the first time each DAG's version is read
						<-e.late
					}
					for range c.due {
						runs = append(runs, <-e.late)
						waits = append(waits, (<-e.ended).Attempt.StartDate.Sub(tick.Add(5*time.Second)))
					}
					e.stop()
				}
				percentiles(b, "due-to-run", runs)
				percentiles(b, "due-to-start", waits)
			})
		}
	}
}

// BenchmarkHistory shows whether finished task instances, a million of them,
// cost those that run: the rate with and without them, measured in turn.
func BenchmarkHistory(b *testing.B) {
	n := sized(b, "AIRLOCK_BENCH_HISTORY", 1_000_000)
	for _, kind := range databases() {
		for _, finished := range []int{0, n} {
			b.Run(fmt.Sprintf("%s/finished=%d", kind, finished), func(b *testing.B) {
				e := newEngine(b, stateDSN(b, kind), 32)
				defer e.stop()
				d := diamond(tasksPerRun)
				versions, err := e.st.SyncDAGs(b.Context(), []dag.DAGUpdate{{DAG: d}})
				require.NoError(b, err)
				e.run(b, d, versions[0], "manual__first")
				require.Eventually(b, func() bool {
					run, err := e.st.Run(b.Context(), d.ID, "manual__first")
					return err == nil && run.State == dag.RunSuccess
				}, patience, 10*time.Millisecond)
				copyRun(b, e.st, finished/tasksPerRun)
				measureRounds(b, e, d, versions[0])
			})
		}
	}
}

// measureRounds runs round after round and reports what a task takes.
func measureRounds(b *testing.B, e *engine, d *dag.DAG, version int64) {
	b.Helper()
	b.ResetTimer()
	cpu, round := cpuTime(), 0
	for b.Loop() {
		round++
		startRuns(b, e, d, version, round)
		for range runsPerRound * tasksPerRun {
			<-e.ended
		}
	}
	tasks := float64(round * runsPerRound * tasksPerRun)
	b.ReportMetric(tasks/b.Elapsed().Seconds(), "tasks/s")
	b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/tasks, "cpu-us/task")
}

// startRuns asks for a round of runs.
func startRuns(b *testing.B, e *engine, d *dag.DAG, version int64, round int) {
	b.Helper()
	runs := make([]dag.NewRun, runsPerRound)
	for i := range runs {
		now := time.Now().UTC().Truncate(time.Microsecond)
		runs[i] = dag.NewRun{
			Run: dag.Run{
				DagID: d.ID, RunID: fmt.Sprintf("manual__%d_%d", round, i), Type: dag.RunManual, State: dag.RunQueued, RunAfter: now, QueuedAt: &now, VersionID: version,
			},
			Instances: dag.NewInstances(d),
		}
	}
	_, err := e.st.CreateRuns(b.Context(), runs)
	require.NoError(b, err)
	e.wake.Signal()
}

// copyRun multiplies the one finished run, with its instances and attempts.
func copyRun(b *testing.B, st *store.Store, n int) {
	b.Helper()
	if n == 0 {
		return
	}
	digits := "(SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)"
	seq := fmt.Sprintf("(SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d + 1 AS i FROM %[1]s a, %[1]s b, %[1]s c, %[1]s e, %[1]s f) seq", digits)
	db := st.DB()
	number := "CAST(seq.i AS CHAR)"
	concat := func(column string) string { return "CONCAT(" + column + ", '-', " + number + ")" }
	if db.IsSQLite() {
		concat = func(column string) string { return column + " || '-' || " + strings.Replace(number, "CHAR", "TEXT", 1) }
	}
	// Each row gets ids of its own: those of the first run, moved by a million a copy.
	const step = 1_000_000
	replaced := map[string]map[string]string{
		"dag_run":       {"id": fmt.Sprintf("t.id + seq.i * %d", step), "run_id": concat("t.run_id")},
		"task_instance": {"id": fmt.Sprintf("t.id + seq.i * %d", step), "dag_run_id": fmt.Sprintf("t.dag_run_id + seq.i * %d", step), "run_id": concat("t.run_id")},
		"task_attempt":  {"id": fmt.Sprintf("t.id + seq.i * %d", step), "task_instance_id": fmt.Sprintf("t.task_instance_id + seq.i * %d", step)},
	}
	for _, table := range []string{"dag_run", "task_instance", "task_attempt"} {
		columns := tableColumns(b, db, table)
		values := make([]string, len(columns))
		for i, c := range columns {
			if values[i] = "t." + c; replaced[table][c] != "" {
				values[i] = replaced[table][c]
			}
		}
		for from := 0; from < n; from += 2000 { // a transaction of a server's liking
			_, err := db.Writer().ExecContext(b.Context(), fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s t, %s WHERE t.id < %d AND seq.i > %d AND seq.i <= %d",
				table, strings.Join(columns, ", "), strings.Join(values, ", "), table, seq, step, from, min(n, from+2000)))
			require.NoError(b, err)
		}
	}
	require.Equal(b, (n+1)*tasksPerRun, countRows(b, db, "task_instance"))
}

func tableColumns(b *testing.B, db *dialect.DB, table string) []string {
	b.Helper()
	rows, err := db.Reader().QueryContext(b.Context(), "SELECT * FROM "+table+" LIMIT 0")
	require.NoError(b, err)
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	require.NoError(b, err)
	require.NoError(b, rows.Err())
	return columns
}

func countRows(b *testing.B, db *dialect.DB, table string) int {
	b.Helper()
	var n int
	require.NoError(b, db.Reader().GetContext(b.Context(), &n, "SELECT COUNT(*) FROM "+table))
	return n
}

// BenchmarkWaiting shows what fifty thousand retries that wait for tomorrow cost
// the tasks that run now.
func BenchmarkWaiting(b *testing.B) {
	n := sized(b, "AIRLOCK_BENCH_WAITING", 50_000)
	for _, kind := range databases() {
		for _, waiting := range []int{0, n} {
			b.Run(fmt.Sprintf("%s/waiting=%d", kind, waiting), func(b *testing.B) {
				e := newEngine(b, stateDSN(b, kind), 32)
				defer e.stop()
				d, idle := diamond(tasksPerRun), diamond(1000)
				idle.ID = "waits"
				versions, err := e.st.SyncDAGs(b.Context(), []dag.DAGUpdate{{DAG: d}, {DAG: idle}})
				require.NoError(b, err)
				tomorrow := time.Now().UTC().AddDate(0, 0, 1)
				for i := range waiting / 1000 {
					_, err := e.st.CreateRuns(b.Context(), []dag.NewRun{{
						Run: dag.Run{
							DagID: idle.ID, RunID: fmt.Sprintf("waits_%d", i), Type: dag.RunManual, State: dag.RunQueued, RunAfter: tomorrow, VersionID: versions[1],
						},
						Instances: dag.NewInstances(idle),
					}})
					require.NoError(b, err)
				}
				_, err = e.st.DB().Writer().ExecContext(b.Context(),
					"UPDATE dag_run SET state = 'running', start_date = updated_at, next_eval_at = ? WHERE dag_id = 'waits'", dialect.Stamp(tomorrow))
				require.NoError(b, err)
				_, err = e.st.DB().Writer().ExecContext(b.Context(),
					"UPDATE task_instance SET state = 'up_for_retry', try_number = 1, next_try_at = ? WHERE dag_id = 'waits'", dialect.Stamp(tomorrow))
				require.NoError(b, err)
				measureRounds(b, e, d, versions[0])
			})
		}
	}
}
