package dag

// NewInstances lists the task instances that a new run of the DAG begins with:
// one for each task, in the order of the DAG. A mapped task has one too, not
// yet expanded.
func NewInstances(d *DAG) []NewInstance { return NewGraph(d).NewInstances() }

// NewInstances lists the task instances that a new run begins with; see the
// function of the same name.
func (g *Graph) NewInstances() []NewInstance {
	weights := g.EffectivePriority()
	out := make([]NewInstance, 0, len(g.dag.Tasks))
	for i := range g.dag.Tasks {
		t := &g.dag.Tasks[i]
		ni := NewInstance{
			TaskID: t.ID, Operator: t.Operator, Queue: t.Queue, Pool: t.Pool,
			PoolSlots: max(1, t.PoolSlots), PriorityWeight: weights[t.ID], MaxTries: max(0, t.Retry.Retries),
		}
		if ni.Queue == "" {
			ni.Queue = DefaultQueue
		}
		if ni.Pool == "" {
			ni.Pool = DefaultPool
		}
		out = append(out, ni)
	}
	return out
}
