package callbacks_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/callbacks"
	"github.com/airlock-dag/airlock/dag"
)

// wrongClock is a machine's clock that is off.
type wrongClock struct {
	dag.SystemClock
	off time.Duration
}

func (c wrongClock) Now() time.Time { return c.SystemClock.Now().Add(c.off) }

// TestAMachineClockThatIsOff: when an event is due again, and how old it is, the
// outbox says. A machine that is behind would use up all attempts at once, one
// that is ahead would let the event wait for as long as it is ahead.
func TestAMachineClockThatIsOff(t *testing.T) {
	t.Parallel()
	for name, off := range map[string]time.Duration{"behind": -26 * time.Hour, "ahead": 26 * time.Hour} {
		for kind, failure := range map[string]callbacks.Failure{"down": {Err: errors.New("503")}, "takes no more": {Err: errors.New("429"), Throttled: true}} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					m := newMemory(dag.SystemClock{})
					began := dag.SystemClock{}.Now()
					var delivered time.Duration
					d := callbacks.New(callbacks.Options{
						Outbox: m, Clock: wrongClock{off: off}, MaxAttempts: 8, Poll: time.Second,
						Notifiers: []callbacks.Notifier{notifier{"a", func(context.Context, callbacks.Delivery) error {
							passed := dag.SystemClock{}.Now().Sub(began)
							if passed < 20*time.Second {
								return &failure
							}
							delivered = passed
							return nil
						}}},
					})
					id := m.put("t", 0, dag.EventFailure, toA)
					m.rows[id].event.CreatedAt = began
					ctx, cancel := context.WithCancel(t.Context())
					done := make(chan error, 1)
					go func() { done <- d.Run(ctx) }()
					time.Sleep(10 * time.Minute) // of the test's own time
					cancel()
					require.NoError(t, <-done)
					require.Equal(t, dag.DeliveryDelivered, m.row(id).status)
					require.Less(t, delivered, 5*time.Minute)
				})
			})
		}
	}
}
