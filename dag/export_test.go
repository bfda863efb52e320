package dag

// What the tests ask of a graph and the program does not.

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
