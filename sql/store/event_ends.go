package store

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// EventDelivered records that a receiver has taken an event.
func (s *Store) EventDelivered(ctx context.Context, id int64) error {
	return s.write(ctx, "record a delivery", func(ctx context.Context, t *tx) error {
		_, err := t.exec(ctx, `UPDATE callback_event SET status = 'delivered', delivered_at = ?, attempts = attempts + 1, last_error = ''
 WHERE id = ? AND status = 'pending'`, t.at, id)
		return err
	})
}

// EventsMissed records deliveries that did not work or were not tried, all in one
// transaction: each event is due again at its next time, or given up and kept as
// dead. An event that has ended meanwhile stays as it is.
func (s *Store) EventsMissed(ctx context.Context, missed []dag.MissedDelivery) error {
	if len(missed) == 0 {
		return nil
	}
	// What a receiver that is away costs has one cause for all, and mostly one kind.
	type kind struct {
		cause        string
		dead, putOff bool
	}
	groups := map[kind][]dag.MissedDelivery{}
	var kinds []kind // in the order in which they come
	for _, m := range missed {
		k := kind{dag.CutText(m.Cause, dag.MaxErrorMessage), m.Wait == nil, m.PutOff}
		if len(groups[k]) == 0 {
			kinds = append(kinds, k)
		}
		groups[k] = append(groups[k], m)
	}
	return s.write(ctx, "record missed deliveries", func(ctx context.Context, t *tx) error {
		for _, k := range kinds {
			status, counts := dag.DeliveryPending, 1
			if k.dead {
				status = dag.DeliveryDead
			}
			if k.putOff {
				counts = 0
			}
			at := chunk
			if s.db.IsSQLite() { // where a statement costs little, and one text is kept
				at = 1
			}
			for part := range slices.Chunk(groups[k], at) {
				due, ids, args := dueOf(part, t.now)
				if _, err := t.exec(ctx, "UPDATE callback_event SET status = ?, owner = '', attempts = attempts + ?, last_error = ?, next_attempt_at = "+due+
					" WHERE id IN ("+ids+") AND status = 'pending'", append([]any{string(status), counts, k.cause}, args...)...); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// dueOf is the expression for when each event is due again (an event that is given
// up: now), the list of their ids, and the arguments of both.
func dueOf(missed []dag.MissedDelivery, now time.Time) (due, ids string, args []any) {
	at := func(m dag.MissedDelivery) string {
		if m.Wait == nil {
			return dialect.Stamp(now)
		}
		return dialect.Stamp(now.Add(*m.Wait))
	}
	if len(missed) == 1 {
		return "?", "?", []any{at(missed[0]), missed[0].EventID}
	}
	var q strings.Builder
	q.WriteString("CASE id")
	all := make([]int64, len(missed))
	for i, m := range missed {
		q.WriteString(" WHEN " + strconv.FormatInt(m.EventID, 10) + " THEN ?")
		args = append(args, at(m))
		all[i] = m.EventID
	}
	slices.Sort(all)
	return q.String() + " END", idList(all), args
}
