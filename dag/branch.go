package dag

import (
	"fmt"
	"slices"
	"strings"
)

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
// from what is. An id is that of a task of the DAG, usually a direct downstream
// one, or of a group, which stands for the tasks that it begins with. Following
// nothing, or a task that leads to none of them, skips them all. An id that the
// DAG does not have is an Error with code ErrInvalid.
func BranchSkips(d *DAG, taskID string, follow []string) ([]string, error) {
	g := NewGraph(d)
	pos, ok := g.index[taskID]
	if !ok {
		return nil, &Error{Code: ErrNotFound, Op: "branch", Err: fmt.Errorf("the DAG %q has no task %q", d.ID, taskID)}
	}
	keep := map[int]bool{}
	for _, id := range follow {
		chosen := g.chosen(id)
		if len(chosen) == 0 {
			return nil, &Error{
				Code: ErrInvalid, Op: "branch " + taskID,
				Err:  fmt.Errorf("the DAG has no task or group %q", id),
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

// chosen lists the tasks that an id of a branch means: the task of that id, or
// the tasks of the group of that id that have nothing above them in it.
func (g *Graph) chosen(id string) []int {
	if t, ok := g.index[id]; ok {
		return []int{t}
	}
	inGroup := g.groupAndBelow(id)
	inside := func(task int) bool { return inGroup[g.dag.Tasks[task].GroupID] }
	var out []int
	for t := range g.dag.Tasks {
		if inside(t) && !slices.ContainsFunc(g.up[t], inside) {
			out = append(out, t)
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
