package dag

import "slices"

// ClearScope lists the tasks that are cleared together with the named ones, in
// the order of the DAG, the named ones included: what is upstream and downstream
// of them where that is asked for, and the setups and teardowns without which
// they could not run again. Those are the setups above a task that have a
// teardown below it or none at all, with all their teardowns. Names that are no
// tasks are left out.
func (g *Graph) ClearScope(named []string, upstream, downstream bool) []string {
	start := make([]bool, len(g.dag.Tasks))
	for _, id := range named {
		if i, ok := g.index[id]; ok {
			start[i] = true
		}
	}
	scope := slices.Clone(start)
	for i, chosen := range start {
		if !chosen {
			continue
		}
		if downstream {
			for _, below := range g.reach(i, g.down) {
				scope[below] = true
				if !start[below] {
					g.markScaffold(scope, below)
				}
			}
		}
		if upstream {
			for _, above := range g.reach(i, g.up) {
				scope[above] = true
				if g.dag.Tasks[above].IsSetup {
					g.markTeardowns(scope, above)
				}
			}
		} else {
			g.markScaffold(scope, i)
		}
		if g.dag.Tasks[i].IsSetup && !downstream {
			g.markTeardowns(scope, i)
		}
	}
	var out []string
	for i, in := range scope {
		if in {
			out = append(out, g.dag.Tasks[i].ID)
		}
	}
	return out
}

// markScaffold marks the setups that a task works under, with their teardowns. A
// setup or teardown works under none.
func (g *Graph) markScaffold(scope []bool, task int) {
	if t := &g.dag.Tasks[task]; t.IsSetup || t.IsTeardown {
		return
	}
	below := setOf(g.reach(task, g.down))
	for _, above := range g.reach(task, g.up) {
		if !g.dag.Tasks[above].IsSetup {
			continue
		}
		teardowns, reached := 0, false
		for _, t := range g.down[above] {
			if g.dag.Tasks[t].IsTeardown {
				teardowns++
				reached = reached || below[t]
			}
		}
		if teardowns == 0 || reached {
			scope[above] = true
			g.markTeardowns(scope, above)
		}
	}
}

// markTeardowns marks the teardowns directly below a setup.
func (g *Graph) markTeardowns(scope []bool, setup int) {
	for _, t := range g.down[setup] {
		if g.dag.Tasks[t].IsTeardown {
			scope[t] = true
		}
	}
}
