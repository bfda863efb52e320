package callbacks_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/callbacks"
	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
)

// TestAReceiverThatTakesNoMoreCostsNothing: two hundred events for a receiver
// that answers 429 after each are all delivered in the end, however long it
// takes: being put off is no failed delivery.
func TestAReceiverThatTakesNoMoreCostsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(dag.SystemClock{})
		var taken record
		var mu sync.Mutex
		next := time.Time{}
		d := callbacks.New(callbacks.Options{Outbox: m, MaxAttempts: 2, Poll: time.Second, Notifiers: []callbacks.Notifier{notifier{"a", func(_ context.Context, d callbacks.Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			now := dag.SystemClock{}.Now()
			if now.Before(next) {
				return &callbacks.Failure{Err: errors.New("429"), Down: true, Throttled: true, RetryAfter: next.Sub(now)}
			}
			next = now.Add(time.Second) // one a second
			taken.add(d.Event.ID)
			return nil
		}}}})
		for i := range 200 {
			id := m.put("t", i, dag.EventFailure, toA)
			m.rows[id].event.CreatedAt = dag.SystemClock{}.Now()
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		for len(taken.got()) < 200 {
			time.Sleep(time.Minute) // of the test's own time
			require.Less(t, dag.SystemClock{}.Now().Sub(m.rows[1].event.CreatedAt), 3*time.Hour)
		}
		cancel()
		require.NoError(t, <-done)
		for id := int64(1); id <= 200; id++ {
			require.Equal(t, dag.DeliveryDelivered, m.row(id).status)
			require.Zero(t, m.row(id).event.Attempts)
		}
	})
}

// TestThrottlingHasAnEnd: an event that has been put off for a day fails as any
// other.
func TestThrottlingHasAnEnd(t *testing.T) {
	t.Parallel()
	clock := dagtest.NewClock(noon)
	m := newMemory(clock)
	d := dispatcher(m, clock, callbacks.Options{MaxAttempts: 1}, notifier{"a", func(context.Context, callbacks.Delivery) error {
		return &callbacks.Failure{Err: errors.New("429"), Throttled: true, Down: true}
	}})
	id := m.put("t", 0, dag.EventFailure, toA)
	require.NoError(t, d.Drain(t.Context()))
	require.Equal(t, dag.DeliveryPending, m.row(id).status)
	clock.Advance(24 * time.Hour)
	require.NoError(t, d.Drain(t.Context()))
	require.Equal(t, dag.DeliveryDead, m.row(id).status)
}

// TestLeasesAreRenewedWhileADeliveryRuns: nobody else gets the event, however
// long its receiver takes.
func TestLeasesAreRenewedWhileADeliveryRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(dag.SystemClock{})
		d := callbacks.New(callbacks.Options{Outbox: m, Lease: 30 * time.Second, Timeout: time.Hour, Notifiers: []callbacks.Notifier{notifier{"a", func(context.Context, callbacks.Delivery) error {
			time.Sleep(10 * time.Minute)
			return nil
		}}}})
		id := m.put("t", 0, dag.EventFailure, toA)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		for range 9 {
			time.Sleep(time.Minute)
			other, err := m.ClaimEvents(t.Context(), "another", 10, time.Minute)
			require.NoError(t, err)
			require.Empty(t, other)
		}
		for m.row(id).status != dag.DeliveryDelivered {
			time.Sleep(time.Minute)
		}
		cancel()
		require.NoError(t, <-done)
	})
}
