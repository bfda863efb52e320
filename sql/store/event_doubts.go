package store

import (
	"context"
	"slices"
	"sync"
)

// eventDoubts are claims of events whose COMMIT was not answered. If the server
// made them, their events are this dispatcher's in the table and nobody's in
// truth, until the lease ends; and a dispatcher puts the events that it has in
// order itself, so that younger ones of their lanes would go before them. The next
// claim gives them back first.
type eventDoubts struct {
	mu   sync.Mutex
	list []*eventDoubt
}

type eventDoubt struct {
	owner, until string // as the claim wrote them
	ids          []int64
}

func (d *eventDoubts) add(one *eventDoubt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = append(d.list, one)
}

func (d *eventDoubts) all() []*eventDoubt {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.list)
}

// settled forgets those that have been given back.
func (d *eventDoubts) settled(done []*eventDoubt) {
	if len(done) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = slices.DeleteFunc(d.list, func(one *eventDoubt) bool { return slices.Contains(done, one) })
}

// giveBack makes events due that a claim took of which nobody knows. It waits for
// a transaction that the server has not finished.
func (t *tx) giveBack(ctx context.Context, doubts []*eventDoubt) error {
	for _, d := range doubts {
		if _, err := t.exec(ctx, "UPDATE callback_event SET owner = '', next_attempt_at = ? WHERE id IN ("+idList(d.ids)+
			") AND status = 'pending' AND owner = ? AND next_attempt_at = ?", t.at, d.owner, d.until); err != nil {
			return err
		}
	}
	return nil
}
