package integration

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor"
	"github.com/airlock-dag/airlock/executor/operator"
	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/sqltest"
	"github.com/airlock-dag/airlock/sql/store"
)

// noop is an operator that does nothing, so that a benchmark measures the engine.
type noop struct{}

func (noop) Spec() dag.OperatorSpec                          { return dag.OperatorSpec{Name: "noop"} }
func (noop) Run(context.Context, *operator.Task) dag.Outcome { return dag.Success(nil) }

// diamond is a DAG of n tasks: a root, n-2 side by side, a join.
func diamond(n int) *dag.DAG {
	task := func(id string, up ...string) dag.Task {
		return dag.Task{
			ID: id, Operator: "noop", Upstream: up, TriggerRule: dag.AllSuccess, Queue: dag.DefaultQueue, Pool: dag.DefaultPool,
			PoolSlots: 1, PriorityWeight: 1, WeightRule: "absolute", DoXComPush: true, IgnoreFirstDependsOnPast: true,
			Retry: dag.RetryPolicy{MaxCrashes: 3},
		}
	}
	d := &dag.DAG{
		ID: "diamond", FileLoc: "diamond.yml", Timezone: "UTC", MaxActiveRuns: 1 << 20, MaxActiveTasks: 1 << 20,
		Schedule: dag.Schedule{Kind: dag.ScheduleNone},
	}
	d.Tasks = append(d.Tasks, task("root"))
	var middle []string
	for i := range n - 2 {
		id := fmt.Sprintf("t%04d", i)
		middle = append(middle, id)
		d.Tasks = append(d.Tasks, task(id, "root"))
	}
	d.Tasks = append(d.Tasks, task("join", middle...))
	return d
}

// runsPerRound and tasksPerRun are the shape of one round: 100 runs of 10 tasks.
const (
	runsPerRound = 100
	tasksPerRun  = 10
)

// BenchmarkEngine runs no-op tasks through the whole engine (evaluate, queue,
// claim, lease, log file, result, attempt) and reports tasks per second, and
// their ratio to what bare SQL makes of the same life with batches of 100.
func BenchmarkEngine(b *testing.B) {
	for _, db := range []string{"sqlite", "mariadb"} {
		dsn := func(b *testing.B) string {
			if db == "mariadb" {
				return sqltest.MariaDB(b)
			}
			return "sqlite:///" + filepath.Join(b.TempDir(), "state.db")
		}
		b.Run(db, func(b *testing.B) {
			ceiling, bareCPU := bareSQL(b, dsn(b))
			for _, workers := range []int{1, 8, 32} {
				b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
					engineRounds(b, dsn(b), workers, ceiling, bareCPU)
				})
			}
		})
	}
}

func engineRounds(b *testing.B, dsn string, workers int, ceiling float64, bareCPU time.Duration) {
	ctx := b.Context()
	st, err := store.Open(ctx, dsn, store.Options{})
	require.NoError(b, err)
	defer func() { _ = st.Close() }()
	require.NoError(b, st.Migrate(ctx))
	require.NoError(b, st.SetPool(ctx, dag.Pool{Name: dag.DefaultPool, Slots: 1 << 20}))
	d := diamond(tasksPerRun)
	versions, err := st.SyncDAGs(ctx, []dag.DAGUpdate{{DAG: d}})
	require.NoError(b, err)

	schedulerWake, workerWake := executor.NewWake(), executor.NewWake()
	sched := executor.NewScheduler(executor.SchedulerOptions{Store: st, Catalog: st, Results: st, Settings: st, Wake: schedulerWake, WorkerWake: workerWake})
	var left sync.WaitGroup
	work := executor.NewWorker(executor.WorkerOptions{
		Store: st, Settings: st, Operators: operator.NewRegistry(noop{}), ID: "bench", Hostname: "bench", Concurrency: workers,
		LogsDir: b.TempDir(), DagsFolder: b.TempDir(), Wake: workerWake, SchedulerWake: schedulerWake,
		OnEnd: func(_ dag.Claim, r dag.Result) {
			if r.State.Finished() {
				left.Done()
			}
		},
	})
	running, stop := context.WithCancel(ctx)
	var loops sync.WaitGroup
	loops.Go(func() { sched.Run(running) })
	loops.Go(func() { work.Run(running) })

	b.ResetTimer()
	commits, cpu := st.DB().Commits(), cpuTime()
	round := 0
	for b.Loop() {
		round++
		left.Add(runsPerRound * tasksPerRun)
		runs := make([]dag.NewRun, runsPerRound)
		for i := range runs {
			now := time.Now().UTC().Truncate(time.Microsecond)
			runs[i] = dag.NewRun{
				Run: dag.Run{
					DagID: d.ID, RunID: fmt.Sprintf("manual__%d_%d", round, i), Type: dag.RunManual, State: dag.RunQueued,
					RunAfter: now, QueuedAt: &now, VersionID: versions[0],
				},
				Instances: dag.NewInstances(d),
			}
		}
		_, err := st.CreateRuns(ctx, runs)
		require.NoError(b, err)
		schedulerWake.Signal()
		left.Wait()
	}
	rate := float64(round*runsPerRound*tasksPerRun) / b.Elapsed().Seconds()
	b.ReportMetric(rate, "tasks/s")
	b.ReportMetric(rate/ceiling, "of-bare-SQL")
	b.ReportMetric(float64(st.DB().Commits()-commits)/float64(round*runsPerRound*tasksPerRun), "commits/task")
	perTask := (cpuTime() - cpu) / time.Duration(round*runsPerRound*tasksPerRun)
	b.ReportMetric(float64(perTask.Nanoseconds())/1000, "cpu-us/task")
	if strings.HasPrefix(dsn, "sqlite:") { // a server's time is not ours to see
		b.ReportMetric(float64(bareCPU)/float64(perTask), "of-bare-SQL-by-cpu")
	}
	stop()
	loops.Wait()
}

// bareSQL is the least that a durable task life costs in SQL, from one
// coordinator: an inserted row, an update to running, an update to done and an
// inserted key, a hundred tasks to a commit. It gives tasks per second and this
// process's processor time a task.
func bareSQL(b *testing.B, dsn string) (rate float64, cpu time.Duration) {
	ctx := b.Context()
	db, err := dialect.Open(ctx, dsn, dialect.Options{Create: true})
	require.NoError(b, err)
	defer func() { _ = db.Close() }()
	exec := func(tx *sql.Tx, q string, args ...any) {
		_, err := tx.ExecContext(ctx, q, args...)
		require.NoError(b, err)
	}
	begin := func() *sql.Tx {
		tx, err := db.Writer().BeginTx(ctx, nil)
		require.NoError(b, err)
		return tx
	}
	tx := begin()
	exec(tx, "CREATE TABLE bare_task (id BIGINT PRIMARY KEY, run_id BIGINT NOT NULL, state SMALLINT NOT NULL, priority INT NOT NULL, owner VARCHAR(40), lease_until BIGINT, payload VARCHAR(200) NOT NULL)")
	exec(tx, "CREATE INDEX bare_claim ON bare_task (state, priority, id)")
	exec(tx, "CREATE TABLE bare_key (k VARCHAR(80) PRIMARY KEY, task_id BIGINT NOT NULL)")
	require.NoError(b, tx.Commit())

	const batch, batches = 100, 60
	marks := strings.TrimSuffix(strings.Repeat("?,", batch), ",")
	payload := strings.Repeat("x", 160)
	start, used := time.Now(), cpuTime()
	for n := range batches {
		ids := make([]any, batch)
		rows := make([]any, 0, 4*batch)
		keys := make([]any, 0, 2*batch)
		for i := range ids {
			id := int64(n*batch + i + 1)
			ids[i] = id
			rows = append(rows, id, id/10, payload)
			keys = append(keys, fmt.Sprintf("key-%d", id), id)
		}
		tx := begin()
		exec(tx, "INSERT INTO bare_task (id, run_id, state, priority, payload) VALUES "+strings.TrimSuffix(strings.Repeat("(?,?,1,1,?),", batch), ","), rows...)
		require.NoError(b, tx.Commit())
		tx = begin()
		exec(tx, "UPDATE bare_task SET state = 2, owner = 'w', lease_until = 1 WHERE id IN ("+marks+") AND state = 1", ids...)
		require.NoError(b, tx.Commit())
		tx = begin()
		exec(tx, "UPDATE bare_task SET state = 3 WHERE id IN ("+marks+") AND state = 2", ids...)
		exec(tx, "INSERT INTO bare_key (k, task_id) VALUES "+strings.TrimSuffix(strings.Repeat("(?,?),", batch), ","), keys...)
		require.NoError(b, tx.Commit())
	}
	return batch * batches / time.Since(start).Seconds(), (cpuTime() - used) / (batch * batches)
}
