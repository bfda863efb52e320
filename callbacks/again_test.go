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

// slowClaims is an outbox whose second claim takes until the first event's
// failure has been recorded and its retry is due.
type slowClaims struct {
	*memory
	claims int
}

func (o *slowClaims) ClaimEvents(ctx context.Context, owner string, n int, lease time.Duration) ([]dag.Event, error) {
	if o.claims++; o.claims == 2 {
		for o.row(1).event.Attempts == 0 {
			time.Sleep(time.Second) // the bubble's time
		}
		time.Sleep(time.Until(o.row(1).next) + time.Millisecond)
	}
	return o.memory.ClaimEvents(ctx, owner, n, lease)
}

// TestAnEventThatIsClaimedBeforeItsFailureIsNotedIsDue: it is not left until its
// lease ends.
func TestAnEventThatIsClaimedBeforeItsFailureIsNotedIsDue(t *testing.T) {
	t.Parallel()
	const lease = time.Hour
	synctest.Test(t, func(t *testing.T) {
		o := &slowClaims{memory: newMemory(dag.SystemClock{})}
		o.put("t", 0, dag.EventRetry, toA)
		o.put("t", 0, dag.EventFailure, toA) // of the same lane: it keeps its place
		var ended record
		d := callbacks.New(callbacks.Options{Outbox: o, Lease: lease, Notifiers: []callbacks.Notifier{notifier{"a", func(_ context.Context, d callbacks.Delivery) error {
			if d.Event.ID == 1 && d.Event.Attempts == 0 {
				return errors.New("no")
			}
			ended.add(d.Event.ID)
			return nil
		}}}})
		began := time.Now()
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		for o.pending() {
			<-o.changed
		}
		stop()
		require.NoError(t, <-done)
		require.Equal(t, []int64{1, 2}, ended.got())
		require.Less(t, time.Since(began), lease)
	})
}
