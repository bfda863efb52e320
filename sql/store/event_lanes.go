package store

import (
	"context"
	"slices"
	"time"

	"github.com/airlock-dag/airlock/sql/dialect"
)

// laneWait is when an event is looked at again that waits for one in delivery.
const laneWait = 250 * time.Millisecond

// inLane is an event and what it must keep its order in.
type inLane struct {
	id   int64
	lane string
}

// holdBack keeps the order of lanes across dispatchers: of the events that one
// is about to take, those are held back before which an older one of their lane
// is pending and in the hands of another dispatcher, or waits for its next try.
// The older ones that this dispatcher has already it orders itself.
func (t *tx) holdBack(ctx context.Context, owner string, events []inLane) (map[int64]bool, error) {
	mine := map[int64]bool{}
	var lanes []string
	for _, e := range events {
		mine[e.id] = true
		if e.lane != "" { // written before there were lanes
			lanes = append(lanes, e.lane)
		}
	}
	slices.Sort(lanes)
	var older []struct {
		ID    int64        `db:"id"`
		Lane  string       `db:"lane"`
		Owner string       `db:"owner"`
		Due   dialect.Time `db:"next_attempt_at"`
	}
	in, args := condition{}, []any(nil)
	in.in("lane", anys(slices.Compact(lanes)))
	args = append(args, in.args...)
	if len(args) == 0 {
		return nil, nil
	}
	err := t.SelectContext(ctx, &older, "SELECT id, lane, owner, next_attempt_at FROM callback_event"+in.where()+" AND status = 'pending' ORDER BY id", args...)
	if err != nil {
		return nil, err
	}
	type blocked struct {
		owner string
		due   time.Time
	}
	by := map[string]blocked{}
	held := map[int64]bool{}
	until := map[time.Time][]int64{}
	for _, o := range older {
		b, waits := by[o.Lane]
		switch {
		case mine[o.ID] && waits:
			at := b.due // it waits for its next try
			if b.owner != "" || at.Before(t.now) {
				at = t.now.Add(laneWait)
			}
			held[o.ID] = true
			until[at] = append(until[at], o.ID)
		case !mine[o.ID] && !waits && o.Owner != short(owner, 250):
			by[o.Lane] = blocked{o.Owner, o.Due.Time}
		}
	}
	for at, ids := range until {
		if _, err := t.exec(ctx, "UPDATE callback_event SET next_attempt_at = ? WHERE id IN ("+idList(ids)+") AND status = 'pending'", dialect.Stamp(at)); err != nil {
			return nil, err
		}
	}
	return held, nil
}
