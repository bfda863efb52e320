package dag

import (
	"math"
	"math/bits"
)

// EffectivePriority computes the priority weight that each task's instances
// get, by its weight rule: "downstream" (the default) adds the weights of all
// tasks below it, each once, "upstream" those above it, "absolute" nothing.
// The result is kept in the range of 32 bits.
func EffectivePriority(d *DAG) map[string]int { return NewGraph(d).EffectivePriority() }

// EffectivePriority computes the priority weights of the graph's tasks; see the
// function of the same name.
func (g *Graph) EffectivePriority() map[string]int {
	tasks := g.dag.Tasks
	var down, up []int64
	for i := range tasks {
		switch tasks[i].WeightRule {
		case "absolute":
		case "upstream":
			if up == nil {
				up = g.reachWeights(g.order, g.up)
			}
		default:
			if down == nil {
				reversed := make([]int, len(g.order))
				for k, task := range g.order {
					reversed[len(reversed)-1-k] = task
				}
				down = g.reachWeights(reversed, g.down)
			}
		}
	}
	out := make(map[string]int, len(tasks))
	for i := range tasks {
		w := int64(tasks[i].PriorityWeight)
		switch tasks[i].WeightRule {
		case "absolute":
		case "upstream":
			w += up[i]
		default:
			w += down[i]
		}
		out[tasks[i].ID] = int(max(math.MinInt32, min(math.MaxInt32, w)))
	}
	return out
}

// reachWeights sums for each task the weights of the tasks that it reaches
// along the edges, each once. order has every task after those it points to.
//
// The sets are bit sets of one block of targets at a time, so that the memory
// stays small for any DAG.
func (g *Graph) reachWeights(order []int, edges [][]int) []int64 {
	const words = 64 // targets in a block: 64 * 64
	n := len(order)
	sums := make([]int64, n)
	sets := make([][words]uint64, n)
	for first := 0; first < n; first += words * 64 {
		clear(sets)
		for _, task := range order {
			set := &sets[task]
			for _, next := range edges[task] {
				for w, b := range sets[next] {
					set[w] |= b
				}
				if at := next - first; at >= 0 && at < words*64 {
					set[at/64] |= 1 << (at % 64)
				}
			}
			for w, b := range set {
				for ; b != 0; b &= b - 1 {
					target := first + w*64 + bits.TrailingZeros64(b)
					if target != task { // only on a cycle
						sums[task] += int64(g.dag.Tasks[target].PriorityWeight)
					}
				}
			}
		}
	}
	return sums
}
