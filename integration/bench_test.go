package integration

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor"
	"github.com/airlock-dag/airlock/executor/operator"
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
// their ratio to what SQL written by hand makes of the same runs with the same
// guarantees: see bare.
func BenchmarkEngine(b *testing.B) {
	for _, kind := range databases() {
		b.Run(kind, func(b *testing.B) {
			for _, workers := range []int{1, 8, 32} {
				b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
					engineRounds(b, stateDSN(b, kind), workers, newBare(b, stateDSN(b, kind), diamond(tasksPerRun), workers))
				})
			}
		})
	}
}

func engineRounds(b *testing.B, dsn string, workers int, yardstick *bare) {
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
		Scheduler: sched,
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
	commits, round := st.DB().Commits(), 0
	var cpu time.Duration
	for b.Loop() {
		round++
		began := cpuTime()
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
		cpu += cpuTime() - began
		b.StopTimer()
		yardstick.measure(d, runsPerRound, round)
		b.StartTimer()
	}
	tasks := float64(round * runsPerRound * tasksPerRun)
	b.ReportMetric(tasks/b.Elapsed().Seconds(), "tasks/s")
	b.ReportMetric(yardstick.took.Seconds()/b.Elapsed().Seconds(), "of-bare-SQL")
	b.ReportMetric(float64(st.DB().Commits()-commits)/tasks, "commits/task")
	b.ReportMetric(float64(cpu.Microseconds())/tasks, "cpu-us/task")
	if strings.HasPrefix(dsn, "sqlite:") { // a server's time is not ours to see
		b.ReportMetric(float64(yardstick.cpu)/float64(cpu), "of-bare-SQL-by-cpu")
	}
	stop()
	loops.Wait()
}
