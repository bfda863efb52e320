package callbacks_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/callbacks"
	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
)

var toA, toB = dag.Callback{Name: "a"}, dag.Callback{Name: "b"}

func TestDrainDeliversEachEventOnce(t *testing.T) {
	t.Parallel()
	clock := dagtest.NewClock(noon)
	m := newMemory(clock)
	var a record
	d := dispatcher(m, clock, callbacks.Options{Concurrency: 3}, notifier{"a", func(_ context.Context, d callbacks.Delivery) error {
		if d.Event.DedupKey != d.Context.DedupKey || string(d.Event.Context) != string(d.Body) {
			return callbacks.Permanent(errors.New("context and body are not the event's"))
		}
		a.add(d.Event.ID)
		return nil
	}})
	const n = 100
	for i := range n {
		m.put("t", i, dag.EventSuccess, toA)
	}
	require.NoError(t, d.Drain(t.Context()))
	got := a.got()
	require.Len(t, got, n)
	for id := int64(1); id <= n; id++ {
		require.Contains(t, got, id)
		require.Equal(t, dag.DeliveryDelivered, m.row(id).status)
	}
	require.NoError(t, d.Drain(t.Context()))
	require.Len(t, a.got(), n, "nothing is delivered twice")
}

func TestFailedEventComesBackAtItsBackoffAndIsDeadAfterTwelve(t *testing.T) {
	t.Parallel()
	clock := dagtest.NewClock(noon)
	m := newMemory(clock)
	tries := 0
	d := dispatcher(m, clock, callbacks.Options{}, notifier{"a", func(context.Context, callbacks.Delivery) error {
		tries++
		return errors.New("no luck")
	}})
	id := m.put("t", -1, dag.EventFailure, toA)
	// 2 s doubled each time, at most ten minutes.
	for i, seconds := range []int{2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600} {
		want := time.Duration(seconds) * time.Second
		require.NoError(t, d.Drain(t.Context()))
		require.Equal(t, i+1, tries)
		require.Equal(t, dag.DeliveryPending, m.row(id).status)
		require.Equal(t, want, m.row(id).next.Sub(clock.Now()), "after failure %d", i+1)
		clock.Advance(want - time.Microsecond)
		require.NoError(t, d.Drain(t.Context()))
		require.Equal(t, i+1, tries, "not before its time")
		clock.Advance(time.Microsecond)
	}
	require.NoError(t, d.Drain(t.Context()))
	require.Equal(t, 12, tries)
	require.Equal(t, dag.DeliveryDead, m.row(id).status)
	require.Equal(t, "no luck", m.row(id).cause)
}

func TestRetriesAreSpreadByATenth(t *testing.T) {
	t.Parallel()
	clock := dagtest.NewClock(noon)
	m := newMemory(clock)
	d := dispatcher(m, clock, callbacks.Options{Rand: fixed(0.5)}, notifier{"a", func(context.Context, callbacks.Delivery) error {
		return errors.New("no luck")
	}})
	id := m.put("t", -1, dag.EventFailure, toA)
	require.NoError(t, d.Drain(t.Context()))
	require.Equal(t, 2100*time.Millisecond, m.row(id).next.Sub(noon))
}

type fixed float64

func (f fixed) Float64() float64 { return float64(f) }

func TestReceiverMayAskForMoreTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ asks, want time.Duration }{
		{time.Second, 2 * time.Second}, {90 * time.Second, 90 * time.Second}, {100 * time.Hour, time.Hour},
	} {
		clock := dagtest.NewClock(noon)
		m := newMemory(clock)
		d := dispatcher(m, clock, callbacks.Options{}, notifier{"a", func(context.Context, callbacks.Delivery) error {
			return fmt.Errorf("wrapped: %w", &callbacks.Failure{Err: errors.New("busy"), RetryAfter: c.asks})
		}})
		id := m.put("t", -1, dag.EventFailure, toA)
		require.NoError(t, d.Drain(t.Context()))
		require.Equal(t, c.want, m.row(id).next.Sub(noon))
		require.Equal(t, "wrapped: busy", m.row(id).cause)
	}
}

func TestWhatCannotEverBeDeliveredIsDeadAtOnce(t *testing.T) {
	t.Parallel()
	clock := dagtest.NewClock(noon)
	m := newMemory(clock)
	d := dispatcher(m, clock, callbacks.Options{
		Render: func(_ context.Context, args map[string]any, _ dag.EventContext) (map[string]any, error) {
			if args["broken"] != nil {
				return nil, callbacks.Permanent(errors.New("'nobody' is undefined"))
			}
			return args, nil
		},
	}, notifier{"a", func(context.Context, callbacks.Delivery) error { return callbacks.Permanent(errors.New("gone")) }},
		notifier{"b", func(ctx context.Context, d callbacks.Delivery) error {
			_, err := d.Connection(ctx, "x")
			return fmt.Errorf("secret: %w", err)
		}})
	permanent := m.put("t", 1, dag.EventFailure, toA)
	unknown := m.put("t", 2, dag.EventFailure, dag.Callback{Name: "pager"})
	template := m.put("t", 3, dag.EventFailure, dag.Callback{Name: "a", Args: map[string]any{"broken": true}})
	broken := m.put("t", 4, dag.EventFailure, toA)
	m.rows[broken].event.Context = []byte("{")
	noConnections := m.put("t", 5, dag.EventFailure, toB)
	require.NoError(t, d.Drain(t.Context()))
	for id, cause := range map[int64]string{
		permanent: "gone", unknown: `there is no callback "pager"; there are: a, b`,
		template: "'nobody' is undefined", broken: "cannot be read", noConnections: "secret: this process has no connections",
	} {
		require.Equal(t, dag.DeliveryDead, m.row(id).status)
		require.Contains(t, m.row(id).cause, cause)
	}
}

func TestPanicIsAFailureLikeAnyOther(t *testing.T) {
	t.Parallel()
	clock := dagtest.NewClock(noon)
	m := newMemory(clock)
	var b record
	d := dispatcher(m, clock, callbacks.Options{}, notifier{"a", func(context.Context, callbacks.Delivery) error { panic("oops") }},
		notifier{"b", func(_ context.Context, d callbacks.Delivery) error { b.add(d.Event.ID); return nil }})
	id := m.put("t", -1, dag.EventFailure, toA)
	other := m.put("t", -1, dag.EventFailure, toB)
	require.NoError(t, d.Drain(t.Context()))
	require.Equal(t, dag.DeliveryPending, m.row(id).status)
	require.Contains(t, m.row(id).cause, "panic: oops")
	require.Equal(t, []int64{other}, b.got())
}

// TestOrderForOneInstanceAndReceiver: what came later waits for what failed,
// also over claims; other instances and receivers do not.
func TestOrderForOneInstanceAndReceiver(t *testing.T) {
	t.Parallel()
	clock := dagtest.NewClock(noon)
	m := newMemory(clock)
	var a record
	bad := true
	d := dispatcher(m, clock, callbacks.Options{Lease: time.Hour}, notifier{"a", func(_ context.Context, d callbacks.Delivery) error {
		if d.Event.ID == 1 && bad {
			return errors.New("not now")
		}
		a.add(d.Event.ID)
		return nil
	}}, notifier{"b", func(context.Context, callbacks.Delivery) error { return nil }})
	m.put("t", 0, dag.EventRetry, toA)               // 1 fails
	m.put("t", 0, dag.EventFailure, toA)             // 2 waits for it
	otherIndex := m.put("t", 1, dag.EventRetry, toA) // 3 does not
	otherReceiver := m.put("t", 0, dag.EventRetry, toB)

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	for range 3 { // 1 failed, 3 and 4 delivered
		<-m.changed
	}
	require.Equal(t, []int64{otherIndex}, a.got())
	require.Equal(t, dag.DeliveryDelivered, m.row(otherReceiver).status)
	require.Equal(t, dag.DeliveryPending, m.row(2).status)

	bad = false
	for len(a.got()) < 3 {
		// The dispatcher may look before it has heard of the failure, and then looks
		// again: its time goes on until both are through.
		clock.Advance(time.Minute)
		select {
		case <-m.changed:
		case <-time.After(time.Millisecond):
		}
	}
	require.Equal(t, []int64{otherIndex, 1, 2}, a.got())
	cancel()
	require.NoError(t, <-done)
}

// TestHungReceiverHoldsUpNobody: a receiver that never answers gets its share of
// the places and no more.
func TestHungReceiverHoldsUpNobody(t *testing.T) {
	t.Parallel()
	clock := dagtest.NewClock(noon)
	m := newMemory(clock)
	var b record
	var hanging atomic.Int32
	gotAll := make(chan struct{})
	d := dispatcher(m, clock, callbacks.Options{Concurrency: 4, Grace: time.Second},
		notifier{"a", func(ctx context.Context, _ callbacks.Delivery) error {
			hanging.Add(1)
			<-ctx.Done()
			return ctx.Err()
		}},
		notifier{"b", func(_ context.Context, d callbacks.Delivery) error {
			b.add(d.Event.ID)
			if len(b.got()) == 50 {
				close(gotAll)
			}
			return nil
		}})
	for i := range 500 {
		m.put("hung", i, dag.EventFailure, toA)
	}
	for i := range 50 {
		m.put("fine", i, dag.EventFailure, toB)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	<-gotAll
	require.LessOrEqual(t, hanging.Load(), int32(2), "half of the places")
	cancel()
	clock.BlockUntil(2) // the poll and the grace time
	clock.Advance(time.Second)
	require.NoError(t, <-done)
	for id := int64(1); id <= 500; id++ {
		require.Equal(t, dag.DeliveryPending, m.row(id).status)
		require.Zero(t, m.row(id).event.Attempts, "ended by us: that is no failed delivery")
	}
}

// TestReceiverThatIsAwayIsSpared: after a failure that says so, other events for
// it fail at once for a while instead of each waiting for it.
func TestReceiverThatIsAwayIsSpared(t *testing.T) {
	t.Parallel()
	clock := dagtest.NewClock(noon)
	m := newMemory(clock)
	tries := atomic.Int32{}
	d := dispatcher(m, clock, callbacks.Options{Concurrency: 2}, notifier{"a", func(context.Context, callbacks.Delivery) error {
		tries.Add(1)
		return &callbacks.Failure{Err: errors.New("connection refused"), Down: true}
	}})
	for i := range 100 {
		m.put("t", i, dag.EventFailure, toA)
	}
	last := m.put("t", 100, dag.EventFailure, toA)
	m.rows[last].event.Attempts = 11
	require.NoError(t, d.Drain(t.Context()))
	require.Equal(t, int32(2), tries.Load(), "the first, and the one that had its last chance")
	require.Equal(t, dag.DeliveryDead, m.row(last).status)
	require.Equal(t, "connection refused", m.row(last).cause)
	for id := int64(1); id <= 100; id++ {
		require.Equal(t, dag.DeliveryPending, m.row(id).status)
		require.Contains(t, m.row(id).cause, "connection refused")
		require.Equal(t, 2*time.Second, m.row(id).next.Sub(noon))
	}
}

func TestRunWaitsForAWakeOrThePoll(t *testing.T) {
	t.Parallel()
	clock := dagtest.NewClock(noon)
	m := newMemory(clock)
	wake := make(chan struct{}, 1)
	d := dispatcher(m, clock, callbacks.Options{Wake: wake, Poll: time.Minute},
		notifier{"a", func(context.Context, callbacks.Delivery) error { return nil }})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	clock.BlockUntil(1) // nothing to do: it waits
	m.put("t", 0, dag.EventSuccess, toA)
	d.Wake()
	<-m.changed
	m.put("t", 1, dag.EventSuccess, toA)
	wake <- struct{}{}
	<-m.changed
	clock.BlockUntil(1)
	m.put("t", 2, dag.EventSuccess, toA)
	clock.Advance(time.Minute)
	<-m.changed
	cancel()
	require.NoError(t, <-done)
}

func TestOutboxTrouble(t *testing.T) {
	t.Parallel()
	clock := dagtest.NewClock(noon)
	m := newMemory(clock)
	var a record
	d := dispatcher(m, clock, callbacks.Options{Lease: time.Minute, Poll: time.Minute},
		notifier{"a", func(_ context.Context, d callbacks.Delivery) error { a.add(d.Event.ID); return nil }})
	id := m.put("t", -1, dag.EventSuccess, toA)
	m.claimErr = errors.New("database is away")
	require.ErrorContains(t, d.Drain(t.Context()), "database is away")

	m.markErr = errors.New("database is away")
	require.NoError(t, d.Drain(t.Context()))
	require.Equal(t, dag.DeliveryPending, m.row(id).status)
	clock.Advance(time.Minute)
	require.NoError(t, d.Drain(t.Context()))
	require.Equal(t, []int64{id, id}, a.got(), "at least once: the end of the first delivery could not be recorded")
	require.Equal(t, dag.DeliveryDelivered, m.row(id).status)

	// Run goes on when the outbox comes back.
	m.claimErr = errors.New("database is away")
	next := m.put("t", 5, dag.EventSuccess, toA)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	for m.row(next).status != dag.DeliveryDelivered {
		clock.Advance(time.Minute) // it may not wait for the next look yet
		select {
		case <-m.changed:
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	require.NoError(t, <-done)
}

// TestDeliveryThatOutlivesItsLeaseIsNotBegunAgain: the outbox gives the event
// out once more, but this process still has it in hand.
func TestDeliveryThatOutlivesItsLeaseIsNotBegunAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(dag.SystemClock{})
		var a record
		d := callbacks.New(callbacks.Options{Outbox: m, Lease: 10 * time.Second, Notifiers: []callbacks.Notifier{
			notifier{"a", func(_ context.Context, d callbacks.Delivery) error {
				a.add(d.Event.ID)
				<-dag.SystemClock{}.After(35 * time.Second)
				return nil
			}},
		}})
		id := m.put("t", -1, dag.EventSuccess, toA)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		<-m.changed
		<-dag.SystemClock{}.After(time.Minute)
		cancel()
		require.NoError(t, <-done)
		require.Equal(t, []int64{id}, a.got())
	})
}

func TestRunLetsADeliveryEndWhenItStops(t *testing.T) {
	t.Parallel()
	clock := dagtest.NewClock(noon)
	m := newMemory(clock)
	started, proceed := make(chan struct{}), make(chan struct{})
	d := dispatcher(m, clock, callbacks.Options{}, notifier{"a", func(ctx context.Context, _ callbacks.Delivery) error {
		close(started)
		<-proceed
		return ctx.Err()
	}})
	id := m.put("t", -1, dag.EventSuccess, toA)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	<-started
	cancel()
	close(proceed)
	require.NoError(t, <-done)
	require.Equal(t, dag.DeliveryDelivered, m.row(id).status)
}

func TestDrainEndsWithItsContext(t *testing.T) {
	t.Parallel()
	clock := dagtest.NewClock(noon)
	m := newMemory(clock)
	ctx, cancel := context.WithCancel(t.Context())
	d := dispatcher(m, clock, callbacks.Options{}, notifier{"a", func(context.Context, callbacks.Delivery) error { cancel(); return nil }})
	m.put("t", -1, dag.EventSuccess, toA)
	require.ErrorIs(t, d.Drain(ctx), context.Canceled)
}

func TestNewRefusesProgrammingErrors(t *testing.T) {
	t.Parallel()
	n := notifier{name: "a"}
	m := newMemory(dag.SystemClock{})
	require.Panics(t, func() { callbacks.New(callbacks.Options{}) })
	require.Panics(t, func() { callbacks.New(callbacks.Options{Outbox: m, Notifiers: []callbacks.Notifier{n, n}}) })
}

// TestReceiversBehindOneHostHangTogether: they differ in a path alone, and all
// of them hang, so that each of them by itself would take its share. They hold
// up neither another host nor the one among them that takes what it is sent.
func TestReceiversBehindOneHostHangTogether(t *testing.T) {
	t.Parallel()
	clock := dagtest.NewClock(noon)
	m := newMemory(clock)
	took := make(chan string)
	d := dispatcher(m, clock, callbacks.Options{Concurrency: 4, Grace: time.Second},
		notifier{"webhook", func(ctx context.Context, d callbacks.Delivery) error {
			address, _ := d.Args["url"].(string)
			if strings.HasSuffix(address, "/hang") {
				<-ctx.Done()
				return ctx.Err()
			}
			took <- address
			return nil
		}})
	put := func(task int, address string) {
		m.put("t", task, dag.EventFailure, dag.Callback{Name: "webhook", Args: map[string]any{"url": address}})
	}
	put(0, "https://some.example/fine")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	require.Equal(t, "https://some.example/fine", <-took)
	<-m.changed
	for i := range 20 {
		put(1+i, fmt.Sprintf("https://some.example/%d/hang", i))
	}
	put(21, "https://other.example/")
	put(22, "https://some.example/fine")
	d.Wake()
	require.ElementsMatch(t, []string{"https://other.example/", "https://some.example/fine"}, []string{<-took, <-took})
	cancel()
	clock.BlockUntil(2) // the poll and the grace time
	clock.Advance(time.Second)
	require.NoError(t, <-done)
}

// TestWhatIsBeingDeliveredGoesOnIntoTheDrain: it is neither ended nor begun
// again, and its lease is renewed.
func TestWhatIsBeingDeliveredGoesOnIntoTheDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(dag.SystemClock{})
		var a record
		over := make(chan struct{})
		d := callbacks.New(callbacks.Options{Outbox: m, Lease: 10 * time.Second, Notifiers: []callbacks.Notifier{
			notifier{"a", func(ctx context.Context, d callbacks.Delivery) error {
				a.add(d.Event.ID)
				select {
				case <-dag.SystemClock{}.After(35 * time.Second):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}},
		}})
		first := m.put("t", -1, dag.EventSuccess, toA)
		done := make(chan error, 1)
		go func() { done <- d.RunUntil(t.Context(), over) }()
		synctest.Wait()
		next := m.put("u", -1, dag.EventSuccess, toA)
		close(over)
		require.NoError(t, <-done)
		require.Equal(t, []int64{first, next}, a.got())
		require.Equal(t, dag.DeliveryDelivered, m.row(first).status)
		require.Equal(t, dag.DeliveryDelivered, m.row(next).status)
		require.GreaterOrEqual(t, m.renewals, 10, "35 s, a look each 2.5 s")
	})
}
