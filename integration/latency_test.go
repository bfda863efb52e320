package integration

import (
	"context"
	"fmt"
	"path/filepath"
	"sort"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor"
	"github.com/airlock-dag/airlock/executor/operator"
	"github.com/airlock-dag/airlock/sql/sqltest"
	"github.com/airlock-dag/airlock/sql/store"
)

// engine is a scheduler and a worker on one state database, in this process.
type engine struct {
	st    *store.Store
	wake  executor.Wake // the scheduler's
	ended chan dag.Result
	late  chan time.Duration // how late scheduled runs started
	stop  func()
}

// newEngine starts an engine that runs the no-op operator.
func newEngine(b testing.TB, dsn string, workers int) *engine {
	b.Helper()
	st, err := store.Open(b.Context(), dsn, store.Options{})
	require.NoError(b, err)
	require.NoError(b, st.Migrate(b.Context()))
	require.NoError(b, st.SetPool(b.Context(), dag.Pool{Name: dag.DefaultPool, Slots: 1 << 20}))
	e := &engine{st: st, wake: executor.NewWake(), ended: make(chan dag.Result, 1<<16), late: make(chan time.Duration, 1<<16)}
	workerWake := executor.NewWake()
	sched := executor.NewScheduler(executor.SchedulerOptions{Store: st, Catalog: st, Results: st, Settings: st, Wake: e.wake, WorkerWake: workerWake,
		MaxMapLength: 1 << 20, OnStart: func(late time.Duration) { e.late <- late }})
	work := executor.NewWorker(executor.WorkerOptions{
		Store: st, Settings: st, Operators: operator.NewRegistry(noop{}), ID: "bench", Hostname: "bench", Concurrency: workers,
		LogsDir: b.TempDir(), DagsFolder: b.TempDir(), Wake: workerWake, SchedulerWake: e.wake,
		Scheduler: sched,
		OnEnd: func(_ dag.Claim, r dag.Result) {
			if r.State.Finished() {
				e.ended <- r
			}
		},
	})
	running, cancel := context.WithCancel(b.Context())
	var loops sync.WaitGroup
	loops.Go(func() { sched.Run(running) })
	loops.Go(func() { work.Run(running) })
	e.stop = func() {
		cancel()
		loops.Wait()
		_ = st.Close()
	}
	return e
}

// run makes one run of a DAG and waits for its tasks; the attempts come back in
// the order in which they began.
func (e *engine) run(b *testing.B, d *dag.DAG, version int64, runID string) []dag.Attempt {
	b.Helper()
	now := time.Now().UTC().Truncate(time.Microsecond)
	_, err := e.st.CreateRuns(b.Context(), []dag.NewRun{{
		Run: dag.Run{
			DagID: d.ID, RunID: runID, Type: dag.RunManual, State: dag.RunQueued, RunAfter: now, QueuedAt: &now, VersionID: version,
		},
		Instances: dag.NewInstances(d),
	}})
	require.NoError(b, err)
	e.wake.Signal()
	attempts := make([]dag.Attempt, attemptsOf(d))
	for i := range attempts {
		attempts[i] = (<-e.ended).Attempt
	}
	sort.Slice(attempts, func(i, j int) bool { return attempts[i].StartDate.Before(attempts[j].StartDate) })
	return attempts
}

// chain is a DAG of n tasks, one after the other.
func chain(n int) *dag.DAG {
	d := diamond(3)
	root := d.Tasks[0]
	d.ID, d.Tasks = "chain", nil
	for i := range n {
		t := root
		t.ID = fmt.Sprintf("t%04d", i)
		if i > 0 {
			t.Upstream = []string{fmt.Sprintf("t%04d", i-1)}
		}
		d.Tasks = append(d.Tasks, t)
	}
	return d
}

// mapped is a DAG of one task with n instances, and a join.
func mapped(n int) *dag.DAG {
	d := diamond(3)
	values := make([]any, n)
	for i := range values {
		values[i] = float64(i)
	}
	over := &d.Tasks[1]
	over.Expand = &dag.Expand{Names: []string{"x"}, Args: map[string]dag.ExpandSource{"x": {Literal: values}}}
	d.ID = "mapped"
	return d
}

// grid is a DAG of layers of n tasks side by side, each layer with a join that
// the next one begins with.
func grid(layers, n int) *dag.DAG {
	d := diamond(3)
	plain := d.Tasks[0]
	d.ID, d.Tasks = "grid", d.Tasks[:1]
	root := plain.ID
	for layer := range layers {
		join := plain
		join.ID = fmt.Sprintf("join%d", layer)
		for i := range n {
			t := plain
			t.ID, t.Upstream = fmt.Sprintf("l%dt%05d", layer, i), []string{root}
			join.Upstream = append(join.Upstream, t.ID)
			d.Tasks = append(d.Tasks, t)
		}
		d.Tasks = append(d.Tasks, join)
		root = join.ID
	}
	return d
}

// attemptsOf is how many attempts a run of a shape takes.
func attemptsOf(d *dag.DAG) int {
	n := len(d.Tasks)
	for i := range d.Tasks {
		if over := d.Tasks[i].Expand; over != nil {
			n += len(over.Args["x"].Literal) - 1
		}
	}
	return n
}

// activeTasks is a DAG of which n tasks may be active at a time.
func activeTasks(d *dag.DAG, n int) *dag.DAG {
	d.MaxActiveTasks = n
	return d
}

// BenchmarkShapes runs single runs through an engine that is idle otherwise:
// chains, which show how long the engine takes from the end of a task to the
// start of the next, and wide runs, which show what many tasks of one run cost,
// also where the usual limits make most of them wait, or where they are the
// instances of one mapped task, or stand in a hundred layers.
func BenchmarkShapes(b *testing.B) {
	for _, db := range databases() {
		for _, shape := range []struct {
			name string
			d    *dag.DAG
			pool int
		}{
			{"chain=50", chain(50), 1 << 20}, {"chain=1000", chain(1000), 1 << 20}, {"fan-out=1000", diamond(1002), 1 << 20}, {"fan-out=10000", diamond(10_002), 1 << 20},
			{"fan-out=10000/pool=128", diamond(10_002), 128}, {"fan-out=10000/max_active_tasks=16", activeTasks(diamond(10_002), 16), 128},
			{"fan-out=50000", diamond(50_002), 1 << 20}, {"mapped=1000", mapped(1000), 1 << 20}, {"mapped=10000", mapped(10_000), 1 << 20},
			{"mapped=50000", mapped(50_000), 1 << 20}, {"grid=100x100", grid(100, 100), 1 << 20},
		} {
			b.Run(db+"/"+shape.name, func(b *testing.B) {
				dsn := "sqlite:///" + filepath.Join(b.TempDir(), "state.db")
				if db == "mariadb" {
					dsn = sqltest.MariaDB(b)
				}
				e := newEngine(b, dsn, 16)
				defer e.stop()
				require.NoError(b, e.st.SetPool(b.Context(), dag.Pool{Name: dag.DefaultPool, Slots: shape.pool}))
				versions, err := e.st.SyncDAGs(b.Context(), []dag.DAGUpdate{{DAG: shape.d}})
				require.NoError(b, err)
				commits, cpu := e.st.DB().Commits(), cpuTime()
				var gaps []time.Duration
				n := 0
				for b.Loop() {
					n++
					attempts := e.run(b, shape.d, versions[0], fmt.Sprintf("manual__%d", n))
					for i := 1; i < len(attempts); i++ {
						gaps = append(gaps, attempts[i].StartDate.Sub(attempts[i-1].EndDate))
					}
				}
				tasks := float64(n * attemptsOf(shape.d))
				b.ReportMetric(tasks/b.Elapsed().Seconds(), "tasks/s")
				b.ReportMetric(float64(e.st.DB().Commits()-commits)/tasks, "commits/task")
				b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/tasks, "cpu-us/task")
				if shape.d.ID == "chain" {
					sort.Slice(gaps, func(i, j int) bool { return gaps[i] < gaps[j] })
					b.ReportMetric(float64(gaps[len(gaps)/2].Microseconds())/1000, "median-gap-ms")
					b.ReportMetric(float64(gaps[len(gaps)*99/100].Microseconds())/1000, "p99-gap-ms")
				}
			})
		}
	}
}
