package main

import (
	"maps"
	"slices"
	"strings"
)

// callables are the functions of steps.py that the operators call.
var callables = map[string]string{"python": "act", "branch": "choose", "short_circuit": "ask"}

// write adds the graph's groups and tasks to a DAG file.
func (g *graph) write(f *fields, stepsFile string) {
	if len(g.groups) > 0 {
		f.open("task_groups")
		for _, gr := range g.groups {
			f.open(gr.name)
			f.add("tooltip", "a group")
			if gr.parent != "" {
				f.add("parent_group_name", gr.parent)
			}
			if len(gr.deps) > 0 {
				f.add("dependencies", gr.deps)
			}
			switch {
			case gr.literal != nil:
				f.add("expand", map[string]any{"x": gr.literal})
			case gr.source >= 0:
				f.add("expand", map[string]any{"x": g.nodes[gr.source].id() + ".output"})
			}
			f.close()
		}
		f.close()
	}
	f.open("tasks")
	for _, n := range g.nodes {
		g.writeTask(f, n, stepsFile)
	}
	f.close()
}

func (g *graph) writeTask(f *fields, n *node, stepsFile string) {
	f.open(n.name)
	f.add("operator", classes[n.kind])
	switch n.kind {
	case "bash":
		f.add("bash_command", "true")
	case "sensor":
		f.add("filepath", stepsFile)
		f.add("mode", "reschedule")
	case "empty":
	default:
		f.add("python_callable_name", callables[n.kind])
		f.add("python_callable_file", stepsFile)
	}
	if n.group != "" {
		f.add("task_group_name", last(n.group))
	}
	if deps := g.dependencies(n); len(deps) > 0 {
		f.add("dependencies", deps)
	}
	if n.rule != "" && n.rule != "all_success" {
		f.add("trigger_rule", n.rule)
	}
	f.add("retries", n.retries)
	f.add("retry_delay", n.delay)
	if n.exponential != nil {
		f.add("retry_exponential_backoff", n.exponential)
	}
	if n.maxDelay > 0 {
		f.add("max_retry_delay", map[string]any{"__type__": "datetime.timedelta", "seconds": n.maxDelay})
	}
	if n.setup {
		f.add("is_setup", true)
	}
	if n.teardown {
		f.add("is_teardown", true)
		if n.failsRun {
			f.add("on_failure_fail_dagrun", true)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(n.more)) {
		f.add(key, n.more[key])
	}
	switch {
	case n.literal != nil && n.kwargs:
		f.add("expand_kwargs", asKwargs(n.literal))
	case n.source >= 0 && n.kwargs:
		f.add("expand_kwargs", g.nodes[n.source].id()+".output")
	case n.literal != nil:
		f.add("expand", map[string]any{"op_args": n.literal})
	case n.source >= 0:
		f.add("expand", map[string]any{"op_args": g.nodes[n.source].id() + ".output"})
	}
	f.close()
}

func (g *graph) dependencies(n *node) []string {
	var out []string
	for _, u := range n.up {
		out = append(out, g.nodes[u].name)
	}
	return append(out, n.groupDeps...)
}

// script is the step of every task by its full id, with what dag-factory cannot
// express.
func (g *graph) script() (map[string]*step, extras) {
	steps, x := map[string]*step{}, extras{FailFast: g.failFast, Teardowns: map[string]bool{}, GroupSources: map[string]string{}}
	for _, gr := range g.groups {
		if gr.source >= 0 {
			x.GroupSources[gr.id()] = g.nodes[gr.source].id()
		}
	}
	for _, n := range g.nodes {
		steps[n.id()] = n.step
		if n.kwargs && n.mapped() {
			x.Kwargs = append(x.Kwargs, n.id())
		}
		if n.setup {
			x.Setups = append(x.Setups, n.id())
		}
		if n.teardown {
			x.Teardowns[n.id()] = n.failsRun
		}
	}
	return steps, x
}

// last is the last part of a dotted id.
func last(id string) string { return id[strings.LastIndex(id, ".")+1:] }
