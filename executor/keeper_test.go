package executor

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
	"github.com/airlock-dag/airlock/executor/operator"
)

// brokenStore is a WorkerStore that does what a test says; what it does not
// say panics.
type brokenStore struct {
	WorkerStore
	renew func([]dag.Lease) ([]dag.Lease, error)
	apply func([]dag.Result) ([]dag.ApplyStatus, error)
	// version and variables serve attempts.
	version   func() (*dag.DAG, error)
	variables func() ([]dag.Variable, error)
}

func (s brokenStore) Exchange(_ context.Context, r []dag.Result, _ dag.ClaimParams) ([]dag.ApplyStatus, []dag.Claim, error) {
	st, err := s.apply(r)
	return st, nil, err
}

func (s brokenStore) Version(context.Context, int64) (*dag.DAG, error) { return s.version() }

func (s brokenStore) Variables(context.Context) ([]dag.Variable, error) { return s.variables() }

func (s brokenStore) Connection(context.Context, string) (dag.Connection, error) {
	return dag.Connection{}, &dag.Error{Code: dag.ErrNotFound, Err: errors.New("there is none")}
}

func (s brokenStore) Renew(_ context.Context, l []dag.Lease, _ time.Duration) ([]dag.Lease, error) {
	return s.renew(l)
}

func (s brokenStore) Apply(_ context.Context, r []dag.Result) ([]dag.ApplyStatus, error) {
	return s.apply(r)
}

func claim(id, fence int64) dag.Claim {
	return dag.Claim{TaskInstance: dag.TaskInstance{ID: id, Fence: fence, TaskInstanceKey: dag.TaskInstanceKey{DagID: "d", RunID: "r", TaskID: "t", MapIndex: -1}}}
}

func keeping(t *testing.T, renew func([]dag.Lease) ([]dag.Lease, error)) (*keeper, *dagtest.Clock, context.Context) {
	t.Helper()
	clock := dagtest.NewClock(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	k := newKeeper(brokenStore{renew: renew}, clock, slog.New(slog.DiscardHandler), 40*time.Second, 10*time.Second)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); k.run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return k, clock, ctx
}

func TestKeeperStopsAnAttemptBeforeItsLeaseEnds(t *testing.T) {
	t.Parallel()
	k, clock, _ := keeping(t, func([]dag.Lease) ([]dag.Lease, error) { return nil, errors.New("away") })
	ctx, cancel := context.WithCancelCause(t.Context())
	k.add(claim(1, 1), clock.Now(), cancel)
	for range 3 { // 10, 20, 30 s: the lease of 40 s has a margin of 10 s
		clock.BlockUntil(1)
		require.NoError(t, ctx.Err())
		clock.Advance(10 * time.Second)
	}
	clock.BlockUntil(1)
	require.NoError(t, ctx.Err(), "at 30 s the margin is just reached")
	clock.Advance(time.Second * 10)
	<-ctx.Done()
	require.ErrorIs(t, context.Cause(ctx), operator.ErrLeaseLost)
	require.ErrorIs(t, context.Cause(ctx), errStateAway, "the database is to blame, not the attempt")
}

func TestKeeperRenewsAndStopsWhatWasTakenAway(t *testing.T) {
	t.Parallel()
	taken := dag.Lease{TaskInstanceID: 2, Fence: 5}
	var mu sync.Mutex
	asked := 0
	k, clock, _ := keeping(t, func(l []dag.Lease) ([]dag.Lease, error) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		if asked == 3 {
			return []dag.Lease{taken}, nil
		}
		return nil, nil
	})
	kept, cancelKept := context.WithCancelCause(t.Context())
	lost, cancelLost := context.WithCancelCause(t.Context())
	k.add(claim(1, 1), clock.Now(), cancelKept)
	k.add(claim(2, 5), clock.Now(), cancelLost)
	for range 10 { // 100 s, well past the lease
		clock.BlockUntil(1)
		clock.Advance(10 * time.Second)
	}
	<-lost.Done()
	require.Equal(t, operator.ErrLeaseLost, context.Cause(lost))
	clock.BlockUntil(1)
	require.NoError(t, kept.Err(), "a lease that is renewed holds for ever")
}
