package dag

import "sort"

// Graph is the index of one DAG version that the pure decisions use: who
// stands upstream and downstream of whom, in which order the tasks are looked
// at, and which tasks decide the state of a run. Build it once with NewGraph
// and keep it beside the version: it is immutable and safe for concurrent use.
//
// Tasks are named by their position in DAG.Tasks.
type Graph struct {
	dag   *DAG
	index map[string]int
	up    [][]int
	down  [][]int
	// order is topological: every task after all its upstream tasks. Tasks on
	// a cycle (which the loader refuses) stand at the end in file order.
	order []int
	rules []TriggerRule
	// scopes lists, for each task, the setups above it, not direct, that it works
	// under: their success is an extra condition.
	scopes [][]int
	// between lists, for each teardown, the tasks between its setups and itself,
	// not direct, which it waits for.
	between [][]int
	// sources lists the tasks whose XComs a mapped task is expanded over.
	sources [][]int
	// group is the id of the mapped group that a task stands in, "" for none;
	// inner are the tasks of that group which its verdict looks at, outer the
	// others.
	group        []string
	inner, outer []looksAt
	// waits lists, for a mapped group, what must end before it is expanded.
	waits map[string][]int
	// deciding marks the tasks whose states are the state of the run.
	deciding []bool
	// readers says, for each task, whose decisions look at it.
	readers []readers
	// forward is set when every task comes after all that its decision looks at.
	forward bool
}

// looksAt lists the tasks that a task's verdict looks at, by what for: its
// upstream tasks, those of scopes and those of between.
type looksAt struct{ up, scopes, between []int }

// NewGraph indexes a DAG. Upstream ids that name no task are left out, so that
// no input makes it fail; the loader reports them.
func NewGraph(d *DAG) *Graph {
	n := len(d.Tasks)
	g := &Graph{
		dag: d, index: make(map[string]int, n), up: make([][]int, n), down: make([][]int, n),
		rules: make([]TriggerRule, n), sources: make([][]int, n), deciding: make([]bool, n),
	}
	for i := range d.Tasks {
		if _, twice := g.index[d.Tasks[i].ID]; !twice {
			g.index[d.Tasks[i].ID] = i
		}
	}
	for i := range d.Tasks {
		t := &d.Tasks[i]
		for _, id := range t.Upstream {
			if u, ok := g.index[id]; ok && u != i {
				g.up[i] = append(g.up[i], u)
				g.down[u] = append(g.down[u], i)
			}
		}
		g.rules[i] = ruleOf(t)
	}
	g.indexGroups()
	for i := range d.Tasks {
		g.sources[i] = g.expandSources(g.expandOf(i))
	}
	g.waits = g.groupWaits()
	g.order = g.topological()
	g.scopes, g.between = g.setupScopes()
	g.splitByGroup()
	g.indexReaders()
	g.markDeciding()
	return g
}

// DAG is the DAG that the graph indexes.
func (g *Graph) DAG() *DAG { return g.dag }

// Task finds a task by its id; nil when there is none.
func (g *Graph) Task(id string) *Task {
	if i, ok := g.index[id]; ok {
		return &g.dag.Tasks[i]
	}
	return nil
}

// ruleOf is the trigger rule that counts for a task. A teardown has the
// teardowns' own rule whatever is written, as in Airflow.
func ruleOf(t *Task) TriggerRule {
	switch {
	case t.IsTeardown:
		return AllDoneSetupSuccess
	case t.TriggerRule == "":
		return AllSuccess
	default:
		return t.TriggerRule
	}
}

// ignorable tells whether a task's failure leaves the run's state alone.
func ignorable(t *Task) bool { return t.IsTeardown && !t.FailDagrunOnFail }

func (g *Graph) expandSources(e *Expand) []int {
	if e == nil {
		return nil
	}
	var out []int
	add := func(s ExpandSource) {
		if i, ok := g.index[s.XCom]; ok && s.XCom != "" {
			out = append(out, i)
		}
	}
	for _, s := range e.Args {
		add(s)
	}
	if e.Kwargs != nil {
		add(*e.Kwargs)
	}
	sort.Ints(out)
	return out
}

// topological orders the tasks; among tasks that are free at the same time the
// one that stands earlier in the DAG comes first.
func (g *Graph) topological() []int {
	n := len(g.up)
	waits := make([]int, n)
	order := make([]int, 0, n)
	for i := range g.up {
		waits[i] = len(g.up[i])
		if waits[i] == 0 {
			order = append(order, i)
		}
	}
	for head := 0; head < len(order); head++ {
		for _, next := range g.down[order[head]] {
			if waits[next]--; waits[next] == 0 {
				order = append(order, next)
			}
		}
	}
	if len(order) < n {
		for i := range waits {
			if waits[i] > 0 {
				order = append(order, i)
			}
		}
	}
	return order
}

// markDeciding finds the leaves that decide the run: tasks that are not
// ignorable teardowns and have nothing but such below them. A DAG of nothing
// but ignorable teardowns is decided by its plain leaves.
func (g *Graph) markDeciding() {
	found := false
	for i := range g.dag.Tasks {
		if ignorable(&g.dag.Tasks[i]) {
			continue
		}
		leaf := true
		for _, below := range g.down[i] {
			if !ignorable(&g.dag.Tasks[below]) {
				leaf = false
				break
			}
		}
		g.deciding[i] = leaf
		found = found || leaf
	}
	if found {
		return
	}
	for i := range g.down {
		g.deciding[i] = len(g.down[i]) == 0
	}
}

// setupScopes finds for each task the setups above it that it works under: a
// setup that has no teardown, or one whose teardown stands below the task. What
// only branches off and leads to no teardown does not use what was set up.
// Direct setups are the trigger rule's business and left out. For a teardown it
// finds the tasks between its setups and itself, which it waits for.
func (g *Graph) setupScopes() (scopes, between [][]int) {
	scopes, between = make([][]int, len(g.up)), make([][]int, len(g.up))
	for i := range g.dag.Tasks {
		if !g.dag.Tasks[i].IsSetup {
			continue
		}
		below := g.reach(i, g.down)
		direct := setOf(g.down[i])
		teardowns := 0
		open := map[int]bool{} // has a teardown of this setup below it
		for _, t := range g.down[i] {
			if !g.dag.Tasks[t].IsTeardown {
				continue
			}
			teardowns++
			above := setOf(g.reach(t, g.up))
			its := setOf(g.up[t])
			for _, b := range below {
				if above[b] {
					open[b] = true
					if !its[b] {
						between[t] = append(between[t], b)
					}
				}
			}
		}
		for _, b := range below {
			if !direct[b] && !g.dag.Tasks[b].IsTeardown && (teardowns == 0 || open[b]) {
				scopes[b] = append(scopes[b], i)
			}
		}
	}
	return scopes, between
}

func setOf(positions []int) map[int]bool {
	set := make(map[int]bool, len(positions))
	for _, p := range positions {
		set[p] = true
	}
	return set
}

// reach lists what can be reached from a task along the edges, without the
// task itself, each once, in order of distance.
func (g *Graph) reach(from int, edges [][]int) []int {
	seen := make([]bool, len(edges))
	seen[from] = true
	queue := []int{from}
	for head := 0; head < len(queue); head++ {
		for _, next := range edges[queue[head]] {
			if !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	return queue[1:]
}

// ids turns positions into sorted task ids.
func (g *Graph) ids(positions []int) []string {
	out := make([]string, 0, len(positions))
	for _, p := range positions {
		out = append(out, g.dag.Tasks[p].ID)
	}
	sort.Strings(out)
	return out
}
