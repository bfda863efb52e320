package dag_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

func inGroup(id string) func(*dag.Task) {
	return func(t *dag.Task) { t.GroupID = id }
}

// grouped makes a DAG with one mapped group g, over what source returns or, for
// "", over a list; h stands inside it.
func grouped(source string, tasks ...dag.Task) *dag.DAG {
	d := dagOf(tasks...)
	src := dag.ExpandSource{XCom: source}
	if source == "" {
		src.Literal = []any{"a", "b"}
	}
	d.Groups = []dag.Group{
		{ID: "h", ParentID: "g"},
		{ID: "g", Expand: &dag.Expand{Names: []string{"x"}, Args: map[string]dag.ExpandSource{"x": src}}},
	}
	return d
}

func TestMappedGroupIsExpandedWhenItsValuesAreComplete(t *testing.T) {
	t.Parallel()
	d := grouped("make", task("make"), task("other"),
		task("g.a", inGroup("g"), after("make", "other")), task("g.b", inGroup("h"), after("g.a")), task("end", after("g.b")))
	require.Equal(t, "g", d.MappedGroup(d.Task("g.b")).ID, "through the group inside it")
	require.Nil(t, d.MappedGroup(d.Task("end")))
	w := newWorld(d)
	require.Empty(t, w.step(t).ExpandGroups)
	w.set(map[string]dag.State{"make": dag.StateSuccess})
	dec := w.step(t)
	require.Equal(t, []string{"g"}, dec.ExpandGroups, "its tasks may have to wait, the values are there")
	require.Empty(t, dec.Expand)
	require.Empty(t, dec.Transitions)
}

func TestMappedGroupGoesDepthFirst(t *testing.T) {
	t.Parallel()
	none, done := dag.StateNone, dag.StateSuccess
	w := newWorld(grouped("", task("g.a", inGroup("g")), task("g.b", inGroup("g"), after("g.a")), task("end", after("g.b"))))
	require.Equal(t, []string{"g"}, w.decide().ExpandGroups)
	w.expand("g.a", done, none, dag.StateFailed)
	w.expand("g.b", none, none, none)
	dec := w.step(t)
	require.Equal(t, []string{"end upstream_failed", "g.a[1] scheduled", "g.b[0] scheduled", "g.b[2] upstream_failed"}, changes(dec),
		"each instance follows its own, what is below the group sees all")
	w.ti("g.a", 1).State, w.ti("g.b", 0).State = done, done
	require.Equal(t, []string{"g.b[1] scheduled"}, changes(w.step(t)))
}

func TestRulesInAMappedGroupLookAtOneInstance(t *testing.T) {
	t.Parallel()
	none, done, failed := dag.StateNone, dag.StateSuccess, dag.StateFailed
	for _, c := range []struct {
		rule dag.TriggerRule
		want []string
	}{
		{dag.OneFailed, []string{"g.b[0] skipped", "g.b[1] scheduled"}},
		{dag.OneSuccess, []string{"g.b[0] scheduled", "g.b[1] upstream_failed"}},
		{dag.OneDone, []string{"g.b[0] scheduled", "g.b[1] scheduled"}},
		{dag.AllFailed, []string{"g.b[0] skipped", "g.b[1] scheduled"}},
	} {
		w := newWorld(grouped("", task("g.a", inGroup("g")), task("g.b", inGroup("g"), after("g.a"), rule(c.rule))))
		w.expand("g.a", done, failed, dag.StateRunning)
		w.expand("g.b", none, none, none)
		require.Equal(t, c.want, changes(w.decide()), "%s; the third waits", c.rule)
	}
}

func TestMappedGroupFollowsItsSource(t *testing.T) {
	t.Parallel()
	for state, want := range map[dag.State]string{dag.StateFailed: "upstream_failed", dag.StateSkipped: "skipped"} {
		w := newWorld(grouped("make", task("make"), task("g.a", inGroup("g"), after("make"), rule(dag.AllDone)), task("g.b", inGroup("g"), after("g.a"), rule(dag.AllDone))))
		w.set(map[string]dag.State{"make": state})
		dec := w.step(t)
		require.Empty(t, dec.ExpandGroups)
		require.Equal(t, []string{"g.a " + want, "g.b " + want}, changes(dec))
	}
	// One task tells that the group could not be expanded; the others follow.
	w := newWorld(grouped("make", task("make"), task("g.a", inGroup("g"), after("make")), task("g.b", inGroup("g"), after("g.a"), rule(dag.AllDone))))
	w.set(map[string]dag.State{"make": dag.StateSuccess, "g.a": dag.StateFailed})
	require.Equal(t, []string{"g.b upstream_failed"}, changes(w.step(t)))
	require.Equal(t, dag.RunFailed, w.snap.Run.State)
}

func TestBranchInAMappedGroupSkipsItsOwnInstance(t *testing.T) {
	t.Parallel()
	none, done := dag.StateNone, dag.StateSuccess
	w := newWorld(grouped("", task("g.a", inGroup("g")), task("g.b", inGroup("g"), after("g.a")), task("out", after("g.a"))))
	w.expand("g.a", done, done)
	w.expand("g.b", none, none)
	w.ti("g.a", 1).SkipTasks = []string{"g.b", "out"}
	require.Equal(t, []string{"g.b[0] scheduled", "g.b[1] skipped", "out scheduled"}, changes(w.decide()),
		"a task outside is skipped only when all instances say so")
}

func TestTeardownInAMappedGroupClosesItsOwnInstance(t *testing.T) {
	t.Parallel()
	none, done, failed := dag.StateNone, dag.StateSuccess, dag.StateFailed
	w := newWorld(grouped("", task("g.up", inGroup("g"), setup), task("g.a", inGroup("g"), after("g.up")), task("g.b", inGroup("g"), after("g.a"), rule(dag.AllDone)),
		task("g.down", inGroup("g"), after("g.up", "g.b"), teardown)))
	w.expand("g.up", done, failed)
	w.expand("g.a", done, dag.StateUpstreamFailed)
	w.expand("g.b", none, none)
	w.expand("g.down", none, none)
	require.Equal(t, []string{"g.b[0] scheduled", "g.b[1] upstream_failed", "g.down[1] upstream_failed"}, changes(w.decide()))
}

func TestGroupOverFilesWaitsForWhatIsAboveIt(t *testing.T) {
	t.Parallel()
	d := grouped("", task("fetch"), task("g.a", inGroup("g"), after("fetch"), rule(dag.AllDone)), task("mid", after("g.a")), task("g.b", inGroup("g"), after("mid")))
	d.Groups[1].Expand.Args["x"] = dag.ExpandSource{Glob: "*.mp4"}
	w := newWorld(d)
	require.Empty(t, w.step(t).ExpandGroups)
	w.set(map[string]dag.State{"fetch": dag.StateFailed})
	require.Equal(t, []string{"g"}, w.step(t).ExpandGroups, "its rule asks for no success, and mid comes after the group")
}

func TestGroupsInsideEachOtherDoNotHang(t *testing.T) {
	t.Parallel()
	d := grouped("", task("g.a", inGroup("h")))
	d.Groups[1].ParentID, d.Groups[1].Expand = "h", nil
	require.Nil(t, d.MappedGroup(&d.Tasks[0]))
	require.NotPanics(t, func() { newWorld(d).decide() })
}

func TestEventsOfAMappedGroupHaveItsValues(t *testing.T) {
	t.Parallel()
	d, tk, ti, run := eventParts()
	d.Groups = []dag.Group{{ID: "g", Expand: &dag.Expand{Names: []string{"clip"}}}}
	d.Params = map[string]any{"clip": "none", "shop": "7"}
	ti.Payload = json.RawMessage(`{"clip": "c1", "password": "secret"}`)
	params := func() map[string]any {
		var c dag.EventContext
		require.NoError(t, json.Unmarshal(dag.TaskEvents(d, tk, ti, run, dag.EventSuccess, nil, nil, "", noon)[0].Context, &c))
		return c.Params
	}
	require.Equal(t, map[string]any{"clip": "none", "shop": "7"}, params(), "the payload of another task is its arguments")
	tk.GroupID = "g"
	got := params()
	require.Equal(t, "c1", got["clip"])
	require.Equal(t, "7", got["shop"])
	require.NotEqual(t, "secret", got["password"])
}
