package dag

import "slices"

// MappedGroup is the group around a task that is expanded as a whole; nil when
// there is none. Of several inside each other, which the loader refuses, it is
// the innermost.
func (d *DAG) MappedGroup(t *Task) *Group {
	id := t.GroupID
	for range d.Groups { // a bound: groups that stand inside each other end the walk
		if id == "" {
			return nil
		}
		i := slices.IndexFunc(d.Groups, func(g Group) bool { return g.ID == id })
		if i < 0 {
			return nil
		}
		if d.Groups[i].Expand != nil {
			return &d.Groups[i]
		}
		id = d.Groups[i].ParentID
	}
	return nil
}

// Group finds a group by its id; nil when there is none.
func (d *DAG) Group(id string) *Group {
	for i := range d.Groups {
		if d.Groups[i].ID == id {
			return &d.Groups[i]
		}
	}
	return nil
}

// indexGroups notes which mapped group each task stands in.
func (g *Graph) indexGroups() {
	g.group = make([]string, len(g.dag.Tasks))
	for i := range g.dag.Tasks {
		if group := g.dag.MappedGroup(&g.dag.Tasks[i]); group != nil && g.dag.Tasks[i].Expand == nil {
			g.group[i] = group.ID
		}
	}
}

// splitByGroup parts what each task's verdict looks at into what stands in its
// mapped group and what does not.
func (g *Graph) splitByGroup() {
	n := len(g.dag.Tasks)
	g.inner, g.outer = make([]looksAt, n), make([]looksAt, n)
	for i := range g.outer {
		g.outer[i] = looksAt{up: g.up[i], scopes: g.scopes[i], between: g.between[i]}
		if g.group[i] == "" {
			continue
		}
		part := func(all []int) (inner, outer []int) {
			for _, other := range all {
				if g.sameGroup(i, other) {
					inner = append(inner, other)
				} else {
					outer = append(outer, other)
				}
			}
			return inner, outer
		}
		g.inner[i].up, g.outer[i].up = part(g.up[i])
		g.inner[i].scopes, g.outer[i].scopes = part(g.scopes[i])
		g.inner[i].between, g.outer[i].between = part(g.between[i])
	}
}

// sameGroup tells whether two tasks stand in one mapped group, whose instances
// keep to themselves.
func (g *Graph) sameGroup(a, b int) bool { return g.group[a] != "" && g.group[a] == g.group[b] }

// mapped tells whether a task has an instance for each of some values, its own
// or its group's.
func (g *Graph) mapped(task int) bool { return g.dag.Tasks[task].Mapped() || g.group[task] != "" }

// expandOf says what a task's instances are made from; nil for a plain task.
func (g *Graph) expandOf(task int) *Expand {
	if g.group[task] == "" {
		return g.dag.Tasks[task].Expand
	}
	return g.dag.Group(g.group[task]).Expand
}

// groupWaits lists what must have ended before a task's mapped group is
// expanded: the tasks that the values come from, and where they come from a
// pattern of files, all tasks that the group waits for.
func (g *Graph) groupWaits() map[string][]int {
	waits := map[string][]int{}
	below := map[string]map[int]bool{}
	for task, group := range g.group {
		if group == "" {
			continue
		}
		waits[group] = append(waits[group], g.sources[task]...)
		if !g.expandOf(task).overFiles() {
			continue
		}
		if below[group] == nil {
			below[group] = g.belowGroup(group)
		}
		for _, u := range g.up[task] {
			if !g.sameGroup(task, u) && !below[group][u] { // what waits for the group cannot be waited for
				waits[group] = append(waits[group], u)
			}
		}
	}
	for group, list := range waits {
		slices.Sort(list)
		waits[group] = slices.Compact(list)
	}
	return waits
}

// belowGroup is the set of tasks that some task of a mapped group comes before.
func (g *Graph) belowGroup(group string) map[int]bool {
	set := map[int]bool{}
	for task := range g.group {
		if g.group[task] == group {
			for _, below := range g.reach(task, g.down) {
				set[below] = true
			}
		}
	}
	return set
}

func (e *Expand) overFiles() bool {
	for _, s := range e.Args {
		if s.Glob != "" {
			return true
		}
	}
	return false
}

// expandGroup asks for the instances of a mapped group, all its tasks at once,
// if its values are complete.
func (e *evaluation) expandGroup(group string) {
	if e.allDone(e.g.waits[group]) && !slices.Contains(e.out.ExpandGroups, group) {
		e.out.ExpandGroups = append(e.out.ExpandGroups, group)
	}
}

// indexInstances keeps the instances of a task in a mapped group by map index,
// for the tasks below it in the group.
func (e *evaluation) indexInstances(task int) {
	if e.g.group[task] == "" {
		return
	}
	if e.byIndex == nil {
		e.byIndex = make([]map[int]int, len(e.g.dag.Tasks))
	}
	byIndex := make(map[int]int, len(e.byTask[task]))
	for _, i := range e.byTask[task] {
		if index := e.s.Instances[i].MapIndex; index >= 0 {
			byIndex[index] = i
		}
	}
	e.byIndex[task] = byIndex
}

// tallyFor counts what one instance of a task sees of an upstream task in the
// same mapped group: the instance with its own map index, and where there is
// none, because one of the two is not expanded, all.
func (e *evaluation) tallyFor(upstream, mapIndex int) tally {
	if e.byIndex != nil && mapIndex >= 0 {
		if i, found := e.byIndex[upstream][mapIndex]; found {
			var one tally
			one.count(e.state[i])
			return one
		}
	}
	return e.tallies[upstream]
}
