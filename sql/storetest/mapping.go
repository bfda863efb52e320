package storetest

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

func overMake() *dag.Expand {
	return &dag.Expand{Names: []string{"x"}, Args: map[string]dag.ExpandSource{"x": {XCom: "make"}}}
}

func values(list ...string) []json.RawMessage {
	out := make([]json.RawMessage, len(list))
	for i, v := range list {
		out[i] = raw(fmt.Sprintf(`{"x":%q}`, v))
	}
	return out
}

// work drives a run to its end; every expansion is over the given values.
func (b *bundle) work(run dag.Run, list []json.RawMessage, state func(c dag.Claim) dag.State) {
	b.t.Helper()
	for !b.run(run).State.Finished() {
		for _, r := range b.pass().Runs {
			for _, task := range r.Decision.Expand {
				_, err := b.s.ExpandTask(b.t.Context(), run.ID, task, list)
				require.NoError(b.t, err)
			}
			def, err := b.s.Version(b.t.Context(), run.VersionID)
			require.NoError(b.t, err)
			for _, group := range r.Decision.ExpandGroups {
				_, err := b.s.ExpandTasks(b.t.Context(), run.ID, dag.TasksOfGroup(def, group), list)
				require.NoError(b.t, err)
			}
		}
		for _, c := range b.claim(100) {
			r := b.result(c, state(c))
			var value struct{ X string }
			if len(c.Payload) > 0 {
				require.NoError(b.t, json.Unmarshal(c.Payload, &value))
			}
			r.XComs = map[string]json.RawMessage{dag.XComReturnValue: raw(fmt.Sprintf(`"%s %s"`, c.TaskID, value.X))}
			require.Equal(b.t, []dag.ApplyStatus{dag.Applied}, b.apply(r))
		}
	}
}

func (b *bundle) payloads(run dag.Run, task string) map[int]string {
	b.t.Helper()
	list, err := b.s.Instances(b.t.Context(), dag.InstanceFilter{DagID: run.DagID, RunID: run.RunID, TaskID: task, Limit: -1})
	require.NoError(b.t, err)
	out := map[int]string{}
	for _, ti := range list {
		if ti.State != dag.StateRemoved {
			out[ti.MapIndex] = string(ti.Payload)
		}
	}
	return out
}

func testExpandGroup(t *testing.T, b *bundle) {
	ctx := t.Context()
	d := oneDAG("d", "a", "b<a")
	d.Groups = []dag.Group{{ID: "g", Expand: overMake()}}
	d.Tasks[0].GroupID, d.Tasks[1].GroupID = "g", "g"
	run := b.trigger(d, "r")
	require.Equal(t, []string{"g"}, b.pass().Runs[0].Decision.ExpandGroups)
	// A task of the group was expanded by whoever died before the other.
	did, err := b.s.ExpandTask(ctx, run.ID, "a", values("1", "2"))
	require.NoError(t, err)
	require.True(t, did)
	require.Equal(t, []string{"g"}, b.pass().Runs[0].Decision.ExpandGroups, "asked for again")
	for _, want := range []bool{true, false} {
		did, err = b.s.ExpandTasks(ctx, run.ID, []string{"a", "b"}, values("1", "2"))
		require.NoError(t, err)
		require.Equal(t, want, did)
	}
	require.Equal(t, map[int]string{0: `{"x":"1"}`, 1: `{"x":"2"}`}, b.payloads(run, "a"))
	require.Equal(t, b.payloads(run, "a"), b.payloads(run, "b"))
	b.sound()
}

func testClearExpandsAgain(t *testing.T, b *bundle) {
	ctx := t.Context()
	d := oneDAG("d", "make", "each<make", "g.a<make", "g.b<g.a")
	d.Tasks[1].Expand = overMake()
	d.Groups = []dag.Group{{ID: "g", Expand: overMake()}}
	d.Tasks[2].GroupID, d.Tasks[3].GroupID = "g", "g"
	run := b.trigger(d, "r")
	b.work(run, values("1", "2", "3"), func(c dag.Claim) dag.State {
		if c.TaskID == "each" && c.MapIndex == 1 {
			return dag.StateFailed
		}
		return dag.StateSuccess
	})
	require.Equal(t, dag.RunFailed, b.run(run).State)

	// Fewer values: what is beyond them is removed, and leaves nothing behind.
	_, err := b.s.Clear(ctx, dag.ClearRequest{DagID: "d", RunID: "r", Actor: "test"})
	require.NoError(t, err)
	b.sound()
	b.work(run, values("1", "other"), succeed)
	require.Equal(t, dag.RunSuccess, b.run(run).State)
	states := b.states(run)
	for _, task := range []string{"each", "g.a", "g.b"} {
		require.Equal(t, map[int]string{0: `{"x":"1"}`, 1: `{"x":"other"}`}, b.payloads(run, task), task)
		require.Equal(t, []dag.State{dag.StateSuccess, dag.StateSuccess, dag.StateRemoved},
			[]dag.State{states[task+"[0]"], states[task+"[1]"], states[task+"[2]"]}, task)
	}
	got, err := b.s.XCom(ctx, "d", "r", "each", dag.XComReturnValue, nil)
	require.NoError(t, err)
	require.JSONEq(t, `["each 1", "each other"]`, string(got), "no value of the third is left")
	list, err := b.s.Instances(ctx, dag.InstanceFilter{DagID: "d", RunID: "r", TaskID: "each", Limit: -1})
	require.NoError(t, err)
	require.Equal(t, []int{1, 1}, []int{list[0].Generation, list[1].Generation},
		"one was cleared after its success; the other failed over a value that is another one now")
	b.sound()

	// More values: the removed one comes back, and one more is made.
	_, err = b.s.Clear(ctx, dag.ClearRequest{DagID: "d", RunID: "r", Actor: "test"})
	require.NoError(t, err)
	b.work(run, values("1", "2", "3", "4"), succeed)
	require.Equal(t, dag.RunSuccess, b.run(run).State)
	for _, task := range []string{"each", "g.a", "g.b"} {
		require.Equal(t, map[int]string{0: `{"x":"1"}`, 1: `{"x":"2"}`, 2: `{"x":"3"}`, 3: `{"x":"4"}`}, b.payloads(run, task), task)
		require.Equal(t, dag.StateSuccess, b.states(run)[task+"[3]"])
	}
	b.sound()
}

func testClearKeepsInstances(t *testing.T, b *bundle) {
	ctx := t.Context()
	d := oneDAG("d", "make", "each<make")
	d.Tasks[1].Expand = overMake()
	run := b.trigger(d, "r")
	b.work(run, values("1", "2"), succeed)
	for name, r := range map[string]dag.ClearRequest{
		"the mapped task alone":                    {TaskIDs: []string{"each"}},
		"one instance of it, and its source":       {TaskIDs: []string{"make", "each"}, MapIndexes: []int{-1, 0}},
		"its source alone, as it has done its own": {TaskIDs: []string{"make"}},
	} {
		r.DagID, r.RunID, r.Actor = "d", "r", "test"
		_, err := b.s.Clear(ctx, r)
		require.NoError(t, err)
		require.Equal(t, map[int]string{0: `{"x":"1"}`, 1: `{"x":"2"}`}, b.payloads(run, "each"), name)
		b.work(run, values("never", "asked", "for"), succeed)
		require.Equal(t, map[int]string{0: `{"x":"1"}`, 1: `{"x":"2"}`}, b.payloads(run, "each"), name)
	}
	b.sound()
}
