package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Airflow's class paths, which both sides understand.
var classes = map[string]string{
	"python":        "airflow.providers.standard.operators.python.PythonOperator",
	"bash":          "airflow.providers.standard.operators.bash.BashOperator",
	"empty":         "airflow.providers.standard.operators.empty.EmptyOperator",
	"branch":        "airflow.providers.standard.operators.python.BranchPythonOperator",
	"short_circuit": "airflow.providers.standard.operators.python.ShortCircuitOperator",
	"sensor":        "airflow.providers.standard.sensors.filesystem.FileSensor",
}

var rules = []string{
	"all_failed", "all_done", "all_skipped", "one_success", "one_failed", "one_done", "none_failed",
	"none_failed_min_one_success", "none_skipped", "always", "all_done_min_one_success",
}

const maxTasks = 12

// node is one task of a random graph.
type node struct {
	name, group string
	kind        string
	up, down    []int
	groupDeps   []string
	rule        string
	retries     int
	delay       any
	exponential any
	maxDelay    float64
	setup       bool
	teardown    bool
	failsRun    bool
	// mapped: over literal values, or over the output of another task.
	literal []any
	source  int  // -1 for none
	kwargs  bool // by expand_kwargs
	step    *step
	more    map[string]any // further keys of the task
}

func (n *node) id() string {
	if n.group == "" {
		return n.name
	}
	return n.group + "." + n.name
}

func (n *node) mapped() bool { return n.literal != nil || n.source >= 0 }

// group is a stretch of tasks that stand beside each other in the file.
type group struct {
	name, parent string
	first, last  int
	deps         []string
	// mapped: over literal values, or over the output of a task above it.
	literal []any
	source  int // -1 for none
}

func (g group) mapped() bool { return g.literal != nil || g.source >= 0 }

func (g group) id() string {
	if g.parent == "" {
		return g.name
	}
	return g.parent + "." + g.name
}

// graph is a random DAG without its schedule.
type graph struct {
	d        dice
	nodes    []*node
	groups   []group
	failFast bool
	campaign bool // several runs are made of it
	dated    bool // tasks have dates of their own
	logical  time.Time
}

// newGraph draws tasks, edges, groups, rules and outcomes.
func newGraph(d dice, logical time.Time, bounded bool) *graph {
	g := &graph{d: d, campaign: d.chance(0.3), dated: bounded && d.chance(0.2), logical: logical}
	n := d.between(1, maxTasks)
	for i := range n {
		g.nodes = append(g.nodes, &node{name: fmt.Sprintf("t%02d", i), kind: "python", rule: "all_success", source: -1})
	}
	g.drawGroups()
	for i := 1; i < n; i++ {
		most := d.between(0, 3)
		for range most {
			g.edge(d.between(max(0, i-6), i-1), i)
		}
	}
	g.failFast = d.chance(0.05)
	for i := range g.nodes {
		g.drawKind(i)
	}
	if d.chance(0.25) {
		g.drawSetup()
	}
	g.drawMappedGroup()
	for i := range g.nodes {
		g.drawMapping(i)
		g.drawRetries(i)
		g.drawLimits(i)
	}
	for i := range g.nodes {
		g.drawDates(i)
	}
	for i := range g.nodes {
		g.drawStep(i)
	}
	return g
}

func (g *graph) edge(from, to int) {
	if !slices.Contains(g.nodes[to].up, from) {
		g.nodes[to].up = append(g.nodes[to].up, from)
		g.nodes[from].down = append(g.nodes[from].down, to)
	}
}

// drawGroups puts stretches of tasks into groups; one may hold another.
func (g *graph) drawGroups() {
	n := len(g.nodes)
	for first := 0; first < n && g.d.chance(0.5); {
		first += g.d.between(0, 3)
		last := min(first+g.d.between(0, 3), n-1)
		if first > last {
			return
		}
		outer := group{name: fmt.Sprintf("g%d", len(g.groups)), first: first, last: last, source: -1}
		g.groups = append(g.groups, outer)
		for i := first; i <= last; i++ {
			g.nodes[i].group = outer.id()
		}
		if last > first && g.d.chance(0.3) {
			inner := group{name: fmt.Sprintf("g%d", len(g.groups)), parent: outer.id(), first: first + 1, last: last, source: -1}
			g.groups = append(g.groups, inner)
			for i := inner.first; i <= last; i++ {
				g.nodes[i].group = inner.id()
			}
		}
		first = last + 1
	}
	g.groupEdges()
}

// groupEdges lets tasks depend on groups above them, and groups on tasks.
func (g *graph) groupEdges() {
	for k := range g.groups {
		gr := &g.groups[k]
		if gr.first > 0 && g.d.chance(0.3) {
			gr.deps = append(gr.deps, g.nodes[g.d.IntN(gr.first)].name)
		}
		if gr.last+1 < len(g.nodes) && g.d.chance(0.3) {
			below := g.nodes[g.d.between(gr.last+1, len(g.nodes)-1)]
			below.groupDeps = append(below.groupDeps, gr.name)
		}
	}
}

func (g *graph) drawKind(i int) {
	n := g.nodes[i]
	switch r := g.d.Float64(); {
	case r < 0.12:
		n.kind = "empty"
	case r < 0.18:
		n.kind = "bash"
	case r < 0.30 && len(n.down) > 0:
		n.kind = "branch"
	case r < 0.37 && len(n.down) > 0:
		n.kind = "short_circuit"
	case r < 0.43:
		n.kind = "sensor"
	}
	if g.d.chance(0.5) && !g.failFast {
		n.rule = pick(g.d, rules)
	}
}

// drawSetup makes one task a setup and a later one its teardown, with what lies
// between them in their scope.
func (g *graph) drawSetup() {
	if len(g.nodes) < 3 {
		return
	}
	s := g.d.IntN(len(g.nodes) - 2)
	t := g.d.between(s+2, len(g.nodes)-1)
	setup, teardown := g.nodes[s], g.nodes[t]
	awaited := func(n *node) bool { // both sides say differently whether a teardown is an end of its group
		return slices.ContainsFunc(n.groupDeps, func(name string) bool { return slices.Contains(strings.Split(teardown.group, "."), name) })
	}
	if len(teardown.groupDeps) > 0 || setup.group != teardown.group || slices.ContainsFunc(g.nodes, awaited) {
		return
	}
	setup.setup, setup.kind, setup.rule = true, "python", "all_success"
	teardown.teardown, teardown.kind, teardown.rule = true, "python", ""
	teardown.failsRun = g.d.chance(0.3)
	for i := s + 1; i < t; i++ {
		if g.d.chance(0.6) {
			g.edge(s, i)
			g.edge(i, t)
			g.nodes[i].rule = "all_success"
		}
	}
	g.edge(s, t)
	for _, below := range setup.down { // a task directly below a setup has all_success
		if below != t {
			g.nodes[below].rule = "all_success"
		}
	}
}

func (g *graph) drawMapping(i int) {
	n := g.nodes[i]
	if n.kind != "python" || n.setup || n.teardown || g.inMappedGroup(i) || !g.d.chance(0.22) {
		return
	}
	n.kwargs = g.d.chance(0.3)
	if g.d.chance(0.5) {
		n.literal = values(g.d.between(0, 3))
		return
	}
	var sources []int
	for _, u := range n.up {
		if g.nodes[u].kind == "python" && !g.nodes[u].setup && !g.inMappedGroup(u) {
			sources = append(sources, u)
		}
	}
	if len(sources) > 0 {
		n.source = pick(g.d, sources)
		if plain, kwargs := g.consumers(n.source); plain && kwargs { // the output has one shape
			n.kwargs = !n.kwargs
		}
		if n.rule == "always" {
			n.rule = "all_done"
		}
	}
}

// values are positional arguments of mapped instances.
func values(n int) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = []any{i}
	}
	return out
}

func (g *graph) drawRetries(i int) {
	n, d := g.nodes[i], g.d
	n.retries = d.between(0, 2)
	n.delay = pick(d, []any{0, 1, 30, 300, 0.5, 7.25, 3600, 90000})
	n.exponential = pick(d, []any{nil, nil, false, true, 2, 1.5, 3, 0.5, 1})
	if d.chance(0.3) {
		n.maxDelay = pick(d, []float64{1, 45, 600, 100000})
	}
}

func (g *graph) drawStep(i int) {
	n := g.nodes[i]
	n.step = &step{Kind: n.kind, Outcomes: map[string][]string{}, Condition: true}
	if n.kind == "sensor" {
		n.step.Waits = g.d.between(0, 3)
	}
	indexes := []string{"-1"}
	if n.mapped() || g.inMappedGroup(i) {
		indexes = []string{"-1", "0", "1", "2"}
	}
	for _, index := range indexes {
		n.step.Outcomes[index] = g.drawOutcomes(n)
	}
	switch {
	case n.kind == "branch":
		n.step.Follow = g.drawFollow(n)
	case n.kind == "short_circuit":
		n.step.Condition = g.d.chance(0.5)
	case n.kind == "python" && (g.isSource(i) || g.d.chance(0.3)):
		n.step.Returns = values(g.d.between(0, 4))
		if n.mapped() {
			n.step.Returns = []any{7}
		}
		if _, kwargs := g.consumers(i); kwargs {
			n.step.Returns = kwargsOf(n, g.d.between(0, 4))
		}
		if g.d.chance(0.08) {
			n.step.Returns = nil
		}
	}
}

func (g *graph) isSource(i int) bool {
	return slices.ContainsFunc(g.nodes, func(n *node) bool { return n.source == i }) ||
		slices.ContainsFunc(g.groups, func(gr group) bool { return gr.source == i })
}

func (g *graph) drawOutcomes(n *node) []string {
	if n.kind == "empty" {
		return []string{"ok"}
	}
	out := make([]string, n.retries+1)
	for k := range out {
		switch r := g.d.Float64(); {
		case r < 0.68:
			out[k] = "ok"
		case r < 0.88:
			out[k] = "fail"
		case r < 0.95 && n.kind != "branch" && n.kind != "short_circuit":
			out[k] = "skip"
		default:
			out[k] = "fatal"
		}
	}
	return out
}

// drawFollow is what a branch follows: mostly some of what is below it.
func (g *graph) drawFollow(n *node) any {
	var ids []any
	for _, below := range some(g.d, n.down, 0.5) {
		ids = append(ids, g.nodes[below].id())
	}
	switch r := g.d.Float64(); {
	case r < 0.05:
		return nil
	case r < 0.10:
		return []any{}
	case r < 0.20: // any task of the DAG: one further down, or not below at all
		return g.nodes[g.d.IntN(len(g.nodes))].id()
	case r < 0.25 && len(g.groups) > 0:
		return pick(g.d, g.groups).id()
	case r < 0.27:
		return "nowhere"
	case len(ids) == 1 && g.d.chance(0.5):
		return ids[0]
	case len(ids) == 0:
		return g.nodes[pick(g.d, n.down)].id()
	default:
		return ids
	}
}
