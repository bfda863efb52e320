package dag_test

import (
	"fmt"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// task describes a task; options change it.
func task(id string, options ...func(*dag.Task)) dag.Task {
	t := dag.Task{
		ID: id, Operator: "bash", TriggerRule: dag.AllSuccess, Queue: "default", Pool: "default_pool",
		PoolSlots: 1, PriorityWeight: 1, WeightRule: "downstream", IgnoreFirstDependsOnPast: true,
	}
	for _, o := range options {
		o(&t)
	}
	return t
}

func after(ids ...string) func(*dag.Task) {
	return func(t *dag.Task) { t.Upstream = ids }
}

func rule(r dag.TriggerRule) func(*dag.Task) {
	return func(t *dag.Task) { t.TriggerRule = r }
}

func operatorIs(name string) func(*dag.Task) {
	return func(t *dag.Task) { t.Operator = name }
}

func setup(t *dag.Task) { t.IsSetup = true }

func teardown(t *dag.Task) { t.IsTeardown = true }

func mappedOver(source string) func(*dag.Task) {
	return func(t *dag.Task) {
		t.Expand = &dag.Expand{Args: map[string]dag.ExpandSource{"x": {XCom: source}}, Names: []string{"x"}}
	}
}

func mappedLiteral(values ...any) func(*dag.Task) {
	return func(t *dag.Task) {
		t.Expand = &dag.Expand{Args: map[string]dag.ExpandSource{"x": {Literal: values}}, Names: []string{"x"}}
	}
}

func dagOf(tasks ...dag.Task) *dag.DAG {
	return &dag.DAG{ID: "d", Tasks: tasks}
}

// world is a run in memory: it applies decisions as the store would.
type world struct {
	d      *dag.DAG
	snap   dag.RunSnapshot
	lastID int64
}

func newWorld(d *dag.DAG) *world {
	start := noon.Add(-time.Minute)
	w := &world{d: d, snap: dag.RunSnapshot{Run: dag.Run{
		ID: 7, DagID: d.ID, RunID: "scheduled__1", Type: dag.RunScheduled, State: dag.RunRunning,
		RunAfter: start, LogicalDate: &start, StartDate: &start,
	}}}
	for _, ni := range dag.NewInstances(d) {
		w.add(ni.TaskID, -1, dag.StateNone)
	}
	return w
}

func (w *world) add(id string, index int, s dag.State) *dag.TaskInstance {
	w.lastID++
	w.snap.Instances = append(w.snap.Instances, dag.TaskInstance{
		ID:              w.lastID,
		TaskInstanceKey: dag.TaskInstanceKey{DagID: w.d.ID, RunID: w.snap.Run.RunID, TaskID: id, MapIndex: index},
		State:           s,
	})
	return &w.snap.Instances[len(w.snap.Instances)-1]
}

// expand replaces the unexpanded instance of a task by instances in states.
func (w *world) expand(id string, states ...dag.State) {
	kept := w.snap.Instances[:0:0]
	for _, ti := range w.snap.Instances {
		if ti.TaskID != id {
			kept = append(kept, ti)
		}
	}
	w.snap.Instances = kept
	for i, s := range states {
		w.add(id, i, s)
	}
}

func (w *world) ti(id string, index int) *dag.TaskInstance {
	for i := range w.snap.Instances {
		if ti := &w.snap.Instances[i]; ti.TaskID == id && ti.MapIndex == index {
			return ti
		}
	}
	panic(fmt.Sprintf("no instance %s[%d]", id, index))
}

func (w *world) set(states map[string]dag.State) *world {
	for id, s := range states {
		w.ti(id, -1).State = s
	}
	return w
}

func (w *world) decide() dag.Decision { return dag.Evaluate(w.d, &w.snap, noon) }

// step decides and applies.
func (w *world) step(t require.TestingT) dag.Decision {
	d := w.decide()
	for _, tr := range d.Transitions {
		found := false
		for i := range w.snap.Instances {
			if ti := &w.snap.Instances[i]; ti.ID == tr.TaskInstanceID {
				require.Equal(t, ti.State, tr.From)
				require.Equal(t, ti.TaskID, tr.TaskID)
				require.Equal(t, ti.MapIndex, tr.MapIndex)
				ti.State, found = tr.To, true
			}
		}
		require.True(t, found)
		require.True(t, dag.CanTransition(tr.From, tr.To), "%s -> %s is not in the table", tr.From, tr.To)
		require.NotEmpty(t, tr.Reason)
	}
	w.snap.Run.State, w.snap.Run.Reason = d.State, d.Reason
	return d
}

// changes writes transitions as "task[index] state", sorted.
func changes(d dag.Decision) []string {
	out := []string{}
	for _, tr := range d.Transitions {
		s := tr.TaskID
		if tr.MapIndex >= 0 {
			s += fmt.Sprintf("[%d]", tr.MapIndex)
		}
		out = append(out, s+" "+string(tr.To))
	}
	sort.Strings(out)
	return out
}

func TestEvaluateStartsRootsAndWaitsForTheRest(t *testing.T) {
	t.Parallel()
	w := newWorld(dagOf(task("a"), task("b"), task("c", after("a", "b"))))
	d := w.step(t)
	require.Equal(t, []string{"a scheduled", "b scheduled"}, changes(d))
	require.Equal(t, dag.RunRunning, d.State)
	require.Empty(t, d.Events)
	require.True(t, d.NextAt.IsZero())

	require.Empty(t, changes(w.step(t)), "nothing new to say")
	w.set(map[string]dag.State{"a": dag.StateSuccess})
	require.Empty(t, changes(w.step(t)))
	w.set(map[string]dag.State{"b": dag.StateSuccess})
	require.Equal(t, []string{"c scheduled"}, changes(w.step(t)))
	w.set(map[string]dag.State{"c": dag.StateSuccess})
	d = w.step(t)
	require.Equal(t, dag.RunSuccess, d.State)
	require.Equal(t, "success", d.Reason)
	require.Empty(t, w.step(t).Transitions)
}
