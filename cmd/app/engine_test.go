package app_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/app"
	"github.com/airlock-dag/airlock/cmd/config"
	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor"
	"github.com/airlock-dag/airlock/executor/operator"
	"github.com/airlock-dag/airlock/executor/operator/externaltasksensor"
	"github.com/airlock-dag/airlock/executor/operator/filesensor"
	httpop "github.com/airlock-dag/airlock/executor/operator/http"
	"github.com/airlock-dag/airlock/executor/operator/httpcall"
	"github.com/airlock-dag/airlock/executor/operator/httpsensor"
	"github.com/airlock-dag/airlock/executor/operator/triggerdagrun"
)

// patience bounds every wait for an outcome; nothing here measures speed.
const patience = 4 * time.Minute

// engine is the whole product in this process, on a SQLite database, with the
// operators of the tests beside the sensors.
type engine struct {
	*app.App
	t     *testing.T
	dags  string
	gauge *gauge
	log   *syncBuffer
}

// newEngine starts scheduler and worker on the DAGs of a YAML text.
func newEngine(t *testing.T, concurrency int, pools []dag.Pool, yaml string, settings ...func(*config.Config)) *engine {
	t.Helper()
	cfg := config.Default(t.TempDir())
	cfg.PausedAtCreation = false
	cfg.Scheduler.Interval, cfg.Worker.PollInterval = 50*time.Millisecond, 50*time.Millisecond
	cfg.Worker.Concurrency = concurrency
	for _, set := range settings {
		set(&cfg)
	}
	require.NoError(t, os.MkdirAll(cfg.DagsFolder, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(cfg.DagsFolder, "limits.yml"), []byte(yaml), 0o600))
	e := &engine{t: t, dags: cfg.DagsFolder, gauge: newGauge(), log: &syncBuffer{}}
	calls := httpcall.New()
	a, err := app.New(t.Context(), app.Options{
		Config: cfg, Log: slog.New(slog.NewTextHandler(e.log, nil)),
		Operators: operator.NewRegistry(e.gauge, listing{}, externaltasksensor.New(), triggerdagrun.New(), filesensor.New(), httpop.New(calls), httpsensor.New(calls)),
	})
	require.NoError(t, err)
	e.App = a
	for _, p := range pools {
		require.NoError(t, a.Store().SetPool(t.Context(), p))
	}
	res, err := a.Catalog().Sync(t.Context())
	require.NoError(t, err)
	require.False(t, res.HasErrors(), "%v", res.Problems)

	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.RunStandalone(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
		require.NoError(t, a.Close())
		if t.Failed() {
			t.Logf("the engine said:\n%s", e.log.String())
		}
	})
	return e
}

// trigger makes a run; a zero date is none.
func (e *engine) trigger(dagID, runID string, date time.Time) {
	e.t.Helper()
	st := e.Store()
	rows, err := st.DAGRows(e.t.Context(), dag.DAGFilter{IDs: []string{dagID}})
	require.NoError(e.t, err)
	require.Len(e.t, rows, 1)
	r := executor.ManualRunRequest{RunID: runID, TriggeredBy: "test", Now: dag.SystemClock{}.Now()}
	if !date.IsZero() {
		r.LogicalDate = &date
	}
	n, err := executor.ManualRun(e.t.Context(), st, rows[0], r)
	require.NoError(e.t, err)
	_, err = st.CreateRuns(e.t.Context(), []dag.NewRun{n})
	require.NoError(e.t, err)
}

// ends waits until a run has ended and gives its state.
func (e *engine) ends(dagID, runID string) dag.RunState {
	e.t.Helper()
	var state dag.RunState
	require.Eventually(e.t, func() bool {
		run, err := e.Store().Run(e.t.Context(), dagID, runID)
		state = run.State
		return err == nil && state.Finished()
	}, patience, 20*time.Millisecond)
	return state
}

// instances are those of a run's task, by map index.
func (e *engine) instances(dagID, runID, taskID string) []dag.TaskInstance {
	e.t.Helper()
	list, err := e.Store().Instances(e.t.Context(), dag.InstanceFilter{DagID: dagID, RunID: runID, TaskID: taskID, Limit: -1})
	require.NoError(e.t, err)
	return list
}

// sound proves that no promise is broken.
func (e *engine) sound() {
	e.t.Helper()
	found, err := e.Store().Check(e.t.Context())
	require.NoError(e.t, err)
	require.Empty(e.t, found)
}

// gauge is an operator that counts how many of its attempts run at once: over
// all, in each pool, run and task. An attempt with meet: N waits until N
// attempts run at once or have done so, which shows that a limit is used up.
type gauge struct {
	mu    sync.Mutex
	now   map[string]int
	most  map[string]int
	order []string
	grown *sync.Cond
}

func newGauge() *gauge {
	g := &gauge{now: map[string]int{}, most: map[string]int{}}
	g.grown = sync.NewCond(&g.mu)
	return g
}

func (*gauge) Spec() dag.OperatorSpec {
	return dag.OperatorSpec{Name: "gauge", Doc: "Counts.", Fields: []dag.Field{
		{Name: "meet", Type: dag.FieldInt, Mappable: true, Doc: "How many must have run at once."}, {Name: "touch", Type: dag.FieldString, Doc: "File to make."},
		{Name: "say", Type: dag.FieldString, Templated: true, Doc: "What to return instead of the map index."},
		{Name: "n", Type: dag.FieldAny, Mappable: true, Doc: "What it is mapped over."},
	}}
}

func (g *gauge) Run(_ context.Context, t *operator.Task) dag.Outcome {
	keys := []string{"all", "pool " + t.TI.Pool, "run " + t.TI.RunID, "task " + t.TI.TaskID, "task " + t.TI.TaskID + " of " + t.TI.RunID}
	g.mu.Lock()
	g.order = append(g.order, t.TI.TaskID)
	for i, k := range keys {
		n := 1
		if i == 1 {
			n = t.TI.PoolSlots
		}
		g.now[k] += n
		g.most[k] = max(g.most[k], g.now[k])
	}
	g.grown.Broadcast()
	for meet := number(t.Args["meet"]); g.most["all"] < meet; {
		g.grown.Wait()
	}
	g.mu.Unlock()
	if name, ok := t.Args["touch"].(string); ok {
		if err := os.WriteFile(filepath.Join(t.Dir, name), nil, 0o600); err != nil {
			return dag.Failed(&dag.TaskError{Class: dag.ClassPermanent, Code: "IO_ERROR", Message: err.Error()})
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, k := range keys {
		n := 1
		if i == 1 {
			n = t.TI.PoolSlots
		}
		g.now[k] -= n
	}
	if text, ok := t.Args["say"].(string); ok {
		return dag.Success(text)
	}
	return dag.Success(t.TI.MapIndex)
}

// peak is the most that ran at once under a key.
func (g *gauge) peak(key string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.most[key]
}

// began lists the tasks in the order in which they began.
func (g *gauge) began() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.order)
}

// listing is an operator that gives a list of numbers.
type listing struct{}

func (listing) Spec() dag.OperatorSpec {
	return dag.OperatorSpec{Name: "listing", Doc: "Gives a list.", Fields: []dag.Field{{Name: "size", Type: dag.FieldInt, Doc: "Its length."}}}
}

func (listing) Run(_ context.Context, t *operator.Task) dag.Outcome {
	list := make([]any, number(t.Args["size"]))
	for i := range list {
		list[i] = i
	}
	return dag.Success(list)
}

func number(v any) int {
	var n int
	_, _ = fmt.Sscan(fmt.Sprint(v), &n)
	return n
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
