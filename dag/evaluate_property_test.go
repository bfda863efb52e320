package dag_test

import (
	"fmt"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/airlock-dag/airlock/dag"
)

// drawDAG draws a small DAG: edges go from lower to higher numbers, the list
// is shuffled, and rules, setups, mapping and operators are mixed.
func drawDAG(r *rapid.T) *dag.DAG {
	n := rapid.IntRange(0, 8).Draw(r, "tasks")
	tasks := make([]dag.Task, n)
	for i := range tasks {
		t := task(fmt.Sprintf("t%d", i))
		for u := range i {
			if rapid.IntRange(0, 2).Draw(r, "edge") == 0 {
				t.Upstream = append(t.Upstream, fmt.Sprintf("t%d", u))
			}
		}
		t.TriggerRule = rapid.SampledFrom(dag.TriggerRules()).Draw(r, "rule")
		t.WeightRule = rapid.SampledFrom([]string{"downstream", "upstream", "absolute"}).Draw(r, "weight rule")
		t.PriorityWeight = rapid.IntRange(-3, 9).Draw(r, "weight")
		switch rapid.IntRange(0, 9).Draw(r, "kind") {
		case 0:
			t.IsSetup = true
		case 1:
			t.IsTeardown = true
			t.FailDagrunOnFail = rapid.Bool().Draw(r, "fails the run")
		case 2:
			t.Operator = "empty"
		case 3:
			if len(t.Upstream) > 0 {
				mappedOver(t.Upstream[0])(&t)
			}
		}
		tasks[i] = t
	}
	perm := rapid.Permutation(tasks).Draw(r, "order in the file")
	d := dagOf(perm...)
	d.FailFast = rapid.IntRange(0, 4).Draw(r, "fail_fast") == 0
	if rapid.IntRange(0, 2).Draw(r, "has a mapped group") == 0 {
		drawGroup(r, d)
	}
	return d
}

// drawGroup puts some plain tasks of a DAG into a mapped group, over a list or
// over what a task outside returns that no task of the group comes before: the
// loader makes such a source an upstream of the group's first tasks.
func drawGroup(r *rapid.T, d *dag.DAG) {
	expand := &dag.Expand{Names: []string{"x"}, Args: map[string]dag.ExpandSource{"x": {Literal: []any{"a"}}}}
	d.Groups = []dag.Group{{ID: "inner", ParentID: "g"}, {ID: "g", Expand: expand}}
	source := ""
	if rapid.Bool().Draw(r, "over a task") {
		for i := range d.Tasks { // a task without upstream comes after nothing
			if d.Task(d.Tasks[i].ID).Upstream == nil && source == "" {
				source = d.Tasks[i].ID
				expand.Args["x"] = dag.ExpandSource{XCom: source}
			}
		}
	}
	member := map[string]bool{}
	for i := range d.Tasks {
		t := &d.Tasks[i]
		if t.Expand != nil || t.ID == source || rapid.Bool().Draw(r, "outside") {
			continue
		}
		t.GroupID, member[t.ID] = rapid.SampledFrom([]string{"g", "inner"}).Draw(r, "group"), true
		if t.TriggerRule == dag.Always {
			t.TriggerRule = dag.AllDone
		}
	}
	for i := range d.Tasks {
		t := &d.Tasks[i]
		root := member[t.ID] && source != ""
		for _, u := range t.Upstream {
			root = root && !member[u] && u != source
		}
		if root {
			t.Upstream = append(t.Upstream, source)
			sort.Strings(t.Upstream)
		}
	}
}

// outcomeOf draws what an attempt in a worker comes to.
func outcomeOf(r *rapid.T) dag.State {
	return rapid.SampledFrom([]dag.State{
		dag.StateSuccess, dag.StateSuccess, dag.StateSuccess, dag.StateFailed, dag.StateSkipped, dag.StateUpForRetry,
	}).Draw(r, "outcome")
}

// work lets one ready instance come to its end and reports whether there was one.
func (w *world) work(t require.TestingT, r *rapid.T) bool {
	var ready []*dag.TaskInstance
	for i := range w.snap.Instances {
		if ti := &w.snap.Instances[i]; ti.State == dag.StateScheduled || ti.State == dag.StateRunning {
			ready = append(ready, ti)
		}
	}
	if len(ready) == 0 {
		return false
	}
	ti := rapid.SampledFrom(ready).Draw(r, "instance")
	if ti.State == dag.StateScheduled && rapid.Bool().Draw(r, "only start it") {
		ti.State = dag.StateRunning
		return true
	}
	ti.State = outcomeOf(r)
	if ti.State == dag.StateUpForRetry {
		if ti.TryNumber++; ti.TryNumber > 2 {
			ti.State = dag.StateFailed
		}
	}
	if ti.State == dag.StateSuccess && rapid.IntRange(0, 5).Draw(r, "branches") == 0 {
		for _, id := range dag.DirectDownstream(w.d, ti.TaskID) {
			if rapid.Bool().Draw(r, "skips") {
				ti.SkipTasks = append(ti.SkipTasks, id)
			}
		}
	}
	return true
}

// expandAll does what the scheduler does with Decision.Expand.
func (w *world) expandAll(r *rapid.T, ids []string) {
	for _, id := range ids {
		n := rapid.IntRange(0, 3).Draw(r, "length")
		if n == 0 {
			w.ti(id, -1).State = dag.StateSkipped
			continue
		}
		states := make([]dag.State, n)
		for i := range states {
			states[i] = dag.StateNone
		}
		w.expand(id, states...)
	}
}

// expandGroups does what the scheduler does with Decision.ExpandGroups.
func (w *world) expandGroups(r *rapid.T, ids []string) {
	for _, id := range ids {
		n := rapid.IntRange(0, 3).Draw(r, "length of the group")
		for _, member := range dag.TasksOfGroup(w.d, id) {
			open := false
			for _, ti := range w.snap.Instances {
				open = open || ti.TaskID == member && ti.MapIndex < 0 && ti.State == dag.StateNone
			}
			switch {
			case !open:
			case n == 0:
				w.ti(member, -1).State = dag.StateSkipped
			default:
				w.expand(member, make([]dag.State, n)...)
				for i := range n {
					w.ti(member, i).State = dag.StateNone
				}
			}
		}
	}
}

// TestEveryRunEnds drives random DAGs with random outcomes to the end and
// watches what must always hold on the way.
func TestEveryRunEnds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(drawDAG(r))
		for round := 0; ; round++ {
			if round > 500 {
				r.Fatalf("the run does not end: %v", w.snap.Instances)
			}
			before := finishedStates(w)
			checkStarts(r, w, w.decide())
			d := w.step(r)
			for key, s := range before {
				if now := stateOf(w, key); now != s {
					r.Fatalf("%v was %s and is %s without a clear", key, s, now)
				}
			}
			if d.State.Finished() {
				break
			}
			if again := w.decide(); len(again.Transitions) > 0 {
				r.Fatalf("not settled in one call: then %v", changes(again))
			}
			w.expandAll(r, d.Expand)
			w.expandGroups(r, d.ExpandGroups)
			if len(d.Expand)+len(d.ExpandGroups) == 0 && !w.work(r, r) {
				r.Fatalf("nothing moves in a run that goes on: %v", w.snap.Instances)
			}
		}
		if w.snap.Run.Reason == "all_tasks_deadlocked" {
			r.Fatalf("deadlock in a run that has all its instances: %v", w.snap.Instances)
		}
		checkRunState(r, w)
	})
}

type instanceID struct {
	task  string
	index int
}

func finishedStates(w *world) map[instanceID]dag.State {
	out := map[instanceID]dag.State{}
	for _, ti := range w.snap.Instances {
		if ti.State.Finished() {
			out[instanceID{ti.TaskID, ti.MapIndex}] = ti.State
		}
	}
	return out
}

func stateOf(w *world, id instanceID) dag.State { return w.ti(id.task, id.index).State }

// checkStarts holds what Evaluate starts or expands against the table of rules,
// over the states of the direct upstream instances after the decision.
func checkStarts(r *rapid.T, w *world, d dag.Decision) {
	after := map[string]map[dag.State]int{}
	total := map[string]int{}
	next := map[int64]dag.State{}
	alone := map[instanceID]dag.State{}
	for _, tr := range d.Transitions {
		next[tr.TaskInstanceID] = tr.To
	}
	for _, ti := range w.snap.Instances {
		s := ti.State
		if to, ok := next[ti.ID]; ok {
			s = to
		}
		alone[instanceID{ti.TaskID, ti.MapIndex}] = s
		if after[ti.TaskID] == nil {
			after[ti.TaskID] = map[dag.State]int{}
		}
		if s != dag.StateRemoved {
			after[ti.TaskID][s]++
			total[ti.TaskID]++
		}
	}
	check := func(id string, index int) {
		tk := w.d.Task(id)
		rule := tk.TriggerRule
		if tk.IsTeardown {
			rule = dag.AllDone // the setups' part has its own test
		}
		if len(tk.Upstream) == 0 {
			return
		}
		c := counts{}
		for _, u := range tk.Upstream {
			seen, n := after[u], total[u]
			if own, found := alone[instanceID{u, index}]; found && index >= 0 && sameMappedGroup(w.d, id, u) {
				seen, n = map[dag.State]int{own: 1}, 1
				if own == dag.StateRemoved {
					n = 0
				}
			}
			c.s += seen[dag.StateSuccess]
			c.k += seen[dag.StateSkipped]
			c.f += seen[dag.StateFailed]
			c.u += seen[dag.StateUpstreamFailed]
			c.n += n
		}
		if !ruleTable[rule].runs(c) {
			r.Fatalf("%s[%d] starts with %s over %+v", id, index, rule, c)
		}
	}
	for _, tr := range d.Transitions {
		if tr.From == dag.StateNone && (tr.To == dag.StateScheduled || tr.To == dag.StateSuccess) {
			check(tr.TaskID, tr.MapIndex)
		}
	}
	for _, id := range d.Expand {
		check(id, -1)
	}
}

func sameMappedGroup(d *dag.DAG, a, b string) bool {
	g := d.MappedGroup(d.Task(a))
	return g != nil && g == d.MappedGroup(d.Task(b))
}

// checkRunState says again what decides a run, over the finished snapshot.
func checkRunState(r *rapid.T, w *world) {
	forgiven := func(tk *dag.Task) bool { return tk.IsTeardown && !tk.FailDagrunOnFail }
	decides := map[string]bool{}
	for i := range w.d.Tasks {
		tk := &w.d.Tasks[i]
		decides[tk.ID] = !forgiven(tk)
		for _, below := range dag.DirectDownstream(w.d, tk.ID) {
			if !forgiven(w.d.Task(below)) {
				decides[tk.ID] = false
			}
		}
	}
	any := false
	for _, yes := range decides {
		any = any || yes
	}
	want := dag.RunSuccess
	for _, ti := range w.snap.Instances {
		if !ti.State.Finished() {
			r.Fatalf("%v is not finished in a run that is", ti)
		}
		leaf := decides[ti.TaskID]
		if !any {
			leaf = len(dag.DirectDownstream(w.d, ti.TaskID)) == 0
		}
		if leaf && ti.State.Failure() {
			want = dag.RunFailed
		}
	}
	if w.snap.Run.State != want {
		r.Fatalf("run is %s, want %s: %v", w.snap.Run.State, want, w.snap.Instances)
	}
}

// TestOrderDoesNotMatter: the same states give the same decision in whatever
// order tasks and instances are listed.
func TestOrderDoesNotMatter(t *testing.T) {
	t.Parallel()
	states := dag.States()
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(drawDAG(r))
		for i := range w.snap.Instances {
			w.snap.Instances[i].State = rapid.SampledFrom(states).Draw(r, "state")
		}
		first := w.decide()
		d2 := *w.d
		d2.Tasks = rapid.Permutation(w.d.Tasks).Draw(r, "tasks")
		s2 := w.snap
		s2.Instances = rapid.Permutation(w.snap.Instances).Draw(r, "instances")
		second := dag.Evaluate(&d2, &s2, noon)
		sort.Strings(first.Expand)
		sort.Strings(second.Expand)
		if fmt.Sprint(changes(first), first.Expand, first.ExpandGroups, first.State, first.Reason, first.NextAt) !=
			fmt.Sprint(changes(second), second.Expand, second.ExpandGroups, second.State, second.Reason, second.NextAt) {
			r.Fatalf("first %+v\nsecond %+v", first, second)
		}
	})
}

// TestWhateverTheStatesSayNothingImpossibleIsAsked feeds states that no run
// should be in, dates and limits that make no sense, and checks that every
// change stands in the table, once for each instance, and that the snapshot
// stays as it was.
func TestWhateverTheStatesSayNothingImpossibleIsAsked(t *testing.T) {
	t.Parallel()
	states := append(dag.States(), "", "no such state")
	rapid.Check(t, func(r *rapid.T) {
		d := drawDAG(r)
		d.DagrunTimeout = time.Duration(rapid.IntRange(-1, 2).Draw(r, "timeout")) * time.Minute
		w := newWorld(d)
		w.snap.Run.State = rapid.SampledFrom([]dag.RunState{dag.RunQueued, dag.RunRunning}).Draw(r, "run")
		for i := range w.snap.Instances {
			ti := &w.snap.Instances[i]
			ti.State = rapid.SampledFrom(states).Draw(r, "state")
			ti.MapIndex = rapid.IntRange(-1, 2).Draw(r, "index")
			ti.SkipTasks = rapid.SliceOfN(rapid.SampledFrom([]string{"t0", "t5", "x"}), 0, 2).Draw(r, "skips")
			if rapid.Bool().Draw(r, "due later") {
				at := noon.Add(time.Minute)
				ti.NextTryAt = &at
			}
			if rapid.IntRange(0, 9).Draw(r, "stranger") == 0 {
				ti.TaskID = "stranger"
			}
		}
		before := fmt.Sprintf("%+v", w.snap.Instances)
		dec := w.decide()
		if fmt.Sprintf("%+v", w.snap.Instances) != before {
			r.Fatal("the snapshot changed")
		}
		seen := map[int64]bool{}
		for _, tr := range dec.Transitions {
			if !dag.CanTransition(tr.From, tr.To) {
				r.Fatalf("%s -> %s is not in the table", tr.From, tr.To)
			}
			if seen[tr.TaskInstanceID] {
				r.Fatalf("two changes of one instance: %+v", dec.Transitions)
			}
			seen[tr.TaskInstanceID] = true
		}
		if !dec.NextAt.IsZero() && !dec.NextAt.After(noon) {
			r.Fatalf("NextAt %v is not ahead", dec.NextAt)
		}
	})
}

// bigDAG has n tasks with five upstream tasks each.
func bigDAG(n int) *dag.DAG {
	tasks := make([]dag.Task, n)
	for i := range tasks {
		tasks[i] = task(fmt.Sprintf("t%05d", i))
		for _, back := range []int{1, 2, 7, 100, 1000} {
			if i >= back {
				tasks[i].Upstream = append(tasks[i].Upstream, fmt.Sprintf("t%05d", i-back))
			}
		}
	}
	return dagOf(tasks...)
}

func TestLargeRunSettlesInOneCall(t *testing.T) {
	t.Parallel()
	const n = 10_000
	w := newWorld(bigDAG(n)).set(map[string]dag.State{"t00000": dag.StateFailed})
	d := w.decide()
	require.Len(t, d.Transitions, n-1)
	require.Equal(t, dag.RunFailed, d.State)
}

func BenchmarkEvaluateTasks(b *testing.B) {
	w := newWorld(bigDAG(10_000))
	for i := range w.snap.Instances[:9000] {
		w.snap.Instances[i].State = dag.StateSuccess
	}
	g := dag.NewGraph(w.d)
	for b.Loop() {
		g.Evaluate(&w.snap, noon)
	}
}

func BenchmarkEvaluateMapped(b *testing.B) {
	w := newWorld(dagOf(task("a", mappedLiteral()), task("b", after("a"), mappedOver("a")), task("c", after("b"))))
	done := make([]dag.State, 10_000)
	for i := range done {
		done[i] = dag.StateSuccess
	}
	w.expand("a", done...)
	none := make([]dag.State, 10_000)
	for i := range none {
		none[i] = dag.StateNone
	}
	w.expand("b", none...)
	g := dag.NewGraph(w.d)
	for b.Loop() {
		g.Evaluate(&w.snap, noon)
	}
}

func BenchmarkNewGraph(b *testing.B) {
	d := bigDAG(10_000)
	for b.Loop() {
		dag.NewGraph(d)
	}
}

func BenchmarkEffectivePriority(b *testing.B) {
	g := dag.NewGraph(bigDAG(10_000))
	for b.Loop() {
		g.EffectivePriority()
	}
}
