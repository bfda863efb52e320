package executor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
)

// exchanging runs an exchange that holds the given results until it ends, and
// gives what became of each.
func exchanging(t *testing.T, store brokenStore, ids ...int64) (status map[int64]dag.ApplyStatus, failed map[int64]error, wake Wake) {
	t.Helper()
	wake = NewWake()
	w := NewWorker(WorkerOptions{Store: store, Log: slog.New(slog.DiscardHandler), SchedulerWake: wake, Lease: time.Minute})
	status, failed = map[int64]dag.ApplyStatus{}, map[int64]error{}
	x := &exchange{w: w, work: t.Context(), held: len(ids)}
	for _, id := range ids {
		w.results <- pending{result: dag.Result{TaskInstanceID: id}, done: func(st dag.ApplyStatus, err error) {
			status[id], failed[id] = st, err
			x.release()
		}}
	}
	stopped, stop := context.WithCancel(t.Context())
	stop() // no new work: it ends when everything is written
	x.run(stopped, t.Context())
	return status, failed, wake
}

func TestExchangeKeepsResultsWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	var calls []int
	status, failed, wake := exchanging(t, brokenStore{apply: func(r []dag.Result) ([]dag.ApplyStatus, error) {
		if calls = append(calls, len(r)); len(calls) < 3 {
			return nil, errRefused
		}
		st := make([]dag.ApplyStatus, len(r))
		for i, x := range r {
			st[i] = dag.Applied
			if x.TaskInstanceID == 2 {
				st[i] = dag.StaleFence
			}
		}
		return st, nil
	}}, 0, 1, 2)
	require.Equal(t, map[int64]dag.ApplyStatus{0: dag.Applied, 1: dag.Applied, 2: dag.StaleFence}, status)
	require.Equal(t, map[int64]error{0: nil, 1: nil, 2: nil}, failed)
	require.Equal(t, []int{3, 3, 3}, calls, "three results shared one commit, at the third try")
	require.Len(t, wake, 1)
}

func TestExchangeDropsAWrongResultAlone(t *testing.T) {
	t.Parallel()
	_, failed, _ := exchanging(t, brokenStore{apply: func(r []dag.Result) ([]dag.ApplyStatus, error) {
		if slices.ContainsFunc(r, func(x dag.Result) bool { return x.TaskInstanceID == 1 }) {
			return nil, &dag.Error{Code: dag.ErrInvalid, Err: errors.New("bad")}
		}
		return make([]dag.ApplyStatus, len(r)), nil
	}}, 0, 1, 2)
	require.NoError(t, failed[0])
	require.Error(t, failed[1])
	require.NoError(t, failed[2])
}

// TestExchangeDoesNotLetOneResultHoldUpOthers: the table of letters is broken,
// say, so that a failure cannot be sealed. Successes go through, and the
// failure is kept until it is mended.
func TestExchangeDoesNotLetOneResultHoldUpOthers(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	written := map[int64]bool{}
	_, failed, _ := exchanging(t, brokenStore{apply: func(r []dag.Result) ([]dag.ApplyStatus, error) {
		mu.Lock()
		defer mu.Unlock()
		mended := written[0] && written[2]
		for _, x := range r {
			if x.TaskInstanceID == 1 && !mended {
				return nil, errors.New("no such table: dead_letter")
			}
		}
		for _, x := range r {
			written[x.TaskInstanceID] = true
		}
		return make([]dag.ApplyStatus, len(r)), nil
	}}, 0, 1, 2)
	require.Equal(t, map[int64]error{0: nil, 1: nil, 2: nil}, failed)
	require.Equal(t, map[int64]bool{0: true, 1: true, 2: true}, written)
}

// TestExchangeFindsAClaimWhoseAnswerWasLost: the server took the claim, and was
// away before anybody could ask it. When it is back the worker does what it
// holds, and takes nothing more before it knows.
func TestExchangeFindsAClaimWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	stopped, stop := context.WithCancel(t.Context())
	var asked, exchanges atomic.Int32
	w := workerOn(t, brokenStore{
		version: func() (*dag.DAG, error) { return echoDAG("x"), nil },
		exchange: func(r []dag.Result) ([]dag.ApplyStatus, []dag.Claim, error) {
			if exchanges.Add(1) == 1 {
				return nil, nil, fmt.Errorf("claim: %w", dag.ErrOutcomeUnknown)
			}
			st := make([]dag.ApplyStatus, len(r))
			for i := range st {
				st[i] = dag.Applied
			}
			return st, nil, nil
		},
		held: func() ([]dag.Claim, error) {
			require.EqualValues(t, 1, exchanges.Load(), "nothing is taken while it does not know")
			if asked.Add(1) < 3 {
				return nil, errRefused
			}
			lost := claim(7, 3)
			lost.TryNumber = 1
			return []dag.Claim{lost}, nil
		},
		renew: func([]dag.Lease) ([]dag.Lease, error) { return nil, nil },
	})
	var ended []dag.Result
	w.o.Poll = time.Millisecond
	w.o.OnEnd = func(_ dag.Claim, r dag.Result) { ended = append(ended, r); stop() }
	(&exchange{w: w, work: t.Context()}).run(stopped, t.Context())
	require.Len(t, ended, 1)
	require.Equal(t, dag.StateSuccess, ended[0].State)
	require.EqualValues(t, 7, ended[0].TaskInstanceID)
	require.EqualValues(t, 3, asked.Load())
}

// TestAWorkerThatJoinsClaimsAtOnce: its clock stands still, so that it can wait
// for no poll, and nobody wakes it.
func TestAWorkerThatJoinsClaimsAtOnce(t *testing.T) {
	t.Parallel()
	stopped, stop := context.WithCancel(t.Context())
	asked := 0
	w := workerOn(t, brokenStore{exchange: func([]dag.Result) ([]dag.ApplyStatus, []dag.Claim, error) {
		asked++
		stop()
		return nil, nil, nil
	}})
	w.clock.Clock = dagtest.NewClock(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	(&exchange{w: w, work: t.Context()}).run(stopped, t.Context())
	require.Equal(t, 1, asked)
}

// TestAnOperatorThatDoesNotComeBackEndsNoStop: it hangs in a call that nothing
// interrupts. A worker that was told to stop leaves it when its time is over.
func TestAnOperatorThatDoesNotComeBackEndsNoStop(t *testing.T) {
	t.Parallel()
	stopped, stop := context.WithCancel(t.Context())
	over, end := context.WithCancel(t.Context())
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	given := false
	w := workerOn(t, brokenStore{
		version: func() (*dag.DAG, error) { <-hang; return nil, errRefused },
		exchange: func([]dag.Result) ([]dag.ApplyStatus, []dag.Claim, error) {
			if given {
				return nil, nil, nil
			}
			given = true
			stop()
			c := claim(7, 1)
			c.TryNumber = 1
			return nil, []dag.Claim{c}, nil
		},
	})
	x := &exchange{w: w, work: t.Context()}
	done := make(chan struct{})
	go func() { defer close(done); x.run(stopped, over) }()
	end()
	<-done
	require.Equal(t, 1, x.held, "it has its slot still")
}
