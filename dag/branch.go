package dag

import (
	"fmt"
	"strings"
)

// DirectDownstream lists the ids of the tasks directly below a task, sorted;
// nil when the DAG has no such task.
func DirectDownstream(d *DAG, taskID string) []string {
	g := NewGraph(d)
	pos, ok := g.index[taskID]
	if !ok {
		return nil
	}
	return g.ids(g.down[pos])
}

// DescendantIDs lists the ids of all tasks below a task, sorted; nil when the
// DAG has no such task.
func DescendantIDs(d *DAG, taskID string) []string {
	g := NewGraph(d)
	pos, ok := g.index[taskID]
	if !ok {
		return nil
	}
	return g.ids(g.reach(pos, g.down))
}

// AncestorIDs lists the ids of all tasks above a task, sorted; nil when the
// DAG has no such task.
func AncestorIDs(d *DAG, taskID string) []string {
	g := NewGraph(d)
	pos, ok := g.index[taskID]
	if !ok {
		return nil
	}
	return g.ids(g.reach(pos, g.up))
}

// ShortCircuitSkips lists the tasks that a short circuit skips when its
// condition is false: everything below it, or with directOnly the tasks
// directly below it (whose trigger rules then decide about the rest).
// Teardowns are never among them.
func ShortCircuitSkips(d *DAG, taskID string, directOnly bool) []string {
	g := NewGraph(d)
	pos, ok := g.index[taskID]
	if !ok {
		return nil
	}
	below := g.down[pos]
	if !directOnly {
		below = g.reach(pos, g.down)
	}
	return g.ids(g.withoutTeardowns(below))
}

func (g *Graph) withoutTeardowns(positions []int) []int {
	var out []int
	for _, p := range positions {
		if !g.dag.Tasks[p].IsTeardown {
			out = append(out, p)
		}
	}
	return out
}

// BranchSkips lists the tasks that a branch skips when it follows the given
// ids: its direct downstream tasks that are neither followed nor reachable
// from one that is. An id is that of a direct downstream task, or of a group
// that holds one. Following nothing skips them all. An id that is neither is
// an Error with code ErrInvalid.
func BranchSkips(d *DAG, taskID string, follow []string) ([]string, error) {
	g := NewGraph(d)
	pos, ok := g.index[taskID]
	if !ok {
		return nil, &Error{Code: ErrNotFound, Op: "branch", Err: fmt.Errorf("the DAG %q has no task %q", d.ID, taskID)}
	}
	keep := map[int]bool{}
	for _, id := range follow {
		chosen := g.chosen(pos, id)
		if len(chosen) == 0 {
			return nil, &Error{
				Code: ErrInvalid, Op: "branch " + taskID,
				Err:  fmt.Errorf("%q is not directly downstream of the branch", id),
				Hint: "it may follow: " + strings.Join(g.ids(g.down[pos]), ", "),
			}
		}
		for _, c := range chosen {
			keep[c] = true
			for _, below := range g.reach(c, g.down) {
				keep[below] = true
			}
		}
	}
	var skip []int
	for _, below := range g.withoutTeardowns(g.down[pos]) {
		if !keep[below] {
			skip = append(skip, below)
		}
	}
	return g.ids(skip), nil
}

// chosen lists the direct downstream tasks that an id of a branch means.
func (g *Graph) chosen(branch int, id string) []int {
	var out []int
	inGroup := g.groupAndBelow(id)
	for _, below := range g.down[branch] {
		t := &g.dag.Tasks[below]
		if t.ID == id || (t.GroupID != "" && inGroup[t.GroupID]) {
			out = append(out, below)
		}
	}
	return out
}

// TasksOfGroup lists the ids of the tasks in a group and in the groups inside
// it, in the order of the DAG; nil when there is no such group, or nothing in it.
func TasksOfGroup(d *DAG, groupID string) []string {
	inGroup := NewGraph(d).groupAndBelow(groupID)
	var out []string
	for i := range d.Tasks {
		if d.Tasks[i].GroupID != "" && inGroup[d.Tasks[i].GroupID] {
			out = append(out, d.Tasks[i].ID)
		}
	}
	return out
}

// groupAndBelow is the set of a group's id and those of the groups inside it;
// empty when there is no such group.
func (g *Graph) groupAndBelow(id string) map[string]bool {
	set := map[string]bool{}
	for _, group := range g.dag.Groups {
		if group.ID == id {
			set[id] = true
		}
	}
	for grown := len(set) > 0; grown; {
		grown = false
		for _, group := range g.dag.Groups {
			if set[group.ParentID] && !set[group.ID] {
				set[group.ID], grown = true, true
			}
		}
	}
	return set
}
