package load

import (
	"container/heap"
	"slices"
	"sort"
	"strings"

	"github.com/airlock-dag/airlock/dag"
)

// dep is one name under dependencies, or one that expand implies.
type dep struct {
	at   *node
	path string
	name string
	to   item
}

// item is a task or a group: what a dependency can name.
type item struct {
	t *taskDraft
	g *groupDraft
}

// inside tells whether the item stands in a group or below it.
func (x item) inside(g *groupDraft) bool {
	if x.t != nil {
		return x.t.group.within(g)
	}
	return x.g != g && x.g.within(g)
}

// readDeps reads the key dependencies of a task or group.
func (b *builder) readDeps(body *node, path string) []dep {
	n := body.get("dependencies")
	if n.null() {
		return nil
	}
	path = join(path, "dependencies")
	items := []*node{n}
	if n.kind == listNode {
		items = n.items
	}
	var out []dep
	for i, x := range items {
		p := path
		if n.kind == listNode {
			p = index(path, i)
		}
		if x.kind != scalarNode || x.null() {
			b.rep.err(x, p, codeWrongType, "dependencies must be a list of task and group names, not "+describe(x), "")
			continue
		}
		out = append(out, dep{at: x, path: p, name: x.text})
	}
	return out
}

func (b *builder) taskNames() []string {
	out := make([]string, len(b.tasks))
	for i, t := range b.tasks {
		out[i] = t.name
	}
	return out
}

// link turns dependencies on tasks and groups into edges between tasks, checks
// them and orders the tasks.
func (b *builder) link() {
	find := func(d *dep) bool {
		switch {
		case b.byID[d.name] != nil:
			d.to.t = b.byID[d.name]
		case b.byName[d.name] != nil:
			d.to.g = b.byName[d.name]
		case b.groupIDs[d.name] != nil:
			d.to.g = b.groupIDs[d.name]
		default:
			b.rep.err(d.at, d.path, codeUnknownDep, "there is no task or group "+quote(d.name), b.rep.didYouMeanOf(d.name, func() []string { return append(b.taskNames(), b.groupNames()...) }))
			return false
		}
		return true
	}
	for _, t := range b.tasks {
		t.deps = resolved(t.deps, find)
	}
	for _, g := range b.groups {
		g.deps = resolved(g.deps, find)
	}
	b.checkOwnGroup()
	for _, t := range b.tasks {
		b.connect([]*taskDraft{t}, t.deps)
	}
	for _, g := range b.groups {
		if len(g.deps) > 0 {
			b.connect(b.roots(g), g.deps)
		}
		if len(g.all()) == 0 {
			b.rep.warn(g.key, g.path, codeEmptyGroup, "the task group has no tasks", "tasks join with task_group_name: "+g.name)
		}
	}
	b.finishTasks()
}

func resolved(deps []dep, find func(*dep) bool) []dep {
	out := deps[:0]
	for i := range deps {
		if find(&deps[i]) {
			out = append(out, deps[i])
		}
	}
	return out
}

// checkOwnGroup refuses dependencies between a group and what it holds.
func (b *builder) checkOwnGroup() {
	check := func(x item, name string, deps []dep) []dep {
		out := deps[:0]
		for _, d := range deps {
			if d.to.g != nil && (x.inside(d.to.g) || x.g == d.to.g) || x.g != nil && d.to.inside(x.g) {
				b.rep.err(d.at, d.path, codeCycle, "cycle: "+name+" and "+d.name+" cannot wait for each other, as one holds the other", "")
				continue
			}
			out = append(out, d)
		}
		return out
	}
	for _, t := range b.tasks {
		t.deps = check(item{t: t}, t.name, t.deps)
	}
	for _, g := range b.groups {
		g.deps = check(item{g: g}, g.name, g.deps)
	}
}

// maxEdges bounds the dependencies between the tasks of one DAG.
const maxEdges = 1_000_000

// connect makes edges from the last tasks of each dependency to some tasks.
func (b *builder) connect(to []*taskDraft, deps []dep) {
	for _, d := range deps {
		from := []*taskDraft{d.to.t}
		if g := d.to.g; g != nil {
			if g.last == nil {
				g.last = b.leaves(g)
			}
			if from = g.last; len(from) == 0 {
				b.rep.err(d.at, d.path, codeEmptyGroup, "the task group "+quote(d.name)+" has no tasks to wait for", "")
			}
		}
		if b.edges += len(from) * len(to); b.edges > maxEdges {
			b.rep.err(b.key, b.path, codeTooLarge, "the dependencies of the DAG's groups make more than "+count(maxEdges)+" between its tasks", "put an empty task between the groups")
			return
		}
		for _, t := range to {
			for _, f := range from {
				t.up[f] = true
			}
		}
	}
}

// all lists the tasks of a group and the groups below it.
func (g *groupDraft) all() []*taskDraft {
	out := append([]*taskDraft(nil), g.tasks...)
	for _, child := range g.groups {
		out = append(out, child.all()...)
	}
	return out
}

// roots are the tasks of a group that wait for nothing inside it.
func (b *builder) roots(g *groupDraft) []*taskDraft {
	var out []*taskDraft
	for _, t := range g.all() {
		inner := waitsInside(t.deps, g)
		for p := t.group; p != nil && p != g; p = p.parent {
			inner = inner || waitsInside(p.deps, g)
		}
		if !inner {
			out = append(out, t)
		}
	}
	return out
}

func waitsInside(deps []dep, g *groupDraft) bool {
	for _, d := range deps {
		if d.to.inside(g) {
			return true
		}
	}
	return false
}

// leaves are the tasks of a group that nothing inside it waits for. Teardowns
// do not count, unless there is nothing else: whoever waits for a group does
// not wait for its clean-up.
func (b *builder) leaves(g *groupDraft) []*taskDraft {
	all := g.all()
	waited := map[*taskDraft]bool{}
	mark := func(deps []dep) {
		for _, d := range deps {
			if !d.to.inside(g) {
				continue
			}
			if d.to.t != nil {
				waited[d.to.t] = true
				continue
			}
			for _, t := range d.to.g.all() {
				waited[t] = true
			}
		}
	}
	for _, t := range all {
		if !t.task.IsTeardown {
			mark(t.deps)
		}
		for p := t.group; p != nil && p != g; p = p.parent {
			mark(p.deps)
		}
	}
	var out, teardowns []*taskDraft
	for _, t := range all {
		switch {
		case waited[t]:
		case t.task.IsTeardown:
			teardowns = append(teardowns, t)
		default:
			out = append(out, t)
		}
	}
	if len(out) == 0 {
		return teardowns
	}
	return out
}

// finishTasks reports cycles, and orders the tasks: each after all that it
// waits for, ties by place in the file.
func (b *builder) finishTasks() {
	down := map[*taskDraft][]*taskDraft{}
	waits := map[*taskDraft]int{}
	for _, t := range b.tasks {
		waits[t] = len(t.up)
		for u := range t.up {
			down[u] = append(down[u], t)
		}
	}
	for _, list := range down {
		sort.Slice(list, func(i, j int) bool { return list[i].order < list[j].order })
	}
	free := &byOrder{}
	for _, t := range b.tasks {
		if waits[t] == 0 {
			heap.Push(free, t)
		}
	}
	done := map[*taskDraft]bool{}
	for free.Len() > 0 {
		t := heap.Pop(free).(*taskDraft) //nolint:forcetypeassert // the heap holds nothing else
		done[t] = true
		b.finishTask(t)
		for _, next := range down[t] {
			if waits[next]--; waits[next] == 0 {
				heap.Push(free, next)
			}
		}
	}
	if len(done) < len(b.tasks) {
		b.reportCycles(down, done)
	}
}

func (b *builder) finishTask(t *taskDraft) {
	for u := range t.up {
		t.task.Upstream = append(t.task.Upstream, u.task.ID)
		if u.task.IsSetup && !t.task.IsTeardown && t.task.TriggerRule != dag.AllSuccess {
			b.rep.err(t.at("trigger_rule"), t.sub("trigger_rule"), codeTriggerRule,
				"a task directly after a setup must have the trigger rule all_success, not "+string(t.task.TriggerRule), "")
		}
	}
	sort.Strings(t.task.Upstream)
	if len(t.task.Args) == 0 {
		t.task.Args = nil
	}
	b.d.Tasks = append(b.d.Tasks, t.task)
	b.noteRefs(t)
}

// noteRefs keeps the ids of other DAGs that a task names.
func (b *builder) noteRefs(t *taskDraft) {
	for _, key := range []string{"trigger_dag_id", "external_dag_id"} {
		id, ok := t.task.Args[key].(string)
		if !ok || templated(id) {
			continue
		}
		n, p := t.val(key)
		b.src.refs = append(b.src.refs, dagRef{at: n, path: p, id: id})
	}
}

// maxSpelt is how many tasks of a cycle are named.
const maxSpelt = 50

// reportCycles spells out the cycles among the tasks that no order exists for.
// The search is bounded: a file with more than that has enough to repair.
func (b *builder) reportCycles(down map[*taskDraft][]*taskDraft, done map[*taskDraft]bool) {
	const most = 100
	told := map[*taskDraft]bool{}
	found, tries := 0, 0
	for _, t := range b.tasks {
		if done[t] || told[t] || tries == most {
			continue
		}
		tries++
		loop := shortestLoop(t, down, done)
		if loop == nil {
			continue // behind a cycle, not on it
		}
		found++
		names := make([]string, 0, maxSpelt+2)
		for i, x := range loop {
			told[x] = true
			switch {
			case i < maxSpelt:
				names = append(names, x.task.ID)
			case i == maxSpelt:
				names = append(names, "...")
			}
		}
		at, path := t.key, t.path
		for _, d := range t.deps {
			if d.to.t == loop[len(loop)-1] {
				at, path = d.at, d.path
			}
		}
		b.rep.err(at, path, codeCycle, "the tasks wait for each other in a cycle: "+strings.Join(append(names, t.task.ID), " -> "), "take one of these dependencies away")
	}
	if found == 0 {
		b.rep.err(b.key, b.path, codeCycle, "the tasks wait for each other in a cycle", "")
	}
}

// shortestLoop finds the shortest way from a task back to itself, nil for none.
func shortestLoop(start *taskDraft, down map[*taskDraft][]*taskDraft, done map[*taskDraft]bool) []*taskDraft {
	from := map[*taskDraft]*taskDraft{}
	queue := []*taskDraft{start}
	for len(queue) > 0 {
		t := queue[0]
		queue = queue[1:]
		for _, next := range down[t] {
			if next == start {
				var loop []*taskDraft
				for x := t; x != start; x = from[x] {
					loop = append(loop, x)
				}
				loop = append(loop, start)
				slices.Reverse(loop)
				return loop
			}
			if from[next] == nil && !done[next] {
				from[next] = t
				queue = append(queue, next)
			}
		}
	}
	return nil
}

// byOrder is a heap of tasks by their place in the file.
type byOrder []*taskDraft

func (h byOrder) Len() int           { return len(h) }
func (h byOrder) Less(i, j int) bool { return h[i].order < h[j].order }
func (h byOrder) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *byOrder) Push(x any) { *h = append(*h, x.(*taskDraft)) } //nolint:forcetypeassert // see finishTasks

// Pop implements heap.Interface.
func (h *byOrder) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
