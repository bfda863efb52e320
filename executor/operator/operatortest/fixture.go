package operatortest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/operator"
)

// LogicalDate is that of the run in every fixture.
func LogicalDate() time.Time { return time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC) }

// Fixture is an attempt and what it left behind. Its maps may be filled before
// the attempt runs; its lists are safe to read when it has ended.
type Fixture struct {
	*operator.Task
	// Output is what the attempt wrote to its log.
	Output *Buffer
	// Connections are found by their id.
	Connections map[string]dag.Connection
	// XComs are found by "task_id/key" or "task_id/key/map_index".
	XComs map[string]any
	// RunStates are found by "dag_id/run_id".
	RunStates map[string]dag.RunState
	// External answers ExternalStates; nil says that there is no such DAG.
	External func(operator.ExternalQuery) (operator.ExternalStates, error)
	// Lost makes StillMine say that the lease is gone.
	Lost bool
	// OpenLetter is what SealedBefore gives.
	OpenLetter int64
	// Gate, when set, is what OpenInput says.
	Gate func(assetSHA256 string) error

	mu       sync.Mutex
	details  []any
	triggers []operator.TriggerRequest
	progress []operator.Progress
	opened   []string
}

// New makes the first attempt of task "work" of DAG "demo" with the given
// arguments, already rendered. Dir and ScratchDir are two fresh folders.
func New(t testing.TB, args map[string]any) *Fixture {
	t.Helper()
	date := LogicalDate()
	key := dag.TaskInstanceKey{
		DagID: "demo", RunID: "scheduled__2026-03-01T02:00:00+00:00", TaskID: "work", MapIndex: -1,
	}
	ids := dag.SystemIDs{}
	f := &Fixture{Output: &Buffer{}, Connections: map[string]dag.Connection{}, XComs: map[string]any{}}
	def := dag.Task{
		ID: "work", Args: args, TriggerRule: dag.AllSuccess, Queue: dag.DefaultQueue, Pool: dag.DefaultPool,
		PoolSlots: 1, PriorityWeight: 1, DoXComPush: true, Owner: "airflow",
	}
	d := &dag.DAG{ID: "demo", FileLoc: "demo.yaml", Timezone: "UTC", Tasks: []dag.Task{def}}
	f.Task = &operator.Task{
		DAG: d, Def: &d.Tasks[0], Args: args,
		TI: dag.TaskInstance{
			ID: 1, TaskInstanceKey: key, State: dag.StateRunning, TryNumber: 1, Fence: 1,
			Queue: dag.DefaultQueue, Pool: dag.DefaultPool, PoolSlots: 1,
		},
		Run: dag.Run{
			ID: 1, DagID: key.DagID, RunID: key.RunID, Type: dag.RunScheduled, State: dag.RunRunning,
			LogicalDate: &date, DataIntervalStart: &date, DataIntervalEnd: &date, RunAfter: date,
		},
		Log:            f.Output,
		Progress:       f.addProgress,
		Connection:     f.connection,
		XCom:           f.xcom,
		Trigger:        f.trigger,
		RunState:       f.runState,
		ExternalStates: f.externalStates,
		StillMine:      f.stillMine,
		OpenInput:      f.openInput,
		SealedBefore:   func(context.Context, string) (int64, error) { return f.OpenLetter, nil },
		Dir:            t.TempDir(),
		ScratchDir:     t.TempDir(),
		Marker:         "test-" + ids.NewID(),
		IdempotencyKey: key.String(),
		Detail:         f.addDetail,
		Clock:          dag.SystemClock{},
	}
	return f
}

// Details are the values that the attempt kept beside its record.
func (f *Fixture) Details() []any {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]any(nil), f.details...)
}

// Triggers are the runs that the attempt asked for.
func (f *Fixture) Triggers() []operator.TriggerRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]operator.TriggerRequest(nil), f.triggers...)
}

// Reports are the attempt's calls of Progress.
func (f *Fixture) Reports() []operator.Progress {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]operator.Progress(nil), f.progress...)
}

func (f *Fixture) addProgress(p operator.Progress) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.progress = append(f.progress, p)
}

func (f *Fixture) addDetail(v any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.details = append(f.details, v)
}

func (f *Fixture) connection(_ context.Context, id string) (dag.Connection, error) {
	c, ok := f.Connections[id]
	if !ok {
		return dag.Connection{}, &dag.Error{
			Code: dag.ErrNotFound, Op: fmt.Sprintf("connection %q", id), Hint: "add it",
		}
	}
	c.ID = id
	return c, nil
}

func (f *Fixture) xcom(_ context.Context, taskID, key string, mapIndex *int) (json.RawMessage, error) {
	name := taskID + "/" + key
	if mapIndex != nil {
		name += fmt.Sprintf("/%d", *mapIndex)
	}
	v, ok := f.XComs[name]
	if !ok {
		return nil, nil
	}
	return json.Marshal(v)
}

// trigger gives the asked run id, or one made from the asking instance.
func (f *Fixture) trigger(_ context.Context, r operator.TriggerRequest) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.triggers = append(f.triggers, r)
	if r.RunID != "" {
		return r.RunID, nil
	}
	return "manual__" + f.TI.TaskInstanceKey.String(), nil
}

func (f *Fixture) runState(_ context.Context, dagID, runID string) (dag.RunState, error) {
	return f.RunStates[dagID+"/"+runID], nil
}

func (f *Fixture) externalStates(_ context.Context, q operator.ExternalQuery) (operator.ExternalStates, error) {
	if f.External == nil {
		return operator.ExternalStates{NoDAG: true}, nil
	}
	return f.External(q)
}

// Opened are the media inputs that the attempt asked to open.
func (f *Fixture) Opened() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.opened...)
}

func (f *Fixture) openInput(_ context.Context, assetSHA256 string) error {
	f.mu.Lock()
	f.opened = append(f.opened, assetSHA256)
	f.mu.Unlock()
	if f.Gate != nil {
		return f.Gate(assetSHA256)
	}
	return nil
}

func (f *Fixture) stillMine(context.Context) error {
	if f.Lost {
		return operator.ErrLeaseLost
	}
	return nil
}

// Buffer is a log in memory; safe for concurrent use.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String is all that was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
