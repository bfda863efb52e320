package dag

import (
	"slices"
	"time"
)

// pastPoll is how long a run whose tasks wait for the previous run may go
// without being looked at, should nothing wake it before.
const pastPoll = 10 * time.Second

// Evaluate decides what is to happen to a run at an instant. It is
// Graph.Evaluate for callers that do not keep a Graph.
func Evaluate(d *DAG, s *RunSnapshot, now time.Time) Decision {
	return NewGraph(d).Evaluate(s, now)
}

// Evaluate decides what is to happen to a run at an instant: which instances
// become ready, skipped, upstream_failed, removed or (empty tasks) succeed,
// which mapped tasks are to be expanded, and whether the run has ended. It is
// pure, does not change the snapshot, and settles in one call: a chain of
// skips comes back as a whole. Its cost is linear in tasks, edges and
// instances.
//
// A run in state queued is looked at as if it were running: when it may start
// is the caller's to decide. A run that has ended gets no decision. Instances
// that are queued or running are left alone unless the run timed out.
//
// A task whose instance is missing from the snapshot counts as unfinished. An
// instance of a task that the DAG no longer has is removed if it has not
// begun. The instances of a mapped group with one map index see each other and
// not the rest of their group.
func (g *Graph) Evaluate(s *RunSnapshot, now time.Time) Decision {
	if s.Run.State.Finished() {
		return Decision{State: s.Run.State, Reason: s.Run.Reason}
	}
	e := newEvaluation(g, s, now)
	if e.timedOut() {
		return e.timeOut()
	}
	e.removeUnknown()
	for _, task := range g.order {
		e.task(task)
	}
	e.wakeBlockedRetries()
	return e.finish()
}

// evaluation is the work of one Evaluate call. Instances are named by their
// position in the snapshot, tasks by their position in the DAG.
type evaluation struct {
	g   *Graph
	s   *RunSnapshot
	now time.Time

	state   []State // of each instance, with this call's changes
	byTask  [][]int
	unknown []int // instances whose task the DAG does not have
	tallies []tally
	byIndex []map[int]int   // instances by map index, of the tasks in mapped groups
	broken  map[string]bool // mapped groups that could not be expanded
	skips   skipIndex
	// failFast is set when the DAG stops at the first failure and has one.
	failFast bool

	out Decision
	// held counts instances that only depends_on_past keeps from starting.
	held int
	// blocked lists retries that are due but wait for an upstream that was
	// cleared meanwhile.
	blocked []int
}

func newEvaluation(g *Graph, s *RunSnapshot, now time.Time) *evaluation {
	e := &evaluation{
		g: g, s: s, now: now,
		state: make([]State, len(s.Instances)), byTask: make([][]int, len(g.dag.Tasks)),
		tallies: make([]tally, len(g.dag.Tasks)),
		out:     Decision{State: RunRunning},
	}
	for task := range e.tallies {
		e.tallies[task] = tally{total: 1} // not decided yet: on a cycle it stays so
	}
	tasks := e.sortByTask()
	for i := range s.Instances {
		ti := &s.Instances[i]
		e.state[i] = ti.State
		if ti.State == "" {
			e.state[i] = StateNone
		}
		task := tasks[i]
		if task < 0 {
			e.unknown = append(e.unknown, i)
			continue
		}
		if group := g.group[task]; group != "" && ti.MapIndex < 0 && ti.State == StateFailed {
			if e.broken == nil {
				e.broken = map[string]bool{}
			}
			e.broken[group] = true
		}
		if g.dag.FailFast && ti.State == StateFailed && !ignorable(&g.dag.Tasks[task]) {
			e.failFast = true
		}
	}
	e.skips = indexSkips(g, s, e.byTask)
	return e
}

// sortByTask fills byTask, and gives the task of each instance, -1 for one that
// the DAG does not have.
func (e *evaluation) sortByTask() []int32 {
	tasks := make([]int32, len(e.s.Instances))
	counts := make([]int32, len(e.byTask))
	for i := range e.s.Instances {
		task, ok := e.g.index[e.s.Instances[i].TaskID]
		if tasks[i] = int32(task); !ok {
			tasks[i] = -1
			continue
		}
		counts[task]++
	}
	places := make([]int, len(e.s.Instances)) // of all tasks, one after the other
	for task, n := range counts {
		e.byTask[task], places = places[:0:n], places[n:]
	}
	for i, task := range tasks {
		if task >= 0 {
			e.byTask[task] = append(e.byTask[task], i)
		}
	}
	return tasks
}

// set asks for a change of an instance.
func (e *evaluation) set(i int, to State, reason string) {
	ti := &e.s.Instances[i]
	e.out.Transitions = append(e.out.Transitions, Transition{
		TaskInstanceID: ti.ID, TaskID: ti.TaskID, MapIndex: ti.MapIndex,
		From: e.state[i], To: to, Reason: reason,
	})
	e.state[i] = to
}

// lookAgain moves NextAt forward to an instant that is still ahead.
func (e *evaluation) lookAgain(at time.Time) {
	if at.After(e.now) && (e.out.NextAt.IsZero() || at.Before(e.out.NextAt)) {
		e.out.NextAt = at
	}
}

func (e *evaluation) removeUnknown() {
	for _, i := range e.unknown {
		switch e.state[i] {
		case StateNone:
			e.set(i, StateRemoved, "the DAG no longer has this task")
		case StateUpForRetry, StateUpForReschedule:
			// The worker finds that there is nothing to run and seals it.
			e.retry(i, verdictRun)
		default: // finished, or in the hands of a worker
		}
	}
}

// task decides for all instances of one task, whose upstream tasks are decided.
func (e *evaluation) task(task int) {
	instances := e.byTask[task]
	if len(instances) == 0 {
		return // counts as one that has not ended
	}
	if !slices.ContainsFunc(instances, e.open) {
		e.indexInstances(task)
		e.tallies[task] = e.sum(instances)
		return
	}
	t := &e.g.dag.Tasks[task]
	if !takesPart(e.g.dag, t, &e.s.Run) {
		for _, i := range instances {
			if e.state[i] == StateNone {
				e.set(i, StateRemoved, "the run is outside the task's start and end dates")
			}
		}
	}
	e.indexInstances(task)
	verdict := e.verdicts(task)
	for _, i := range instances {
		index := e.s.Instances[i].MapIndex
		v, why := verdict(index)
		if index < 0 && e.g.mapped(task) {
			v, why = e.withSources(task, v, why)
		}
		e.instance(task, i, v, why)
	}
	e.tallies[task] = e.sum(instances)
}

func (e *evaluation) sum(instances []int) (sum tally) {
	for _, i := range instances {
		sum.count(e.state[i])
	}
	return sum
}

// open tells whether there is anything to decide about an instance. In a run of
// many tasks most have ended, or are in the hands of a worker.
func (e *evaluation) open(i int) bool {
	switch e.state[i] {
	case StateNone, StateUpForRetry, StateUpForReschedule:
		return true
	case StateScheduled, StateQueued:
		return e.failFast || e.skips.whole != nil
	default:
		return false
	}
}

func (e *evaluation) instance(task, i int, v verdict, why string) {
	t := &e.g.dag.Tasks[task]
	stopped := e.failFast && !t.IsTeardown
	switch e.state[i] {
	case StateNone:
		switch {
		case e.skipped(task, i):
			e.set(i, StateSkipped, "a branch or short circuit skips it")
		case v == verdictSkip:
			e.set(i, StateSkipped, why)
		case v == verdictUpstreamFailed:
			e.set(i, StateUpstreamFailed, why)
		case stopped:
			e.set(i, StateSkipped, "fail_fast: another task failed")
		case e.g.group[task] != "" && e.s.Instances[i].MapIndex < 0:
			e.expandGroup(e.g.group[task])
		case v == verdictRun && e.beyondSource(task, i):
			e.set(i, StateRemoved, "its upstream made fewer values")
		case v == verdictRun:
			e.start(task, i, why)
		default: // wait
		}
	case StateScheduled, StateQueued:
		begun := e.s.Instances[i].NextTryAt != nil // back from its wait, and not claimed yet
		switch {
		case e.skipped(task, i) && !begun:
			e.set(i, StateSkipped, "a branch or short circuit skips it")
		case stopped:
			e.set(i, StateSkipped, "fail_fast: another task failed")
		}
	case StateUpForRetry, StateUpForReschedule:
		if stopped {
			e.set(i, StateSkipped, "fail_fast: another task failed")
			return
		}
		e.retry(i, v)
	default: // finished, or in the hands of a worker
	}
}

// verdicts gives the trigger rule's answer for the instances of a task, by map
// index, with the condition that setups above it succeeded. Only in a mapped
// group does it depend on the index.
func (e *evaluation) verdicts(task int) func(mapIndex int) (verdict, string) {
	if len(e.g.up[task]) == 0 || e.g.rules[task] == Always {
		return func(int) (verdict, string) { return verdictRun, "nothing to wait for" }
	}
	var outer view
	for _, u := range e.g.outer[task] {
		outer.add(&e.g.dag.Tasks[u], e.tallies[u])
	}
	inside := len(e.g.inner[task]) > 0
	further := func(into *view, own bool, count func(other int) tally) {
		for _, s := range e.g.scopes[task] {
			if e.g.sameGroup(task, s) == own {
				into.above.add(count(s))
			}
		}
		for _, b := range e.g.between[task] {
			if e.g.sameGroup(task, b) == own {
				into.between.add(count(b))
			}
		}
	}
	further(&outer, false, func(other int) tally { return e.tallies[other] })
	for _, list := range [][]int{e.g.scopes[task], e.g.between[task]} {
		inside = inside || slices.ContainsFunc(list, func(other int) bool { return e.g.sameGroup(task, other) })
	}
	if !inside {
		v, why := e.judge(task, outer)
		return func(int) (verdict, string) { return v, why }
	}
	return func(mapIndex int) (verdict, string) {
		seen := outer
		own := func(other int) tally { return e.tallyFor(other, mapIndex) }
		for _, u := range e.g.inner[task] {
			seen.add(&e.g.dag.Tasks[u], own(u))
		}
		further(&seen, true, own)
		return e.judge(task, seen)
	}
}

// view is what decides about a task: the direct upstream tasks, the setups among
// them, the setups further above, and for a teardown the work before it.
type view struct{ up, setups, above, between tally }

func (v *view) add(t *Task, n tally) {
	v.up.add(n)
	if t.IsSetup {
		v.setups.add(n)
	}
}

func (e *evaluation) judge(task int, seen view) (verdict, string) {
	if len(e.g.scopes[task]) > 0 {
		if v := judge(AllSuccess, seen.above, tally{}); v != verdictRun {
			return v, "a setup above it did not succeed"
		}
	}
	rule := e.g.rules[task]
	v := judge(rule, seen.up, seen.setups)
	if v == verdictRun && !seen.between.done() {
		return verdictWait, "work between its setup and it has not ended"
	}
	return v, "trigger rule " + string(rule)
}

// start makes a ready instance scheduled, or whatever it has instead.
func (e *evaluation) start(task, i int, why string) {
	t := &e.g.dag.Tasks[task]
	if !pastAllows(e.g, task, e.s.Past) {
		e.held++
		e.lookAgain(e.now.Add(pastPoll))
		return
	}
	if t.Mapped() && e.s.Instances[i].MapIndex < 0 {
		if e.sourcesDone(task) {
			e.out.Expand = append(e.out.Expand, t.ID)
		}
		return
	}
	if t.Operator == "empty" && len(t.Callbacks.OnExecute) == 0 && len(t.Callbacks.OnSuccess) == 0 {
		e.set(i, StateSuccess, "an empty task needs no worker")
		return
	}
	e.set(i, StateScheduled, why)
}

// sourcesDone tells whether all that a mapped task's values may come from has
// ended: its upstream tasks, also when its rule would let it start earlier.
// Values that the file gives are there from the start.
func (e *evaluation) sourcesDone(task int) bool {
	if e.g.dag.Tasks[task].Expand.literal() {
		return true
	}
	return e.allDone(e.g.up[task]) && e.allDone(e.g.sources[task])
}

func (e *evaluation) allDone(tasks []int) bool {
	for _, t := range tasks {
		if !e.tallies[t].done() {
			return false
		}
	}
	return true
}

// beyondSource tells whether a mapped instance has lost its value: an earlier
// expansion made it, and the one mapped task that it takes its values from has
// since lost instances.
func (e *evaluation) beyondSource(task, i int) bool {
	index := e.s.Instances[i].MapIndex
	if index < 0 || e.g.rules[task] != AllSuccess || len(e.g.sources[task]) != 1 {
		return false
	}
	source := e.tallies[e.g.sources[task][0]]
	return source.removed > 0 && source.success > 0 && index >= source.success
}

// retry makes a waiting instance scheduled when it is due. It has begun, so
// only its own outcome ends it: a rule that has turned against it since does
// not, but an upstream that runs again is waited for.
func (e *evaluation) retry(i int, v verdict) {
	if at := e.s.Instances[i].NextTryAt; at != nil && at.After(e.now) {
		e.lookAgain(*at)
		return
	}
	if v == verdictWait {
		e.blocked = append(e.blocked, i)
		return
	}
	e.set(i, StateScheduled, "due")
}

// wakeBlockedRetries lets retries go that wait for upstream tasks which will
// never run: nothing else could end them.
func (e *evaluation) wakeBlockedRetries() {
	if len(e.blocked) == 0 || e.progressing(len(e.blocked)) {
		return
	}
	for _, i := range e.blocked {
		e.set(i, StateScheduled, "due, and what it waits for does not move")
	}
	e.blocked = nil
}

// progressing tells whether something in the run will move by itself; idle is
// the number of waiting instances that are known not to.
func (e *evaluation) progressing(idle int) bool {
	if len(e.out.Expand)+len(e.out.ExpandGroups) > 0 || e.held > 0 {
		return true
	}
	active := 0
	for _, s := range e.state {
		if s != StateNone && !s.Finished() {
			active++
		}
	}
	return active > idle
}
