package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// maxDedupKey is the width of its column in characters.
const maxDedupKey = 750

// insertEvents puts events into the outbox. One whose key is there already is
// the same event and is passed over.
func (t *tx) insertEvents(ctx context.Context, events []dag.Event) error {
	args := make([]any, 0, 16*len(events))
	for _, e := range events {
		if e.Kind == dag.EventFailure {
			t.failed = append(t.failed, e)
		}
		callback, err := json.Marshal(e.Callback)
		if err != nil {
			// The receiver's name alone still tells a person who was meant.
			callback, _ = json.Marshal(dag.Callback{Name: e.Callback.Name})
		}
		created := e.CreatedAt
		if created.IsZero() {
			created = t.now
		}
		args = append(args, dedupKey(e.DedupKey), e.DagID, e.RunID, e.TaskID, e.MapIndex, e.TryNumber, string(e.Kind), jsonText(callback),
			jsonText(e.Context), laneOf(e.TaskInstanceKey, callback), string(dag.DeliveryPending), 0, t.at, "", "", dialect.Stamp(created))
	}
	return t.insertLater(ctx, `INSERT INTO callback_event (dedup_key, dag_id, run_id, task_id, map_index, try_number, kind, callback, context,
 lane, status, attempts, next_attempt_at, owner, last_error, created_at) VALUES `, dialect.Rows(1, 16), t.s.db.Upsert([]string{"dedup_key"}, nil), 16, args)
}

// laneOf is the same for all events of one task instance (or run, or circuit)
// to one receiver: what is delivered in order.
func laneOf(k dag.TaskInstanceKey, callback []byte) string {
	h := sha256.New()
	for _, part := range []string{k.DagID, k.RunID, k.TaskID, strconv.Itoa(k.MapIndex), string(callback)} {
		_, _ = h.Write([]byte(strconv.Itoa(len(part)) + ":" + part)) // a hash never fails
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// dedupKey shortens a key that does not fit, keeping it the same for the same
// event.
func dedupKey(key string) string {
	key = clean(key)
	if len(key) <= maxDedupKey {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return short(key, maxDedupKey-2*sha256.Size) + hex.EncodeToString(sum[:])
}

// ClaimEvents takes up to n pending events that are due, in the order in which
// they were written, and hides them from other dispatchers until the lease
// ends. Whoever dies with them loses nothing: they come back.
func (s *Store) ClaimEvents(ctx context.Context, owner string, n int, lease time.Duration) ([]dag.Event, error) {
	return s.claimEvents(ctx, owner, n, lease, nil)
}

// RunOutbox is the outbox of one run: it gives out no events of others.
type RunOutbox struct {
	*Store
	run dag.Run
}

// OutboxOf is the outbox of a run, which must be known by its DAG and its run id.
func (s *Store) OutboxOf(run dag.Run) *RunOutbox { return &RunOutbox{Store: s, run: run} }

// ClaimEvents takes events as Store.ClaimEvents does, of this run and its tasks.
func (o *RunOutbox) ClaimEvents(ctx context.Context, owner string, n int, lease time.Duration) ([]dag.Event, error) {
	return o.claimEvents(ctx, owner, n, lease, &o.run)
}

// claimEvents takes events of all runs, or of one.
func (s *Store) claimEvents(ctx context.Context, owner string, n int, lease time.Duration, of *dag.Run) ([]dag.Event, error) {
	if n <= 0 {
		return nil, nil
	}
	type row struct {
		ID       int64  `db:"id"`
		DedupKey string `db:"dedup_key"`
		dag.TaskInstanceKey
		TryNumber int          `db:"try_number"`
		Kind      string       `db:"kind"`
		Callback  string       `db:"callback"`
		Context   string       `db:"context"`
		CreatedAt dialect.Time `db:"created_at"`
		Attempts  int          `db:"attempts"`
		Lane      string       `db:"lane"`
	}
	if of == nil && s.idle.events.Load() {
		now, err := s.Now(ctx)
		if err != nil {
			return nil, err
		}
		found, err := s.finds(ctx, "SELECT id FROM callback_event WHERE status = 'pending' AND next_attempt_at <= ? LIMIT 1", dialect.Stamp(now))
		if err != nil || !found {
			return nil, s.explain("claim events", err)
		}
	}
	index, only, args := "k_pending", "", []any(nil)
	if of != nil {
		index, only, args = "k_run", "dag_id = ? AND run_id = ? AND ", []any{of.DagID, of.RunID}
	}
	var out []dag.Event
	doubts, taken := s.doubts.all(), eventDoubt{}
	err := s.write(ctx, "claim events", func(ctx context.Context, t *tx) error {
		out, taken = nil, eventDoubt{}
		if err := t.giveBack(ctx, doubts); err != nil {
			return err
		}
		var rows []row
		err := t.SelectContext(ctx, &rows, `SELECT id, dedup_key, dag_id, run_id, task_id, map_index, try_number, kind, callback, context,
 created_at, attempts, lane FROM callback_event`+t.force(index)+" WHERE "+only+`status = 'pending' AND next_attempt_at <= ?
 ORDER BY next_attempt_at, id`+limit(n, 100)+s.db.SkipLocked(), append(args, t.at)...)
		if err != nil || len(rows) == 0 {
			return err
		}
		found := make([]inLane, len(rows))
		for i, r := range rows {
			found[i] = inLane{r.ID, r.Lane}
		}
		held, err := t.holdBack(ctx, owner, found)
		if err != nil {
			return err
		}
		var ids []int64
		for _, r := range rows {
			if held[r.ID] {
				continue
			}
			ids = append(ids, r.ID)
			e := dag.Event{
				ID: r.ID, DedupKey: r.DedupKey, TaskInstanceKey: r.TaskInstanceKey, TryNumber: r.TryNumber, Kind: dag.EventKind(r.Kind),
				Context: json.RawMessage(r.Context), CreatedAt: r.CreatedAt.Time, Age: t.now.Sub(r.CreatedAt.Time), Attempts: r.Attempts,
			}
			if err := json.Unmarshal([]byte(r.Callback), &e.Callback); err != nil {
				return fmt.Errorf("event %d: its callback: %w", r.ID, err)
			}
			out = append(out, e)
		}
		if len(ids) == 0 {
			return nil
		}
		slices.SortFunc(out, func(a, b dag.Event) int { return int(a.ID - b.ID) })
		taken = eventDoubt{owner: short(owner, 250), until: dialect.Stamp(t.now.Add(lease)), ids: ids}
		_, err = t.exec(ctx, "UPDATE callback_event SET owner = ?, next_attempt_at = ? WHERE id IN ("+idList(ids)+") AND status = 'pending'",
			taken.owner, taken.until)
		return err
	})
	switch {
	case err == nil:
		s.doubts.settled(doubts)
	case dialect.LostCommit(err) && len(taken.ids) > 0:
		s.doubts.add(&taken)
	}
	if of == nil {
		s.idle.events.Store(err == nil && len(out) == 0)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// RenewEvents extends the leases of claimed events and lists those that the
// owner still holds.
func (s *Store) RenewEvents(ctx context.Context, owner string, ids []int64, lease time.Duration) (held []int64, err error) {
	err = s.write(ctx, "renew the leases of events", func(ctx context.Context, t *tx) error {
		held = nil
		for part := range slices.Chunk(slices.Sorted(slices.Values(ids)), chunk) {
			var mine []int64
			if err := t.SelectContext(ctx, &mine, "SELECT id FROM callback_event WHERE id IN ("+idList(part)+
				") AND status = 'pending' AND owner = ? ORDER BY id"+s.db.ForUpdate(), short(owner, 250)); err != nil {
				return err
			}
			if len(mine) == 0 {
				continue
			}
			if _, err := t.exec(ctx, "UPDATE callback_event SET next_attempt_at = ? WHERE id IN ("+idList(mine)+") AND status = 'pending'",
				dialect.Stamp(t.now.Add(lease))); err != nil {
				return err
			}
			held = append(held, mine...)
		}
		return nil
	})
	return held, err
}

// PutEvents stores events that go with no state change. One whose key is there
// already is left alone.
func (s *Store) PutEvents(ctx context.Context, events []dag.Event) error {
	return againIfLost(func() error {
		return s.write(ctx, "put events", func(ctx context.Context, t *tx) error { return t.insertEvents(ctx, events) })
	})
}
