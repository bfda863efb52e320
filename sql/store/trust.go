package store

import (
	"context"
	"errors"
	"sync"

	"github.com/airlock-dag/airlock/dag"
)

// A worker that hands in results knows the rows that they are for: it claimed
// them, and whoever else may change one changes its state or its fence. Where it
// decides what follows it also knows their runs: see runMemory. So it writes
// without looking, under a guard that tells whether things are as it remembers
// them. Where they are not, the transaction is taken back and made again with a
// look at everything.

// errOtherwise says that something is not as it was remembered.
var errOtherwise = errors.New("the tables are not as this process remembers them")

// trust is how far this process goes by what it remembers: after each time that
// it was wrong twice as many transactions look first, up to mostLooks.
type trust struct {
	mu    sync.Mutex
	looks int // transactions that are still to look
	next  int // how many after the next time
}

const mostLooks = 64

func (t *trust) may() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.looks > 0 {
		t.looks--
		return false
	}
	return true
}

func (t *trust) proved(right bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if right {
		t.next = 0
		return
	}
	t.looks = max(t.next, 1)
	t.next = min(2*t.looks, mostLooks)
}

// writeTrusting is write for a transaction of results, which may go by memory.
func (s *Store) writeTrusting(ctx context.Context, op string, fn func(ctx context.Context, t *tx) error) error {
	if s.trust.may() {
		relied := false
		var believed []int64
		err := s.writeAsking(ctx, op, true, func(ctx context.Context, t *tx) error {
			t.trusts = true
			err := fn(ctx, t)
			relied, believed = t.relied, t.believed
			return err
		})
		otherwise := errors.Is(err, errOtherwise)
		if otherwise || relied && err == nil { // what was not relied on proves nothing
			s.trust.proved(!otherwise)
		}
		if otherwise {
			s.memory.share(believed)
		}
		if !otherwise {
			return err
		}
	}
	return s.writeAsking(ctx, op, true, fn)
}

// maxHeld bounds the rows that holding keeps: more than any worker has slots.
const maxHeld = 20_000

// holding keeps the rows that this process claimed, as they were then, until
// their results are written.
type holding struct {
	mu   sync.Mutex
	rows map[int64]instanceRow
}

func newHolding() *holding { return &holding{rows: map[int64]instanceRow{}} }

func (h *holding) keep(rows []instanceRow) {
	if len(rows) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.rows)+len(rows) > maxHeld { // what is lost is looked at
		clear(h.rows)
	}
	for _, row := range rows {
		row.Payload = nil // a result does not ask for it, and it may be large
		h.rows[row.ID] = row
	}
}

func (h *holding) drop(rows []settled) {
	if len(rows) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, g := range rows {
		delete(h.rows, g.row.ID)
	}
}

// of gives the rows of results; nil when not all of them will do.
func (h *holding) of(results []dag.Result) map[int64]*instanceRow {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make(map[int64]*instanceRow, len(results))
	for i := range results {
		r := &results[i]
		row, held := h.rows[r.TaskInstanceID]
		if !held || row.Fence != r.Fence || r.Reaped || r.Letter != nil || row.Replaying || out[row.ID] != nil {
			return nil
		}
		out[row.ID] = &row
	}
	return out
}
