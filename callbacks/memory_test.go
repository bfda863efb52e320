package callbacks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/airlock-dag/airlock/callbacks"
	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// stored is one row of the outbox.
type stored struct {
	event  dag.Event
	status dag.DeliveryStatus
	next   time.Time
	cause  string
}

// memory is an outbox in memory.
type memory struct {
	clock dag.Clock

	mu       sync.Mutex
	rows     map[int64]*stored
	claimErr error // of the next claim
	markErr  error // of the next EventDelivered
	renewals int
	commits  int // of claims and of missed deliveries
	changed  chan struct{}
}

func newMemory(clock dag.Clock) *memory {
	return &memory{clock: clock, rows: map[int64]*stored{}, changed: make(chan struct{}, 1000)}
}

// now is the outbox's own clock.
func (m *memory) now() time.Time { return m.clock.Now() }

// put stores an event; context is filled in.
func (m *memory) put(task string, index int, kind dag.EventKind, c dag.Callback) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := int64(len(m.rows) + 1)
	key := dag.TaskInstanceKey{DagID: "d", RunID: "r", TaskID: task, MapIndex: index}
	ec := dag.EventContext{Event: kind, DedupKey: fmt.Sprint("key", id), DagID: "d", RunID: "r", TaskID: task, MapIndex: index, At: noon}
	raw, err := json.Marshal(ec)
	if err != nil {
		panic(err)
	}
	m.rows[id] = &stored{status: dag.DeliveryPending, next: m.now(), event: dag.Event{
		ID: id, DedupKey: ec.DedupKey, TaskInstanceKey: key, Kind: kind, Callback: c, Context: raw, CreatedAt: noon,
	}}
	return id
}

func (m *memory) ClaimEvents(_ context.Context, _ string, n int, lease time.Duration) ([]dag.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.claimErr; err != nil {
		m.claimErr = nil
		return nil, err
	}
	m.commits++
	now := m.now()
	var ids []int64
	for id, r := range m.rows {
		if r.status == dag.DeliveryPending && !r.next.After(now) {
			ids = append(ids, id)
		}
	}
	sort.Slice(ids, func(i, j int) bool { return ids[i] < ids[j] })
	var out []dag.Event
	for _, id := range ids[:min(n, len(ids))] {
		m.rows[id].next = now.Add(lease)
		e := m.rows[id].event
		e.Age = now.Sub(e.CreatedAt)
		out = append(out, e)
	}
	return out, nil
}

func (m *memory) EventDelivered(_ context.Context, id int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.markErr; err != nil {
		m.markErr = nil
		return err
	}
	m.rows[id].status = dag.DeliveryDelivered
	m.tell()
	return nil
}

func (m *memory) EventsMissed(_ context.Context, missed []dag.MissedDelivery) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.commits++
	for _, miss := range missed {
		r := m.rows[miss.EventID]
		if r.status != dag.DeliveryPending {
			return errors.New("not pending")
		}
		if !miss.PutOff {
			r.event.Attempts++
		}
		r.cause = miss.Cause
		if miss.Wait == nil {
			r.status = dag.DeliveryDead
		} else {
			r.next = m.now().Add(*miss.Wait)
		}
		m.tell()
	}
	return nil
}

func (m *memory) RenewEvents(_ context.Context, _ string, ids []int64, lease time.Duration) (held []int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		if m.rows[id].status == dag.DeliveryPending {
			m.rows[id].next = m.now().Add(lease)
			held = append(held, id)
		}
	}
	m.renewals++
	m.tell()
	return held, nil
}

func (m *memory) tell() {
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

func (m *memory) row(id int64) stored {
	m.mu.Lock()
	defer m.mu.Unlock()
	return *m.rows[id]
}

// pending tells whether an event is left to deliver.
func (m *memory) pending() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.rows {
		if r.status == dag.DeliveryPending {
			return true
		}
	}
	return false
}

// notifier is a receiver in this process that does what a test says.
type notifier struct {
	name string
	do   func(ctx context.Context, d callbacks.Delivery) error
}

func (n notifier) Name() string { return n.name }

func (n notifier) Notify(ctx context.Context, d callbacks.Delivery) error { return n.do(ctx, d) }

// record keeps what a receiver got, in order.
type record struct {
	mu  sync.Mutex
	ids []int64
}

func (r *record) add(id int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids = append(r.ids, id)
}

func (r *record) got() []int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]int64(nil), r.ids...)
}

// dispatcher makes one over an outbox with the given receivers; o fills in the
// rest.
func dispatcher(m *memory, clock *dagtest.Clock, o callbacks.Options, receivers ...callbacks.Notifier) *callbacks.Dispatcher {
	o.Outbox, o.Clock, o.Notifiers = m, clock, receivers
	if o.Render == nil {
		o.Render = func(_ context.Context, args map[string]any, _ dag.EventContext) (map[string]any, error) {
			return args, nil
		}
	}
	return callbacks.New(o)
}
