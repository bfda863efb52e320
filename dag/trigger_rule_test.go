package dag_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

// counts are the numbers of a rule's table: success, skipped, failed,
// upstream_failed, and how many upstream tasks there are.
type counts struct{ s, k, f, u, n int }

func (c counts) done() bool { return c.s+c.k+c.f+c.u == c.n }

// ruleTable is the published table of trigger rules, one line a rule. The
// column "sets" is looked at before the column "runs".
var ruleTable = map[dag.TriggerRule]struct {
	setsSkipped, setsUpstreamFailed, runs func(counts) bool
}{
	dag.AllSuccess: {
		func(c counts) bool { return c.k > 0 && c.f+c.u == 0 },
		func(c counts) bool { return c.f+c.u > 0 },
		func(c counts) bool { return c.s == c.n },
	},
	dag.AllFailed: {
		func(c counts) bool { return c.s > 0 || c.k > 0 },
		never,
		func(c counts) bool { return c.f+c.u == c.n },
	},
	dag.AllDone: {never, never, counts.done},
	dag.AllSkipped: {
		func(c counts) bool { return c.s > 0 || c.f > 0 || c.u > 0 },
		never,
		func(c counts) bool { return c.k == c.n },
	},
	dag.OneSuccess: {
		func(c counts) bool { return c.done() && c.k == c.n },
		func(c counts) bool { return c.done() && c.s == 0 && c.k < c.n },
		func(c counts) bool { return c.s >= 1 },
	},
	dag.OneFailed: {
		func(c counts) bool { return c.done() && c.f+c.u == 0 },
		never,
		func(c counts) bool { return c.f+c.u >= 1 },
	},
	dag.OneDone: {
		func(c counts) bool { return c.done() && c.s+c.f == 0 },
		never,
		func(c counts) bool { return c.s+c.f >= 1 },
	},
	dag.NoneFailed: {
		never,
		func(c counts) bool { return c.f+c.u > 0 },
		func(c counts) bool { return c.s+c.k == c.n },
	},
	dag.NoneFailedMinOneSuccess: {
		func(c counts) bool { return c.k == c.n },
		func(c counts) bool { return c.f+c.u > 0 },
		func(c counts) bool { return c.s+c.k == c.n && c.s >= 1 },
	},
	dag.NoneSkipped: {
		func(c counts) bool { return c.k > 0 },
		never,
		func(c counts) bool { return c.done() && c.k == 0 },
	},
	dag.AllDoneMinOneSuccess: {
		func(c counts) bool { return c.k > 0 },
		func(c counts) bool { return c.done() && c.s == 0 && c.k == 0 },
		func(c counts) bool { return c.done() && c.s >= 1 },
	},
	dag.Always: {never, never, func(counts) bool { return true }},
	// Without a setup upstream it is all_done; teardowns have their own test.
	dag.AllDoneSetupSuccess: {never, never, counts.done},
}

func never(counts) bool { return false }

// TestTriggerRules holds every rule against the table for every way in which
// one, two or three upstream tasks can stand.
func TestTriggerRules(t *testing.T) {
	t.Parallel()
	states := []dag.State{
		dag.StateSuccess, dag.StateSkipped, dag.StateFailed, dag.StateUpstreamFailed,
		dag.StateRunning, dag.StateUpForRetry,
	}
	require.Len(t, ruleTable, len(dag.TriggerRules()))
	for _, r := range dag.TriggerRules() {
		t.Run(string(r), func(t *testing.T) {
			t.Parallel()
			for n := 1; n <= 3; n++ {
				combinations := 1
				for range n {
					combinations *= len(states)
				}
				for k := range combinations {
					checkRule(t, r, pickStates(states, n, k))
				}
			}
		})
	}
}

func pickStates(states []dag.State, n, k int) []dag.State {
	out := make([]dag.State, n)
	for i := range out {
		out[i] = states[k%len(states)]
		k /= len(states)
	}
	return out
}

func checkRule(t *testing.T, r dag.TriggerRule, upstream []dag.State) {
	t.Helper()
	var tasks []dag.Task
	var ids []string
	c := counts{n: len(upstream)}
	for i, s := range upstream {
		id := fmt.Sprintf("u%d", i)
		ids = append(ids, id)
		tasks = append(tasks, task(id))
		switch s {
		case dag.StateSuccess:
			c.s++
		case dag.StateSkipped:
			c.k++
		case dag.StateFailed:
			c.f++
		case dag.StateUpstreamFailed:
			c.u++
		}
	}
	w := newWorld(dagOf(append(tasks, task("t", after(ids...), rule(r)))...))
	for i, s := range upstream {
		ti := w.ti(ids[i], -1)
		ti.State = s
		later := noon.Add(1)
		ti.NextTryAt = &later
	}
	want := dag.StateNone
	row := ruleTable[r]
	switch {
	case row.setsUpstreamFailed(c):
		want = dag.StateUpstreamFailed
	case row.setsSkipped(c):
		want = dag.StateSkipped
	case row.runs(c):
		want = dag.StateScheduled
	}
	w.step(t)
	require.Equal(t, want, w.ti("t", -1).State, "%s over %v", r, upstream)
}

func TestAnUnknownOrMissingRuleIsAllSuccess(t *testing.T) {
	t.Parallel()
	for _, r := range []dag.TriggerRule{"", "no_such_rule"} {
		w := newWorld(dagOf(task("u"), task("t", after("u"), rule(r))))
		w.set(map[string]dag.State{"u": dag.StateFailed})
		require.Equal(t, []string{"t upstream_failed"}, changes(w.step(t)))
	}
}

func TestTeardownRuns(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name    string
		setups  []dag.State // direct upstream setups
		work    dag.State
		want    dag.State
		removed bool
	}{
		{"setup succeeded and the work failed", []dag.State{dag.StateSuccess}, dag.StateFailed, dag.StateScheduled, false},
		{"one of two setups is enough", []dag.State{dag.StateFailed, dag.StateSuccess}, dag.StateSuccess, dag.StateScheduled, false},
		{"waits for the work", []dag.State{dag.StateSuccess}, dag.StateRunning, dag.StateNone, false},
		{"no setup succeeded", []dag.State{dag.StateFailed}, dag.StateUpstreamFailed, dag.StateUpstreamFailed, false},
		{"all setups skipped", []dag.State{dag.StateSkipped, dag.StateSkipped}, dag.StateSkipped, dag.StateSkipped, false},
		{"one skipped, one failed", []dag.State{dag.StateSkipped, dag.StateFailed}, dag.StateUpstreamFailed, dag.StateUpstreamFailed, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tasks := []dag.Task{task("work")}
			up := []string{"work"}
			states := map[string]dag.State{"work": c.work}
			for i, s := range c.setups {
				id := fmt.Sprintf("s%d", i)
				tasks = append(tasks, task(id, setup))
				up = append(up, id)
				states[id] = s
			}
			// The rule that is written does not matter for a teardown.
			w := newWorld(dagOf(append(tasks, task("td", after(up...), teardown, rule(dag.AllSuccess)))...))
			w.set(states).step(t)
			require.Equal(t, c.want, w.ti("td", -1).State)
		})
	}
}

// TestOpenSetupIsAConditionOfAllWork: a task below a setup, not directly, needs
// its success whatever its own rule says, until the setup's teardown is above.
func TestOpenSetupIsAConditionOfAllWork(t *testing.T) {
	t.Parallel()
	d := dagOf(
		task("s", setup),
		task("a", after("s")),
		task("b", after("a"), rule(dag.AllDone)),
		task("td", after("b", "s"), teardown),
		task("next", after("td"), rule(dag.AllDone)),
	)
	w := newWorld(d).set(map[string]dag.State{"s": dag.StateFailed})
	got := changes(w.step(t))
	require.Equal(t, []string{
		"a upstream_failed", "b upstream_failed", "next scheduled", "td upstream_failed",
	}, got, "b would run by its rule all_done; next is outside the setup's reach")

	w = newWorld(d).set(map[string]dag.State{"s": dag.StateSkipped})
	require.Equal(t, []string{"a skipped", "b skipped", "next scheduled", "td skipped"}, changes(w.step(t)))

	w = newWorld(d).set(map[string]dag.State{"s": dag.StateSuccess, "a": dag.StateFailed})
	require.Equal(t, []string{"b scheduled"}, changes(w.step(t)))
}

// TestSetupDoesNotBindWhatOnlyBranchesOff: report is below the setup, but no
// teardown is below report.
func TestSetupDoesNotBindWhatOnlyBranchesOff(t *testing.T) {
	t.Parallel()
	d := dagOf(
		task("s", setup),
		task("a", after("s")),
		task("td", after("a", "s"), teardown),
		task("report", after("a"), rule(dag.AllDone)),
	)
	w := newWorld(d).set(map[string]dag.State{"s": dag.StateFailed})
	require.Equal(t, []string{"a upstream_failed", "report scheduled", "td upstream_failed"}, changes(w.step(t)))
}

// TestTeardownWaitsForAllWorkBeforeIt: b has not waited for a, and td does.
func TestTeardownWaitsForAllWorkBeforeIt(t *testing.T) {
	t.Parallel()
	d := dagOf(
		task("s", setup),
		task("a", after("s")),
		task("b", after("a"), rule(dag.Always)),
		task("td", after("b", "s"), teardown),
	)
	w := newWorld(d).set(map[string]dag.State{"s": dag.StateSuccess, "a": dag.StateRunning, "b": dag.StateSuccess})
	require.Empty(t, changes(w.step(t)))
	w.set(map[string]dag.State{"a": dag.StateFailed})
	require.Equal(t, []string{"td scheduled"}, changes(w.step(t)))
}

// TestDirectSetupIsTheRulesBusiness: a task directly below a setup is ruled by
// its trigger rule alone.
func TestDirectSetupIsTheRulesBusiness(t *testing.T) {
	t.Parallel()
	w := newWorld(dagOf(task("s", setup), task("a", after("s"), rule(dag.AllDone))))
	require.Equal(t, []string{"a scheduled"}, changes(w.set(map[string]dag.State{"s": dag.StateFailed}).step(t)))
}

func TestSkipsAndFailuresTravelToTheEndInOneCall(t *testing.T) {
	t.Parallel()
	const length = 200
	tasks := []dag.Task{task("t000")}
	for i := 1; i < length; i++ {
		tasks = append(tasks, task(fmt.Sprintf("t%03d", i), after(fmt.Sprintf("t%03d", i-1))))
	}
	for _, c := range []struct{ first, rest dag.State }{
		{dag.StateSkipped, dag.StateSkipped}, {dag.StateFailed, dag.StateUpstreamFailed},
	} {
		// The place in the list must not matter.
		shuffled := append([]dag.Task(nil), tasks...)
		for i := range shuffled {
			j := (i * 7919) % length
			shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
		}
		w := newWorld(dagOf(shuffled...)).set(map[string]dag.State{"t000": c.first})
		d := w.step(t)
		require.Len(t, d.Transitions, length-1)
		for _, tr := range d.Transitions {
			require.Equal(t, c.rest, tr.To)
		}
		require.True(t, d.State.Finished())
	}
}

func TestReasonsNameTheRule(t *testing.T) {
	t.Parallel()
	w := newWorld(dagOf(task("u"), task("t", after("u"), rule(dag.OneFailed))))
	d := w.set(map[string]dag.State{"u": dag.StateSuccess}).step(t)
	require.Contains(t, d.Transitions[0].Reason, "one_failed", d.Transitions[0].Reason)
}
