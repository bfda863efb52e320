package dag

// readers lists the tasks whose decisions look at a task: by their verdict, from
// outside of its mapped group (below, scopes, between: see looksAt) and from
// inside of it (inner), or for the values that they are expanded over.
type readers struct{ below, scopes, between, inner, values []int }

// indexReaders turns what decisions look at the other way round.
func (g *Graph) indexReaders() {
	n := len(g.dag.Tasks)
	g.readers = make([]readers, n)
	place := make([]int, n) // in the order of decisions
	for at, task := range g.order {
		place[task] = at
	}
	g.forward = true
	for i, below := range g.down {
		for _, other := range below {
			g.forward = g.forward && place[i] < place[other]
		}
		if g.group[i] == "" {
			g.readers[i].below = below
		}
	}
	for i := range g.readers {
		read := func(at []int, list func(r *readers) *[]int) {
			for _, other := range at {
				into := list(&g.readers[other])
				*into = append(*into, i)
				g.forward = g.forward && place[other] < place[i]
			}
		}
		for _, other := range g.up[i] {
			switch r := &g.readers[other]; {
			case g.group[other] == "": // all that is below it stands outside
			case g.sameGroup(i, other):
				r.inner = append(r.inner, i)
			default:
				r.below = append(r.below, i)
			}
		}
		read(g.outer[i].scopes, func(r *readers) *[]int { return &r.scopes })
		read(g.outer[i].between, func(r *readers) *[]int { return &r.between })
		inner := func(r *readers) *[]int { return &r.inner }
		read(g.inner[i].scopes, inner)
		read(g.inner[i].between, inner)
		values := func(r *readers) *[]int { return &r.values }
		read(g.sources[i], values)
		if g.group[i] != "" {
			read(g.waits[g.group[i]], values)
		}
	}
}
