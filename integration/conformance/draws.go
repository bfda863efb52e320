package main

import (
	"slices"
	"time"
)

// inMappedGroup tells whether a task stands in a mapped group.
func (g *graph) inMappedGroup(i int) bool {
	return slices.ContainsFunc(g.groups, func(gr group) bool { return gr.mapped() && gr.first <= i && i <= gr.last })
}

// drawMappedGroup makes a group that holds no other one, and stands in none, a
// mapped group: over literal values, or over the output of a task above it.
func (g *graph) drawMappedGroup() {
	if len(g.groups) == 0 || !g.d.chance(0.35) {
		return
	}
	gr := &g.groups[g.d.IntN(len(g.groups))]
	nested := gr.parent != "" || slices.ContainsFunc(g.groups, func(other group) bool { return other.parent == gr.name })
	for i := gr.first; i <= gr.last; i++ {
		nested = nested || g.nodes[i].setup || g.nodes[i].teardown
	}
	if nested {
		return
	}
	var sources []int
	for i := range gr.first {
		if n := g.nodes[i]; n.kind == "python" && !n.setup && !n.teardown {
			sources = append(sources, i)
		}
	}
	if len(sources) > 0 && g.d.chance(0.5) {
		gr.source = pick(g.d, sources)
	} else {
		gr.literal = values(g.d.between(0, 3))
	}
	for i := gr.first; i <= gr.last; i++ {
		if n := g.nodes[i]; n.rule == "always" {
			n.rule = "all_done"
		}
	}
}

// consumers are the kinds of mapping that a task's output has: by expand, by
// expand_kwargs.
func (g *graph) consumers(i int) (plain, kwargs bool) {
	for _, n := range g.nodes {
		if n.source == i {
			plain, kwargs = plain || !n.kwargs, kwargs || n.kwargs
		}
	}
	plain = plain || slices.ContainsFunc(g.groups, func(gr group) bool { return gr.source == i })
	return plain, kwargs
}

// kwargsOf is what a task returns that others are expanded over by expand_kwargs.
func kwargsOf(n *node, count int) any {
	if n.mapped() {
		return map[string]any{"op_args": []any{7}}
	}
	return asKwargs(values(count))
}

func asKwargs(list []any) []any {
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = map[string]any{"op_args": v}
	}
	return out
}

// drawLimits draws the keys of a task that say when it may run: pools, weights
// and limits, and what it asks of the run before.
func (g *graph) drawLimits(i int) {
	n, d := g.nodes[i], g.d
	n.more = map[string]any{}
	if g.campaign {
		if d.chance(0.3) {
			n.more[pick(d, []string{"depends_on_past", "depends_on_past", "wait_for_downstream"})] = true
			if d.chance(0.2) {
				n.more["ignore_first_depends_on_past"] = false
			}
		}
		return
	}
	if d.chance(0.3) {
		n.more["pool"], n.more["pool_slots"] = pick(d, []string{"default_pool", "small", "large"}), d.between(1, 3)
	}
	if d.chance(0.3) {
		n.more["priority_weight"], n.more["weight_rule"] = d.between(-3, 20), pick(d, []string{"downstream", "upstream", "absolute"})
	}
	if d.chance(0.15) {
		n.more[pick(d, []string{"max_active_tis_per_dag", "max_active_tis_per_dagrun"})] = d.between(1, 4)
	}
	if d.chance(0.2) {
		n.more["execution_timeout"] = typed("datetime.timedelta", "seconds", d.between(1, 100000))
	}
}

// drawDates draws a task's own dates, which may leave it out of the run. What
// others are expanded over, or stands in a mapped group, has none.
func (g *graph) drawDates(i int) {
	n, d := g.nodes[i], g.d
	if !g.dated || g.campaign || g.isSource(i) || g.inMappedGroup(i) {
		return
	}
	if d.chance(0.25) {
		n.more["start_date"] = dateObject(g.logical.Add(time.Duration(d.between(-48, 24)) * time.Hour))
	}
	if d.chance(0.2) {
		n.more["end_date"] = dateObject(g.logical.Add(time.Duration(d.between(-12, 72)) * time.Hour))
	}
}

// dateObject is a date as the one form that a task can have on both sides.
func dateObject(t time.Time) map[string]any {
	return typed("datetime.datetime", "year", t.Year(), "month", int(t.Month()), "day", t.Day(), "hour", t.Hour(), "minute", t.Minute())
}
