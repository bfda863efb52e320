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
// instances; with what an earlier call left in the snapshot's Kept, in what has
// changed since and what follows from it. The decision is the same.
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
	if d, ok := s.Kept.goOn(g, s, now); ok {
		return d
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
	d := e.finish()
	s.Kept.keep(e, d)
	return d
}

// evaluation is the work of one Evaluate call. Instances are named by their
// position in the snapshot, tasks by their position in the DAG.
type evaluation struct {
	g   *Graph
	s   *RunSnapshot
	now time.Time

	state   []State // of each instance, with this call's changes
	tasks   []int32 // of each instance, -1 for one that the DAG does not have
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
	// kept is set when the evaluation goes on from an earlier one.
	kept *Kept
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
	e.sortByTask()
	for i := range s.Instances {
		ti := &s.Instances[i]
		e.state[i] = ti.State
		if ti.State == "" {
			e.state[i] = StateNone
		}
		task := e.tasks[i]
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

// sortByTask fills tasks and byTask.
func (e *evaluation) sortByTask() {
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
	e.tasks = tasks
}

// set asks for a change of an instance.
func (e *evaluation) set(i int, to State, reason string) {
	ti := &e.s.Instances[i]
	e.out.Transitions = append(e.out.Transitions, Transition{
		TaskInstanceID: ti.ID, TaskID: ti.TaskID, MapIndex: ti.MapIndex,
		From: e.state[i], To: to, Reason: reason,
	})
	if e.kept != nil {
		e.kept.shift(i, to)
	}
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
		e.judged(task, i, verdict)
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
