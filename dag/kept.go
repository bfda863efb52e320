package dag

import (
	"cmp"
	"container/heap"
	"slices"
	"time"
)

// Kept is what an evaluation of a run leaves for the next one, so that the end of
// a few tasks in a run of thousands looks at what follows from them and not at
// the whole run. The zero Kept holds nothing: with it Evaluate looks at all.
//
// Who hands it to Evaluate again in a snapshot promises that the last decision
// was carried out and that the run and its instances are what they were then,
// each at its place, but for those instances that Changed has named. That what
// was scheduled has been queued or claimed need not be named. The decision is that of a look at the whole. It is looked at
// whole again, too, where what has changed reaches further than the tasks below:
// at the end of the run, where branches skip tasks, where mapped tasks are to be
// expanded, when a DAG that stops at the first failure has one, and where tasks
// look at an earlier run.
//
// It belongs to one run and is not safe for concurrent use. A decision that is
// not carried out spoils it.
type Kept struct {
	e       *evaluation // the state of the run as it was decided; nil for none
	changed []int
	steps   int

	// views are what the verdicts look at outside of mapped groups, made of the
	// tallies in counted, which fall behind those of the evaluation while a task is
	// looked at.
	views   []view
	counted []tally
	none    []int32 // of each task, how many instances have not begun
	active  int     // instances that have begun and not ended
	// apart marks tasks whose instances are not decided alike, or one of which is
	// not expanded: they are always looked at one by one.
	apart []bool
	// paired marks mapped groups all of whose tasks have the same map indexes.
	paired map[string]bool

	place   []int // of each task in the order of decisions
	open    []todo
	next    placeHeap // tasks to look at
	waiting dueHeap
}

// todo is what is to be looked at of a task.
type todo struct {
	queued bool  // there is something
	all    bool  // its instances that have not begun
	some   []int // and these
}

// Changed tells that an instance, named by its place in the snapshot, is not
// what the last evaluation saw or decided.
func (k *Kept) Changed(place int) {
	if k != nil && k.e != nil {
		k.changed = append(k.changed, place)
	}
}

// Steps counts the evaluations that went on from an earlier one.
func (k *Kept) Steps() int { return k.steps }

func (k *Kept) forget() { *k = Kept{steps: k.steps} }

// keep keeps an evaluation that looked at the whole run, if the next can go on
// from it.
func (k *Kept) keep(e *evaluation, d Decision) {
	if k == nil {
		return
	}
	k.forget()
	if d.State.Finished() || len(d.Expand)+len(d.ExpandGroups)+len(e.unknown)+len(e.blocked)+e.held > 0 ||
		e.failFast || e.broken != nil || e.skips.voted || e.s.Past != nil || !e.g.forward {
		return
	}
	n := len(e.g.dag.Tasks)
	k.views, k.counted, k.none = make([]view, n), slices.Clone(e.tallies), make([]int32, n)
	k.apart, k.place, k.open = make([]bool, n), make([]int, n), make([]todo, n)
	for task := range k.views {
		k.views[task] = e.view(task)
		r := &e.g.inner[task]
		k.apart[task] = len(r.up)+len(r.scopes)+len(r.between) > 0
	}
	for at, task := range e.g.order {
		k.place[task] = at
	}
	for i, task := range e.tasks {
		switch s := e.state[i]; {
		case s == StateNone:
			k.none[task]++
			k.apart[task] = k.apart[task] || e.s.Instances[i].MapIndex < 0 && e.g.mapped(int(task))
		case !s.Finished():
			k.active++
		}
		k.wait(e, i)
	}
	k.pair(e)
	e.kept, k.e = k, e
}

// pair finds the mapped groups whose tasks have the same instances, so that one
// instance of a task looks at one of each other.
func (k *Kept) pair(e *evaluation) {
	first := map[string]int{}
	for task, group := range e.g.group {
		if group == "" {
			continue
		}
		if e.byIndex == nil || e.byIndex[task] == nil {
			e.indexInstances(task)
		}
		own := e.byIndex[task]
		one, seen := first[group]
		if !seen {
			if k.paired == nil {
				k.paired = map[string]bool{}
			}
			first[group], one, k.paired[group] = task, task, true
		}
		same := len(own) == len(e.byTask[task]) && len(own) == len(e.byIndex[one])
		for index := range own {
			if !same {
				break
			}
			_, same = e.byIndex[one][index]
		}
		k.paired[group] = k.paired[group] && same
	}
}

// goOn decides by what has changed since the evaluation that is kept. It reports
// false when the whole run is to be looked at.
func (k *Kept) goOn(g *Graph, s *RunSnapshot, now time.Time) (Decision, bool) {
	if k == nil || k.e == nil {
		return Decision{}, false
	}
	e, changed := k.e, k.changed
	k.changed, k.e = changed[:0], nil // until the decision is made
	if e.g != g || e.s.Run.ID != s.Run.ID || len(e.state) != len(s.Instances) || s.Past != nil {
		return Decision{}, false
	}
	e.s, e.now, e.out = s, now, Decision{State: RunRunning}
	deadline, limited := e.deadline()
	if limited && !deadline.After(now) {
		return Decision{}, false
	}
	k.e = e
	for _, i := range changed {
		if !k.take(i) {
			k.e = nil
			return Decision{}, false
		}
	}
	for len(k.waiting) > 0 && !k.waiting[0].at.After(now) {
		if due := heap.Pop(&k.waiting).(waiter); k.waits(due) {
			k.look(int(e.tasks[due.instance]), due.instance)
		}
	}
	for len(k.next) > 0 {
		k.task(heap.Pop(&k.next).(placed).task)
	}
	if k.active == 0 || len(e.out.Expand)+len(e.out.ExpandGroups)+len(e.blocked)+e.held > 0 {
		k.e = nil
		return Decision{}, false
	}
	for len(k.waiting) > 0 && !k.waits(k.waiting[0]) {
		heap.Pop(&k.waiting)
	}
	if len(k.waiting) > 0 {
		e.lookAgain(k.waiting[0].at)
	}
	if limited {
		e.lookAgain(deadline)
	}
	k.steps++
	return e.out, true
}

// take brings an instance up to the snapshot, and reports false when that can
// change more than what the tasks below it come to.
func (k *Kept) take(i int) bool {
	e := k.e
	ti := &e.s.Instances[i]
	to, task := ti.State, int(e.tasks[i])
	if to == "" {
		to = StateNone
	}
	switch {
	case len(ti.SkipTasks) > 0:
		return false
	case to == StateNone && e.state[i] != StateNone:
		return false
	case to == StateFailed && (e.g.dag.FailFast || e.g.group[task] != "" && ti.MapIndex < 0):
		return false
	}
	k.shift(i, to)
	e.state[i] = to
	k.wait(e, i)
	if e.open(i) {
		k.look(task, i)
	}
	return true
}

// shift counts an instance in its next state, before it has it.
func (k *Kept) shift(i int, to State) {
	e := k.e
	from, task := e.state[i], int(e.tasks[i])
	if from == to {
		return
	}
	if from == StateNone {
		k.none[task]--
	} else if !from.Finished() {
		k.active--
	}
	if to == StateNone {
		k.none[task]++
	} else if !to.Finished() {
		k.active++
	}
	if !from.Finished() && !to.Finished() {
		return
	}
	e.tallies[task].countN(from, -1)
	e.tallies[task].countN(to, 1)
	k.push(task)
	group, index := e.g.group[task], e.s.Instances[i].MapIndex
	for _, reader := range e.g.readers[task].inner {
		if own, found := e.byIndex[reader][index]; found && k.paired[group] {
			k.look(reader, own)
		} else {
			k.lookAtAll(reader)
		}
	}
}

// task decides for what is to be looked at of a task, and counts it for those
// that look at it.
func (k *Kept) task(task int) {
	e := k.e
	do := k.open[task]
	k.open[task] = todo{some: do.some[:0]}
	all := do.all && k.none[task] > 0
	if all || len(do.some) > 0 {
		verdict := e.verdicts(task)
		if all && !k.apart[task] {
			v, _ := verdict(-1)
			all = v != verdictWait // nothing comes of waiting
		}
		list := e.byTask[task]
		if !all {
			slices.Sort(do.some)
			list = slices.Compact(do.some)
		}
		for _, i := range list {
			e.judged(task, i, verdict)
		}
	}
	now := e.tallies[task]
	if now == k.counted[task] {
		return
	}
	change := now
	change.addN(k.counted[task], -1)
	k.counted[task] = now
	r := &e.g.readers[task]
	for _, below := range r.below {
		k.views[below].add(&e.g.dag.Tasks[task], change)
		k.lookAtAll(below)
	}
	for _, reader := range r.scopes {
		k.views[reader].above.add(change)
		k.lookAtAll(reader)
	}
	for _, reader := range r.between {
		k.views[reader].between.add(change)
		k.lookAtAll(reader)
	}
	for _, reader := range r.values {
		k.lookAtAll(reader)
	}
}

// look has an instance looked at, and lookAtAll all instances of a task that
// have not begun.
func (k *Kept) look(task, i int) {
	k.open[task].some = append(k.open[task].some, i)
	k.push(task)
}

func (k *Kept) lookAtAll(task int) {
	if k.none[task] > 0 {
		k.open[task].all = true
		k.push(task)
	}
}

func (k *Kept) push(task int) {
	if !k.open[task].queued {
		k.open[task].queued = true
		heap.Push(&k.next, placed{k.place[task], task})
	}
}

// wait notes when an instance that waits is due.
func (k *Kept) wait(e *evaluation, i int) {
	if at := e.s.Instances[i].NextTryAt; at != nil && waits(e.state[i]) && at.After(e.now) {
		heap.Push(&k.waiting, waiter{*at, i})
	}
}

// waits tells whether an instance waits still for what was noted.
func (k *Kept) waits(w waiter) bool {
	at := k.e.s.Instances[w.instance].NextTryAt
	return waits(k.e.state[w.instance]) && at != nil && at.Equal(w.at)
}

func waits(s State) bool { return s == StateUpForRetry || s == StateUpForReschedule }

// placed is a task and its place in the order of decisions.
type placed struct{ place, task int }

type placeHeap []placed

func (h placeHeap) Len() int           { return len(h) }
func (h placeHeap) Less(a, b int) bool { return h[a].place < h[b].place }
func (h placeHeap) Swap(a, b int)      { h[a], h[b] = h[b], h[a] }
func (h *placeHeap) Push(x any)        { *h = append(*h, x.(placed)) }
func (h *placeHeap) Pop() any          { return pop(h) }

// waiter is an instance that waits, and until when.
type waiter struct {
	at       time.Time
	instance int
}

type dueHeap []waiter

func (h dueHeap) Len() int { return len(h) }
func (h dueHeap) Less(a, b int) bool {
	return cmp.Or(h[a].at.Compare(h[b].at), cmp.Compare(h[a].instance, h[b].instance)) < 0
}
func (h dueHeap) Swap(a, b int) { h[a], h[b] = h[b], h[a] }
func (h *dueHeap) Push(x any)   { *h = append(*h, x.(waiter)) }
func (h *dueHeap) Pop() any     { return pop(h) }

func pop[H ~[]E, E any](h *H) any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
