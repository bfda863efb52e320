package executor

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
)

// passing makes passes beside a worker whose clock stands still, in answer to
// what a scheduler asks for.
type passing struct {
	brokenStore
	passes func(dag.SchedulePass, dag.ClaimParams) ([]dag.Claim, dag.ScheduleReport, error)
}

func (s passing) ScheduleAndClaim(_ context.Context, pass dag.SchedulePass, p dag.ClaimParams, _ func(*dag.RunSnapshot, time.Time) (dag.Decision, error)) (
	[]dag.Claim, dag.ScheduleReport, error,
) {
	return s.passes(pass, p)
}

func (s passing) ExchangeAndSchedule(ctx context.Context, r []dag.Result, p dag.ClaimParams, _ func(*dag.RunSnapshot, time.Time) (dag.Decision, error)) (
	[]dag.ApplyStatus, []dag.Claim, dag.ScheduleReport, error,
) {
	status, claims, err := s.Exchange(ctx, r, p)
	return status, claims, dag.ScheduleReport{}, err
}

// allApplied answers an exchange that gives no work.
func allApplied(r []dag.Result) ([]dag.ApplyStatus, []dag.Claim, error) {
	status := make([]dag.ApplyStatus, len(r))
	for i := range status {
		status[i] = dag.Applied
	}
	return status, nil, nil
}

// ask asks a worker for a pass, as its scheduler does, until it waits for one.
func ask(w *Worker, limit int) passMade {
	for {
		if made, ok := w.schedule(context.Background(), dag.SchedulePass{Limit: limit}); ok {
			return made
		}
	}
}

func firstClaim(id int64) dag.Claim {
	c := claim(id, 1)
	c.TryNumber = 1
	return c
}

// TestAPassIsMadeByTheWorkerThatWaits: what it takes begins, and counts against
// the worker's slots in the next one.
func TestAPassIsMadeByTheWorkerThatWaits(t *testing.T) {
	t.Parallel()
	var room []int
	hold := make(chan struct{})
	store := passing{brokenStore: brokenStore{
		version:  func() (*dag.DAG, error) { <-hold; return echoDAG("x"), nil },
		exchange: allApplied,
	}}
	store.passes = func(pass dag.SchedulePass, p dag.ClaimParams) ([]dag.Claim, dag.ScheduleReport, error) {
		room = append(room, p.N)
		claims := []dag.Claim{firstClaim(int64(len(room)))}
		return claims, dag.ScheduleReport{Looked: 1, Queued: 1}, nil
	}
	w := workerOn(t, store)
	w.o.Concurrency = 2
	w.o.Scheduler = NewScheduler(SchedulerOptions{})
	w.clock.Clock = dagtest.NewClock(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	ended := make(chan dag.Result, 2)
	w.o.OnEnd = func(_ dag.Claim, r dag.Result) { ended <- r }
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { defer close(over); (&exchange{w: w, work: t.Context()}).run(ctx, t.Context()) }()

	for range 2 {
		made := ask(w, 10)
		require.NoError(t, made.err)
		require.Equal(t, 1, made.taken)
	}
	require.Equal(t, []int{2, 1}, room)
	_, ok := w.schedule(t.Context(), dag.SchedulePass{Limit: 10})
	require.False(t, ok, "no slot is free: the scheduler makes the pass itself")
	require.Len(t, room, 2)
	close(hold)
	for range 2 {
		require.Equal(t, dag.StateSuccess, (<-ended).State)
	}
	stop()
	<-over
	_, ok = w.schedule(t.Context(), dag.SchedulePass{Limit: 10})
	require.False(t, ok, "a worker that has stopped makes none")
}

// TestAPassWhoseAnswerWasLost: what is known to be taken begins, the rest is asked
// for before anything more is taken, and no pass is made until then.
func TestAPassWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	store := passing{brokenStore: brokenStore{
		version:  func() (*dag.DAG, error) { return echoDAG("x"), nil },
		exchange: allApplied,
		held:     func() ([]dag.Claim, error) { return []dag.Claim{firstClaim(7), firstClaim(8)}, nil },
		renew:    func([]dag.Lease) ([]dag.Lease, error) { return nil, nil },
	}}
	store.passes = func(dag.SchedulePass, dag.ClaimParams) ([]dag.Claim, dag.ScheduleReport, error) {
		return []dag.Claim{firstClaim(7)}, dag.ScheduleReport{}, fmt.Errorf("schedule: %w", dag.ErrOutcomeUnknown)
	}
	w := workerOn(t, store)
	w.o.Scheduler = NewScheduler(SchedulerOptions{})
	ended := make(chan dag.Result, 4)
	w.o.OnEnd = func(_ dag.Claim, r dag.Result) { ended <- r }
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { defer close(over); (&exchange{w: w, work: t.Context()}).run(ctx, t.Context()) }()
	require.ErrorIs(t, ask(w, 10).err, dag.ErrOutcomeUnknown)
	got := []int64{(<-ended).TaskInstanceID, (<-ended).TaskInstanceID}
	require.ElementsMatch(t, []int64{7, 8}, got)
	stop()
	<-over
	require.Empty(t, ended, "each began once")
}

// ownPasses counts the passes that a scheduler makes itself.
type ownPasses struct {
	SchedulerStore
	made int
}

func (s *ownPasses) Schedule(context.Context, dag.SchedulePass, func(*dag.RunSnapshot, time.Time) (dag.Decision, error)) (dag.ScheduleReport, error) {
	s.made++
	return dag.ScheduleReport{}, nil
}

// TestAfterAPassThatFailedTheSchedulerMakesItsOwn: a worker's pass has no longer
// than a lease, which a large one may never keep.
func TestAfterAPassThatFailedTheSchedulerMakesItsOwn(t *testing.T) {
	t.Parallel()
	own := &ownPasses{}
	s := NewScheduler(SchedulerOptions{Store: own})
	s.beside = workerOn(t, passing{})
	go func() { (<-s.beside.passes).answer <- passMade{err: context.DeadlineExceeded} }()
	var err error
	for err == nil { // until the worker waits
		_, _, err = s.schedule(t.Context(), dag.SchedulePass{})
	}
	require.ErrorIs(t, err, context.DeadlineExceeded)

	before := own.made
	waits := make(chan passAsked, 1)
	go func() { waits <- <-s.beside.passes }()
	for range 1000 { // time for the worker to wait again
		runtime.Gosched()
	}
	_, _, err = s.schedule(t.Context(), dag.SchedulePass{})
	require.NoError(t, err)
	require.Equal(t, before+1, own.made)
	require.Empty(t, waits)

	// That went well: the worker is asked again.
	go func() { (<-waits).answer <- passMade{taken: 1} }()
	for taken := 0; taken == 0; {
		_, taken, err = s.schedule(t.Context(), dag.SchedulePass{})
		require.NoError(t, err)
	}
}
