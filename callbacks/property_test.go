package callbacks_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/airlock-dag/airlock/callbacks"
	"github.com/airlock-dag/airlock/dag"
)

// TestEveryEventEndsAndStaysInOrder: whatever fails, however often, every event
// is delivered or dead in the end, and no receiver gets two events of one task
// instance in the wrong order.
func TestEveryEventEndsAndStaysInOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(r, "events")
		sc := scenario{places: rapid.IntRange(1, 4).Draw(r, "places")}
		for range n {
			sc.events = append(sc.events, plan{
				failures: rapid.SampledFrom([]int{0, 0, 1, 3, 99}).Draw(r, "failures"),
				away:     rapid.Bool().Draw(r, "away"),
				index:    rapid.IntRange(0, 2).Draw(r, "index"),
				receiver: rapid.SampledFrom([]dag.Callback{toA, toB}).Draw(r, "receiver"),
				takes:    time.Duration(rapid.IntRange(0, 70).Draw(r, "takes")) * time.Second,
			})
		}
		var wrong string
		// Time is the bubble's: it moves when everybody waits.
		synctest.Test(t, func(t *testing.T) { wrong = sc.play(t) })
		if wrong != "" {
			r.Fatal(wrong)
		}
	})
}

// plan is what becomes of the deliveries of one event.
type plan struct {
	failures int // this many fail
	away     bool
	index    int
	receiver dag.Callback
	takes    time.Duration
}

type scenario struct {
	places int
	events []plan
}

// play runs the scenario to its end and says what went wrong.
func (sc scenario) play(t *testing.T) string {
	m := newMemory(dag.SystemClock{})
	for _, p := range sc.events {
		m.put("t", p.index, dag.EventRetry, p.receiver)
	}
	var ended record
	do := func(_ context.Context, d callbacks.Delivery) error {
		p := sc.events[d.Event.ID-1]
		<-dag.SystemClock{}.After(p.takes)
		if d.Event.Attempts < p.failures {
			return &callbacks.Failure{Err: errors.New("no"), Down: p.away}
		}
		ended.add(d.Event.ID)
		return nil
	}
	d := callbacks.New(callbacks.Options{Outbox: m, Concurrency: sc.places, Notifiers: []callbacks.Notifier{notifier{"a", do}, notifier{"b", do}}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	for m.pending() {
		<-m.changed
	}
	cancel()
	if err := <-done; err != nil {
		return err.Error()
	}
	type lane struct {
		index int
		name  string
	}
	last := map[lane]int64{}
	for _, id := range ended.got() {
		p := sc.events[id-1]
		l := lane{p.index, p.receiver.Name}
		if id <= last[l] {
			return fmt.Sprintf("%v got %d after %d", l, id, last[l])
		}
		last[l] = id
	}
	for i, p := range sc.events {
		want := dag.DeliveryDelivered
		if p.failures == 99 {
			want = dag.DeliveryDead
		}
		if got := m.row(int64(i + 1)).status; got != want {
			return fmt.Sprintf("event %d is %s, want %s", i+1, got, want)
		}
	}
	return ""
}
