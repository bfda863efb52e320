package dag

// skipIndex holds what branches and short circuits of the run decided.
type skipIndex struct {
	// whole marks tasks all of whose instances are skipped.
	whole map[int]bool
	// single marks instances (task, map index) skipped by the instance of a
	// mapped branch that has the same map index.
	single map[[2]int]bool
	// voted is set when instances of a mapped branch decide together.
	voted bool
}

// indexSkips reads the skip lists of all instances that ended in success. A
// mapped branch skips instances of its own map index; a task that is not
// mapped, or is mapped with another group, it skips only when all its instances
// say so.
func indexSkips(g *Graph, s *RunSnapshot, byTask [][]int) skipIndex {
	x := skipIndex{}
	votes := map[[2]int]int{} // branch task, skipped task
	for i := range s.Instances {
		ti := &s.Instances[i]
		if ti.State != StateSuccess || len(ti.SkipTasks) == 0 {
			continue
		}
		if x.whole == nil {
			x.whole, x.single = map[int]bool{}, map[[2]int]bool{}
		}
		for _, id := range ti.SkipTasks {
			target, ok := g.index[id]
			branch, known := g.index[ti.TaskID]
			switch {
			case !ok || g.dag.Tasks[target].IsTeardown:
			case ti.MapIndex < 0:
				x.whole[target] = true
			case g.dag.Tasks[target].Mapped() || known && g.sameGroup(branch, target):
				x.single[[2]int{target, ti.MapIndex}] = true
			default:
				if known {
					votes[[2]int{branch, target}]++
				}
			}
		}
	}
	x.voted = len(votes) > 0
	for pair, n := range votes {
		instances := 0
		for _, i := range byTask[pair[0]] {
			if s.Instances[i].State != StateRemoved {
				instances++
			}
		}
		if n >= instances {
			x.whole[pair[1]] = true
		}
	}
	return x
}

func (e *evaluation) skipped(task, i int) bool {
	if e.skips.whole == nil {
		return false
	}
	return e.skips.whole[task] || e.skips.single[[2]int{task, e.s.Instances[i].MapIndex}]
}
