package executor

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
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
	lost  func([]dag.Lease) ([]dag.Lease, error)
	apply func([]dag.Result) ([]dag.ApplyStatus, error)
	// exchange, when set, answers in apply's place; held is what the tables say.
	exchange func([]dag.Result) ([]dag.ApplyStatus, []dag.Claim, error)
	held     func() ([]dag.Claim, error)
	// version and variables serve attempts.
	version   func() (*dag.DAG, error)
	variables func() ([]dag.Variable, error)
}

func (s brokenStore) Exchange(_ context.Context, r []dag.Result, _ dag.ClaimParams) ([]dag.ApplyStatus, []dag.Claim, error) {
	if s.exchange != nil {
		return s.exchange(r)
	}
	st, err := s.apply(r)
	return st, nil, err
}

func (s brokenStore) Held(context.Context, string) ([]dag.Claim, error) { return s.held() }

func (s brokenStore) Version(context.Context, int64) (*dag.DAG, error) { return s.version() }

func (s brokenStore) Variables(context.Context) ([]dag.Variable, error) { return s.variables() }

func (s brokenStore) Connection(context.Context, string) (dag.Connection, error) {
	return dag.Connection{}, &dag.Error{Code: dag.ErrNotFound, Err: errors.New("there is none")}
}

func (s brokenStore) Renew(_ context.Context, l []dag.Lease, _ time.Duration) ([]dag.Lease, error) {
	return s.renew(l)
}

// StillMine says that every lease has ended.
func (s brokenStore) StillMine(context.Context, dag.Lease) (bool, error) { return false, nil }

func (s brokenStore) LostLeases(_ context.Context, l []dag.Lease) ([]dag.Lease, error) {
	if s.lost == nil {
		return nil, nil
	}
	return s.lost(l)
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
	k := newKeeper(brokenStore{renew: renew}, &fleetClock{Clock: clock, log: slog.New(slog.DiscardHandler)}, NewWake(), slog.New(slog.DiscardHandler),
		40*time.Second, 10*time.Second)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); k.run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return k, clock, ctx
}

// step lets both loops of a keeper come to rest and moves the clock.
func step(clock *dagtest.Clock, d time.Duration) {
	clock.BlockUntil(2)
	clock.Advance(d)
}

// The lease of 40 s has a margin of 10 s: at 30 s it is as good as lost.
func TestKeeperStopsAnAttemptBeforeItsLeaseEnds(t *testing.T) {
	t.Parallel()
	k, clock, _ := keeping(t, func([]dag.Lease) ([]dag.Lease, error) { return nil, errors.New("away") })
	ctx, cancel := context.WithCancelCause(t.Context())
	k.add(claim(1, 1), k.clock.Elapsed(), cancel)
	for range 29 {
		step(clock, time.Second)
	}
	clock.BlockUntil(2)
	require.NoError(t, ctx.Err())
	for range 11 {
		step(clock, time.Second)
	}
	<-ctx.Done()
	require.ErrorIs(t, context.Cause(ctx), operator.ErrLeaseLost)
	require.ErrorIs(t, context.Cause(ctx), errStateAway, "the database is to blame, not the attempt")
}

// A request that hangs, and a process that stood still, must not keep an
// attempt running past its lease.
func TestKeeperLooksAtTheClockWhileARequestHangs(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	k, clock, _ := keeping(t, func([]dag.Lease) ([]dag.Lease, error) { <-hang; return nil, errors.New("at last") })
	t.Cleanup(func() { close(hang) })
	ctx, cancel := context.WithCancelCause(t.Context())
	k.add(claim(1, 1), k.clock.Elapsed(), cancel)
	step(clock, 10*time.Second) // the request begins, and hangs
	for range 25 {              // 35 s: what nobody refused has a margin of 5 s
		clock.BlockUntil(1)
		clock.Advance(time.Second)
	}
	<-ctx.Done()
	require.ErrorIs(t, context.Cause(ctx), operator.ErrLeaseLost)
}

// jumping is a machine whose clock is set while time goes on.
type jumping struct {
	*dagtest.Clock
	ran time.Duration
}

func (j jumping) Elapsed() time.Duration { return j.ran }

func TestKeeperDoesNotBelieveAClockThatIsSet(t *testing.T) {
	t.Parallel()
	clock := dagtest.NewClock(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	machine := &jumping{Clock: clock}
	k := newKeeper(brokenStore{}, &fleetClock{Clock: machine}, NewWake(), slog.New(slog.DiscardHandler), 40*time.Second, 10*time.Second)
	ctx, cancel := context.WithCancelCause(t.Context())
	k.add(claim(1, 1), k.clock.Elapsed(), cancel)
	clock.Set(clock.Now().Add(time.Hour)) // forward: nothing has passed
	require.Equal(t, 10*time.Second, k.dropStale())
	require.NoError(t, ctx.Err())
	clock.Set(clock.Now().Add(-2 * time.Hour)) // back: the lease ends all the same
	machine.ran = 35 * time.Second
	k.dropStale()
	<-ctx.Done()
}

// A process that stood still asks before it gives up what it held: nobody may
// have taken it.
func TestKeeperAsksFirstAfterAStandstill(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lost []dag.Lease
		want error
	}{
		"nobody took it": {},
		"it was taken":   {[]dag.Lease{{TaskInstanceID: 1, Fence: 1}}, operator.ErrLeaseLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := make(chan struct{}, 9)
			k, clock, _ := keeping(t, func([]dag.Lease) ([]dag.Lease, error) { asked <- struct{}{}; return c.lost, nil })
			ctx, cancel := context.WithCancelCause(t.Context())
			k.add(claim(1, 1), k.clock.Elapsed(), cancel)
			step(clock, 10*time.Minute)
			<-asked
			clock.BlockUntil(2)
			require.Equal(t, c.want, context.Cause(ctx))
		})
	}
}

// What was taken from a worker may come back to it before it knows: after a
// standstill the exchange may be quicker than the renewal. The earlier attempt is
// stopped, and its end does not end the later one's lease.
func TestKeeperHoldsTheLaterOfTwoAttempts(t *testing.T) {
	t.Parallel()
	var asked []dag.Lease
	k := newKeeper(brokenStore{renew: func(l []dag.Lease) ([]dag.Lease, error) { asked = l; return nil, nil }},
		&fleetClock{Clock: dagtest.NewClock(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))}, NewWake(), slog.New(slog.DiscardHandler), 40*time.Second, 10*time.Second)
	earlier, cancelEarlier := context.WithCancelCause(t.Context())
	later, cancelLater := context.WithCancelCause(t.Context())
	k.add(claim(1, 1), k.clock.Elapsed(), cancelEarlier)
	k.add(claim(1, 3), k.clock.Elapsed(), cancelLater)
	require.Equal(t, operator.ErrLeaseLost, context.Cause(earlier), "two attempts of one instance must not go on")
	require.NoError(t, later.Err())
	k.ends(leaseOf(claim(1, 1)))
	require.False(t, k.held[1].ended, "it is stopped when its lease cannot be renewed")
	k.remove(leaseOf(claim(1, 1)))
	require.True(t, k.holds(leaseOf(claim(1, 3))))
	require.True(t, k.renew(t.Context()))
	require.Equal(t, []dag.Lease{leaseOf(claim(1, 3))}, asked)
	k.remove(leaseOf(claim(1, 3)))
	require.Empty(t, k.leases(func(*held) bool { return true }))
}

func TestKeeperLooksAtOnceWhenAsked(t *testing.T) {
	t.Parallel()
	taken := dag.Lease{TaskInstanceID: 1, Fence: 1}
	k, _, _ := keeping(t, func([]dag.Lease) ([]dag.Lease, error) { return []dag.Lease{taken}, nil })
	ctx, cancel := context.WithCancelCause(t.Context())
	k.add(claim(1, 1), k.clock.Elapsed(), cancel)
	k.look.Signal()
	<-ctx.Done() // no time has passed
	require.Equal(t, operator.ErrLeaseLost, context.Cause(ctx))
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
	k.add(claim(1, 1), k.clock.Elapsed(), cancelKept)
	k.add(claim(2, 5), k.clock.Elapsed(), cancelLost)
	for range 100 { // 100 s, well past the lease
		step(clock, time.Second)
	}
	<-lost.Done()
	require.Equal(t, operator.ErrLeaseLost, context.Cause(lost))
	clock.BlockUntil(2)
	require.NoError(t, kept.Err(), "a lease that is renewed holds for ever")
}

// Long before the next renewal, which is after 10 s, the keeper looks; it
// believes only the renewal, and stops an attempt once.
func TestKeeperAsksWhetherALeaseWasTaken(t *testing.T) {
	t.Parallel()
	clock := dagtest.NewClock(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	renewed := make(chan []dag.Lease, 10)
	var mu sync.Mutex
	gone := map[int64]bool{}
	k := newKeeper(brokenStore{
		lost: func(l []dag.Lease) (lost []dag.Lease, _ error) {
			for _, l := range l {
				if l.TaskInstanceID == 1 {
					lost = append(lost, l)
				}
			}
			return lost, nil
		},
		renew: func(l []dag.Lease) (lost []dag.Lease, _ error) {
			renewed <- l
			mu.Lock()
			defer mu.Unlock()
			for _, l := range l {
				if gone[l.TaskInstanceID] {
					lost = append(lost, l)
				}
			}
			return lost, nil
		},
	}, &fleetClock{Clock: clock, log: slog.New(slog.DiscardHandler)}, NewWake(), slog.New(slog.DiscardHandler), 40*time.Second, 10*time.Second)
	k.poll = 500 * time.Millisecond
	running, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); k.run(running) }()
	t.Cleanup(func() { stop(); <-done })
	taken, cancelTaken := context.WithCancelCause(t.Context())
	kept, cancelKept := context.WithCancelCause(t.Context())
	k.add(claim(1, 1), k.clock.Elapsed(), cancelTaken)
	k.add(claim(2, 1), k.clock.Elapsed(), cancelKept)
	look := func() {
		clock.BlockUntil(3)
		clock.Advance(500 * time.Millisecond)
	}
	look()
	require.Len(t, <-renewed, 2)
	require.NoError(t, taken.Err(), "the server that was asked lagged behind")
	mu.Lock()
	gone[1] = true
	mu.Unlock()
	look()
	require.Len(t, <-renewed, 2)
	<-taken.Done()
	require.ErrorIs(t, context.Cause(taken), operator.ErrLeaseLost)
	for range 5 {
		look() // what is known to be gone is asked for no more
	}
	clock.BlockUntil(3)
	require.Empty(t, renewed)
	require.NoError(t, kept.Err())
}

// TestKeeperStopsNothingThatHasEnded: the result waits for the database, and the
// words say so.
func TestKeeperStopsNothingThatHasEnded(t *testing.T) {
	t.Parallel()
	clock := dagtest.NewClock(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	var out bytes.Buffer
	k := newKeeper(brokenStore{}, &fleetClock{Clock: clock, log: slog.New(slog.DiscardHandler)}, NewWake(), slog.New(slog.NewTextHandler(&out, nil)), 40*time.Second, 10*time.Second)
	ctx, cancel := context.WithCancelCause(t.Context())
	k.add(claim(1, 1), k.clock.Elapsed(), cancel)
	k.ends(leaseOf(claim(1, 1)))
	for range 41 {
		clock.Advance(time.Second)
		k.dropStale()
	}
	require.NoError(t, ctx.Err())
	require.Contains(t, out.String(), "it is kept, and counts unless somebody takes the task over")
	require.Equal(t, 1, strings.Count(out.String(), "\n"))
}

// TestKeeperSaysNothingOfWhatHasEnded: a result that the exchange has just written
// is no lease that was taken away, and no reason to renew all others at once.
func TestKeeperSaysNothingOfWhatHasEnded(t *testing.T) {
	t.Parallel()
	clock := dagtest.NewClock(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	var out bytes.Buffer
	written := leaseOf(claim(1, 1))
	asked := make(chan []dag.Lease)
	k := newKeeper(brokenStore{
		renew: func([]dag.Lease) ([]dag.Lease, error) { return []dag.Lease{written}, nil },
		lost:  func(l []dag.Lease) ([]dag.Lease, error) { asked <- l; return nil, nil },
	}, &fleetClock{Clock: clock, log: slog.New(slog.DiscardHandler)}, NewWake(), slog.New(slog.NewTextHandler(&out, nil)), 40*time.Second, 10*time.Second)
	k.poll = 500 * time.Millisecond
	ended, cancelEnded := context.WithCancelCause(t.Context())
	_, cancel := context.WithCancelCause(t.Context())
	k.add(claim(1, 1), k.clock.Elapsed(), cancelEnded)
	k.add(claim(2, 1), k.clock.Elapsed(), cancel)
	k.ends(written)

	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { defer close(over); k.ask(ctx) }()
	clock.BlockUntil(1)
	clock.Advance(k.poll)
	require.Equal(t, []dag.Lease{leaseOf(claim(2, 1))}, <-asked)
	stop()
	<-over

	require.True(t, k.renew(t.Context()))
	require.NoError(t, ended.Err())
	require.Empty(t, out.String())
}
