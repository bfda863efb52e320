package callbacks_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/callbacks"
	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
)

// TestADeadReceiverCostsFewCommits: a thousand events that wait for a receiver
// that is away fail in some dozen transactions, and one of another receiver that
// stands behind them all is delivered.
func TestADeadReceiverCostsFewCommits(t *testing.T) {
	t.Parallel()
	clock := dagtest.NewClock(noon)
	m := newMemory(clock)
	var tries atomic.Int32
	var ended record
	d := dispatcher(m, clock, callbacks.Options{}, notifier{"a", func(context.Context, callbacks.Delivery) error {
		tries.Add(1)
		return &callbacks.Failure{Err: errors.New("connection refused"), Down: true}
	}}, notifier{"b", func(_ context.Context, d callbacks.Delivery) error {
		ended.add(d.Event.ID)
		return nil
	}})
	const events = 1000
	for i := range events {
		m.put("t", i, dag.EventFailure, toA)
	}
	last := m.put("t", 0, dag.EventSuccess, dag.Callback{Name: "b"})
	require.NoError(t, d.Drain(t.Context()))
	require.Equal(t, []int64{last}, ended.got())
	require.LessOrEqual(t, tries.Load(), int32(4), "half of eight places")
	for id := int64(1); id <= events; id++ {
		r := m.row(id)
		require.Equal(t, dag.DeliveryPending, r.status)
		require.Equal(t, 1, r.event.Attempts)
		require.Equal(t, 2*time.Second, r.next.Sub(noon), "a retry of its own")
	}
	// Claims: 32 events, of which four are tried; then twice as many each time, up
	// to 256, less what is still being recorded. Each claim may be followed by one
	// transaction of failures, and each try by one.
	require.LessOrEqual(t, m.commits, 60)

	// All of them come back, and go at once when the receiver does.
	clock.Advance(2 * time.Second)
	before := m.commits
	require.NoError(t, d.Drain(t.Context()))
	require.LessOrEqual(t, m.commits-before, 60)
	require.LessOrEqual(t, tries.Load(), int32(8))
}

// slowMissed is an outbox whose first recording of failures waits.
type slowMissed struct {
	*memory
	began, let chan struct{}
	writes     []int // how many at a time
}

func (o *slowMissed) EventsMissed(ctx context.Context, missed []dag.MissedDelivery) error {
	if o.writes = append(o.writes, len(missed)); len(o.writes) == 1 {
		close(o.began)
		<-o.let
	}
	return o.memory.EventsMissed(ctx, missed)
}

// TestFailuresGatherWhileOthersAreRecorded: a lone failure waits for nobody, and
// what fails while it is being recorded is recorded together.
func TestFailuresGatherWhileOthersAreRecorded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &slowMissed{memory: newMemory(dag.SystemClock{}), began: make(chan struct{}), let: make(chan struct{})}
		for i := range 5 {
			o.put("t", i, dag.EventFailure, dag.Callback{Name: "a", Args: map[string]any{"url": i}}) // five receivers
		}
		d := callbacks.New(callbacks.Options{Outbox: o, Concurrency: 10, Notifiers: []callbacks.Notifier{notifier{"a", func(_ context.Context, d callbacks.Delivery) error {
			if d.Event.ID > 1 {
				<-o.began
			}
			return errors.New("no")
		}}}})
		go func() {
			<-o.began
			synctest.Wait() // all others have failed and wait
			close(o.let)
		}()
		require.NoError(t, d.Drain(t.Context()))
		require.Equal(t, []int{1, 4}, o.writes)
		for id := int64(1); id <= 5; id++ {
			require.Equal(t, 1, o.row(id).event.Attempts)
		}
	})
}
