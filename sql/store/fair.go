package store

import (
	"cmp"
	"container/heap"
	"strconv"
	"strings"

	"github.com/airlock-dag/airlock/dag"
)

// Two rules keep a DAG with many instances from starving the others, below the
// priority and above the date:
//
//   - A slot of a pool goes to the DAG that has the fewest of that pool in use.
//   - An instance that becomes ready gets a turn: the next one after its DAG's
//     last that still waits, and none before the turn that is being claimed now.
//     Work is claimed by turn. So what a DAG adds stands beside what the others
//     have waiting, and not behind all of it, and nobody is overtaken for ever.
//
// Both are made of what the tables hold while the pools are locked: several
// schedulers and restarts change nothing.

// share is what a DAG has of a pool.
type share struct{ dag, pool string }

// line is what a DAG has waiting at one priority.
type line struct {
	dag      string
	priority int
}

// fair is whose turn it is.
type fair struct {
	inUse map[share]int    // slots
	last  map[line]int64   // turn of the last one that waits
	heads map[int]headTurn // by priority
}

// headTurn has the turns between which the claims of one priority stand.
type headTurn struct {
	running, queued, scheduled *int64 // the last one claimed; the first ones of those that wait
}

func newFair() fair {
	return fair{inUse: map[share]int{}, last: map[line]int64{}, heads: map[int]headTurn{}}
}

// note takes turns into account that the tables hold.
func (f *fair) note(u inUse) {
	h := f.heads[u.Priority]
	lowest := func(p *int64) *int64 {
		if p == nil || u.First < *p {
			return &u.First
		}
		return p
	}
	switch u.State {
	case "running":
		if h.running == nil || u.Last > *h.running {
			h.running = &u.Last
		}
	case "queued":
		h.queued = lowest(h.queued)
	case "scheduled":
		h.scheduled = lowest(h.scheduled)
	}
	f.heads[u.Priority] = h
	if u.State == "queued" || u.State == "scheduled" {
		l := line{u.Dag, u.Priority}
		if last, ok := f.last[l]; !ok || u.Last > last {
			f.last[l] = u.Last
		}
	}
}

// ended takes the turn of what this very transaction ends into account: it was
// being claimed, though nothing that still runs may show it, and what follows in
// its DAG goes behind it.
func (f *fair) ended(row *instanceRow) {
	h := f.heads[row.PriorityWeight]
	if h.running == nil || row.Turn > *h.running {
		h.running = &row.Turn
	}
	f.heads[row.PriorityWeight] = h
	l := line{row.DagID, row.PriorityWeight}
	if last, ok := f.last[l]; !ok || row.Turn > last {
		f.last[l] = row.Turn
	}
}

// now is the turn that is being claimed. What is queued and nobody takes (its
// queue has no worker) does not hold it back, nor does what waits for a slot.
func (h headTurn) now() int64 {
	switch {
	case h.running != nil && h.queued != nil:
		return max(*h.running, *h.queued)
	case h.running != nil:
		return *h.running
	case h.queued != nil:
		return *h.queued
	case h.scheduled != nil:
		return *h.scheduled
	}
	return 0
}

// giveTurns gives each candidate that arrives its turn, in their order.
func (f *fair) giveTurns(list []candidate) {
	for i := range list {
		c := &list[i]
		if !c.arrives {
			continue
		}
		l := line{c.DagID, c.Priority}
		c.turn = f.heads[c.Priority].now()
		if last, ok := f.last[l]; ok {
			c.turn = max(c.turn, last+1)
		}
		f.last[l] = c.turn
	}
}

// fairly calls take for each candidate of a list that is in the order of
// urgency: by priority, and within one always for the DAG with the least in use
// of the pool that its most urgent one asks for. take changes what is in use.
func (f *fair) fairly(list []candidate, take func(candidate) error) error {
	for start := 0; start < len(list); {
		end := start
		byDag := map[string]int{}
		h := contest{f: f}
		for ; end < len(list) && list[end].Priority == list[start].Priority; end++ {
			at, ok := byDag[list[end].DagID]
			if !ok {
				at = len(h.dags)
				byDag[list[end].DagID] = at
				h.dags = append(h.dags, nil)
			}
			h.dags[at] = append(h.dags[at], list[end])
		}
		start = end
		heap.Init(&h)
		for len(h.dags) > 0 {
			if err := take(h.dags[0][0]); err != nil {
				return err
			}
			if h.dags[0] = h.dags[0][1:]; len(h.dags[0]) == 0 {
				heap.Pop(&h)
			} else {
				heap.Fix(&h, 0)
			}
		}
	}
	return nil
}

// contest is a heap of DAGs, each with its candidates; the first is the one
// whose candidate is next.
type contest struct {
	f    *fair
	dags [][]candidate
}

func (h *contest) Len() int { return len(h.dags) }
func (h *contest) Less(i, j int) bool {
	a, b := &h.dags[i][0], &h.dags[j][0]
	return cmp.Or(cmp.Compare(h.f.inUse[share{a.DagID, a.Pool}], h.f.inUse[share{b.DagID, b.Pool}]), byUrgency(*a, *b)) < 0
}
func (h *contest) Swap(i, j int) { h.dags[i], h.dags[j] = h.dags[j], h.dags[i] }

// Push is never called: the heap is made at once.
func (h *contest) Push(x any) { h.dags = append(h.dags, x.([]candidate)) }

// Pop is heap.Interface.
func (h *contest) Pop() any {
	last := h.dags[len(h.dags)-1]
	h.dags = h.dags[:len(h.dags)-1]
	return last
}

// byTurn is what an UPDATE of candidates that are still in one state says to
// give them their turns: a part of its SET, and which rows it is about, each
// with its arguments. The list is in the order of the ids. Instances that were
// made together mostly have their turns in that order, too: a sum does for them.
// The first ones of many DAGs mostly have the same turn.
func (t *tx) byTurn(list []candidate, from dag.State) (set string, setArgs []any, which string, whichArgs []any) {
	ids := make([]int64, len(list))
	type stretch struct{ last, offset int64 } // of ids in the order of their turns
	var parts []stretch
	same := true
	for i, c := range list {
		ids[i] = c.ID
		same = same && c.turn == list[0].turn
		if n := len(parts); n > 0 && parts[n-1].offset == c.turn-c.ID {
			parts[n-1].last = c.ID
		} else {
			parts = append(parts, stretch{c.ID, c.turn - c.ID})
		}
	}
	in, args := t.s.among(ids)
	which, whichArgs = " WHERE id IN "+in+" AND state = ?", append(args, string(from))
	var b strings.Builder
	switch {
	case !list[0].arrives: // nor do the others: they come from the same state
		return "", nil, which, whichArgs
	case same:
		return ", turn = ?", []any{list[0].turn}, which, whichArgs
	case len(parts) == 1:
		return ", turn = id + ?", []any{parts[0].offset}, which, whichArgs
	case t.s.db.IsSQLite(): // one text for any ids, see among
		for i := range list {
			b.WriteString(`,"` + strconv.FormatInt(list[i].ID, 10) + `":` + strconv.FormatInt(list[i].turn, 10))
		}
		// The sign keeps it from looking through all rows in that state instead.
		return ", turn = j.value", nil, " FROM json_each(?) j WHERE task_instance.id = CAST(j.key AS INTEGER) AND +state = ?",
			[]any{"{" + b.String()[1:] + "}", string(from)}
	}
	b.WriteString(", turn = id + CASE")
	for _, p := range parts {
		b.WriteString(" WHEN id <= " + strconv.FormatInt(p.last, 10) + " THEN " + strconv.FormatInt(p.offset, 10))
	}
	return b.String() + " END", nil, which, whichArgs
}
