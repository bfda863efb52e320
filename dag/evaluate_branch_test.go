package dag_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

// branchDAG is the example that everybody meets first: a branch, two arms, a
// join, and one arm with a second step.
func branchDAG(join dag.TriggerRule) *dag.DAG {
	return dagOf(
		task("branch"),
		task("left", after("branch")),
		task("right", after("branch")),
		task("right2", after("right")),
		task("join", after("left", "right2"), rule(join)),
	)
}

func TestBranchSkipsTheOtherArm(t *testing.T) {
	t.Parallel()
	d := branchDAG(dag.NoneFailedMinOneSuccess)
	skip, err := dag.BranchSkips(d, "branch", []string{"left"})
	require.NoError(t, err)
	require.Equal(t, []string{"right"}, skip)

	w := newWorld(d).set(map[string]dag.State{"branch": dag.StateSuccess})
	w.ti("branch", -1).SkipTasks = skip
	require.Equal(t, []string{"left scheduled", "right skipped", "right2 skipped"}, changes(w.step(t)))
	w.set(map[string]dag.State{"left": dag.StateSuccess})
	require.Equal(t, []string{"join scheduled"}, changes(w.step(t)))
}

func TestJoinWithAllSuccessIsSkippedAfterABranch(t *testing.T) {
	t.Parallel()
	w := newWorld(branchDAG(dag.AllSuccess)).set(map[string]dag.State{"branch": dag.StateSuccess})
	w.ti("branch", -1).SkipTasks = []string{"right"}
	require.Equal(t, []string{"join skipped", "left scheduled", "right skipped", "right2 skipped"}, changes(w.step(t)))
}

func TestSkipListCountsOnlyAfterSuccess(t *testing.T) {
	t.Parallel()
	w := newWorld(branchDAG(dag.AllSuccess)).set(map[string]dag.State{"branch": dag.StateRunning})
	w.ti("branch", -1).SkipTasks = []string{"right"}
	require.Empty(t, changes(w.step(t)))
}

// right waits for a retry when the branch decides against it: it has begun, and
// goes on, also between its wait and its next attempt.
func TestABranchDoesNotSkipWhatHasBegun(t *testing.T) {
	t.Parallel()
	for _, state := range []dag.State{dag.StateUpForRetry, dag.StateUpForReschedule, dag.StateScheduled, dag.StateQueued} {
		w := newWorld(branchDAG(dag.AllDone)).set(map[string]dag.State{"branch": dag.StateSuccess, "left": dag.StateSuccess, "right": state})
		w.ti("branch", -1).SkipTasks = []string{"right"}
		due := noon.Add(-time.Second)
		w.ti("right", -1).NextTryAt = &due
		for range 2 {
			w.step(t)
		}
		require.Contains(t, []dag.State{dag.StateScheduled, dag.StateQueued}, w.ti("right", -1).State, "from %s", state)
	}
}

func TestClearedTaskIsSkippedAgainWithoutTheBranchRunningAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(branchDAG(dag.AllDone)).set(map[string]dag.State{
		"branch": dag.StateSuccess, "left": dag.StateSuccess, "right": dag.StateNone,
		"right2": dag.StateSkipped, "join": dag.StateSuccess,
	})
	w.ti("branch", -1).SkipTasks = []string{"right"}
	require.Equal(t, []string{"right skipped"}, changes(w.step(t)))
}

func TestShortCircuitSkipsWhateverTheRulesSay(t *testing.T) {
	t.Parallel()
	d := dagOf(
		task("s", setup),
		task("check", after("s")),
		task("a", after("check")),
		task("b", after("a"), rule(dag.AllDone)),
		task("td", after("b", "s"), teardown),
	)
	require.Equal(t, []string{"a", "b"}, dag.ShortCircuitSkips(d, "check", false), "a teardown is never skipped so")
	require.Equal(t, []string{"a"}, dag.ShortCircuitSkips(d, "check", true))
	require.Nil(t, dag.ShortCircuitSkips(d, "nobody", true))

	w := newWorld(d).set(map[string]dag.State{"s": dag.StateSuccess, "check": dag.StateSuccess})
	w.ti("check", -1).SkipTasks = []string{"a", "b", "td"}
	require.Equal(t, []string{"a skipped", "b skipped", "td scheduled"}, changes(w.step(t)))

	w = newWorld(d).set(map[string]dag.State{"s": dag.StateSuccess, "check": dag.StateSuccess})
	w.ti("check", -1).SkipTasks = []string{"a"}
	require.Equal(t, []string{"a skipped", "b scheduled"}, changes(w.step(t)), "only the direct ones: all_done runs")
}

func TestSkipReachesWhatIsReadyButNotWhatRuns(t *testing.T) {
	t.Parallel()
	d := dagOf(
		task("branch"),
		task("ready", after("branch"), rule(dag.Always)),
		task("queued", after("branch"), rule(dag.Always)),
		task("runs", after("branch"), rule(dag.Always)),
		task("retries", after("branch"), rule(dag.Always)),
	)
	w := newWorld(d).set(map[string]dag.State{
		"branch": dag.StateSuccess, "ready": dag.StateScheduled, "queued": dag.StateQueued,
		"runs": dag.StateRunning, "retries": dag.StateUpForRetry,
	})
	w.ti("branch", -1).SkipTasks = []string{"ready", "queued", "runs", "retries", "not in the DAG"}
	require.Equal(t, []string{"queued skipped", "ready skipped", "retries scheduled"}, changes(w.step(t)))
}

func TestMappedBranchSkipsItsOwnIndex(t *testing.T) {
	t.Parallel()
	d := dagOf(
		task("check", mappedLiteral(1, 2, 3)),
		task("work", after("check"), mappedLiteral(1, 2, 3)),
		task("sum", after("check"), rule(dag.AllDone)),
	)
	w := newWorld(d)
	w.expand("check", dag.StateSuccess, dag.StateSuccess, dag.StateSuccess)
	w.expand("work", dag.StateNone, dag.StateNone, dag.StateNone)
	w.ti("check", 1).SkipTasks = []string{"work", "sum"}
	require.Equal(t, []string{
		"sum scheduled", "work[0] scheduled", "work[1] skipped", "work[2] scheduled",
	}, changes(w.step(t)))

	w.ti("sum", -1).State = dag.StateNone
	for i := range 3 {
		w.ti("check", i).SkipTasks = []string{"sum"}
	}
	require.Equal(t, []string{"sum skipped"}, changes(w.step(t)), "all of them say so")
}

func TestBranchSkips(t *testing.T) {
	t.Parallel()
	inGroup := func(id string) func(*dag.Task) { return func(t *dag.Task) { t.GroupID = id } }
	d := dagOf(
		task("above", inGroup("far")),
		task("elsewhere"),
		task("b", after("above")),
		task("x", after("b")),
		task("y", after("b", "x")), // reachable from x
		task("g.one", after("b"), inGroup("g")),
		task("g.h.two", after("b"), inGroup("g.h")),
		task("g.three", after("g.one"), inGroup("g")),
		task("td", after("b"), teardown),
	)
	d.Groups = []dag.Group{{ID: "g.h", ParentID: "g"}, {ID: "g"}, {ID: "other"}, {ID: "far"}}
	cases := []struct {
		follow []string
		want   []string
	}{
		{nil, []string{"g.h.two", "g.one", "x", "y"}},
		{[]string{"x"}, []string{"g.h.two", "g.one"}},
		{[]string{"y"}, []string{"g.h.two", "g.one", "x"}},
		{[]string{"g"}, []string{"x", "y"}},
		{[]string{"g.h"}, []string{"g.one", "x", "y"}},
		{[]string{"x", "g"}, []string{}},
		// As in Airflow, any task of the DAG may be named.
		{[]string{"g.three"}, []string{"g.h.two", "g.one", "x", "y"}},
		{[]string{"elsewhere"}, []string{"g.h.two", "g.one", "x", "y"}},
		{[]string{"above"}, []string{}},
		{[]string{"b"}, []string{}},
		{[]string{"far"}, []string{}},
	}
	for _, c := range cases {
		got, err := dag.BranchSkips(d, "b", c.follow)
		require.NoError(t, err)
		require.Equal(t, c.want, got, "%v", c.follow)
	}
	for _, wrong := range []string{"", "nobody", "other"} {
		_, err := dag.BranchSkips(d, "b", []string{"x", wrong})
		require.Equal(t, dag.ErrInvalid, dag.CodeOf(err), wrong)
		require.ErrorContains(t, err, "g.h.two, g.one, td, x, y")
	}
	_, err := dag.BranchSkips(d, "nobody", nil)
	require.Equal(t, dag.ErrNotFound, dag.CodeOf(err))
}

func TestRelatives(t *testing.T) {
	t.Parallel()
	d := branchDAG(dag.AllSuccess)
	require.Equal(t, []string{"left", "right"}, dag.DirectDownstream(d, "branch"))
	require.Equal(t, []string{"join", "left", "right", "right2"}, dag.DescendantIDs(d, "branch"))
	require.Equal(t, []string{"branch", "left", "right", "right2"}, dag.AncestorIDs(d, "join"))
	require.Empty(t, dag.DescendantIDs(d, "join"))
	require.Nil(t, dag.DirectDownstream(d, "nobody"))
	require.Nil(t, dag.DescendantIDs(d, "nobody"))
	require.Nil(t, dag.AncestorIDs(d, "nobody"))
	g := dag.NewGraph(d)
	require.Equal(t, "left", g.Task("left").ID)
	require.Nil(t, g.Task("nobody"))
	require.Same(t, d, g.DAG())
}
