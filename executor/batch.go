package executor

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/airlock-dag/airlock/dag"
)

const (
	// maxBatch is how many results share one commit. Past about a hundred a
	// larger batch gains nothing and makes one stale result dearer.
	maxBatch = 100
	// aloneAfter is how long a batch is tried as a whole before its results are
	// tried one by one: one that cannot be written must not hold up the others.
	aloneAfter = 2 * time.Second
	// firstWait and longestWait bound the time between two tries.
	firstWait, longestWait = 50 * time.Millisecond, 2 * time.Second
)

// pending is a result on its way to the store.
type pending struct {
	result dag.Result
	claim  dag.Claim
	// done is called with what became of it, from the exchange's goroutine.
	done func(dag.ApplyStatus, error)
}

// backlog holds the results that the state database has not taken. They are
// kept for as long as it does not: each names its fence, so that one which comes
// too late changes nothing, and one that comes in time saves the attempt.
type backlog struct {
	late  []pending
	since time.Time // of the first try that failed
	waits *backoff.ExponentialBackOff
	wait  time.Duration // before the next try
}

// hopeless tells whether trying them together has failed for long enough.
func (b *backlog) hopeless(now time.Time) bool {
	return len(b.late) > 0 && now.Sub(b.since) >= aloneAfter
}

// keep takes what was not written, nothing for a success.
func (b *backlog) keep(late []pending, now time.Time) {
	if len(b.late) == 0 {
		b.since = now
		b.waits = backoff.NewExponentialBackOff()
		b.waits.InitialInterval, b.waits.MaxInterval = firstWait, longestWait
	}
	b.late, b.wait = late, b.waits.NextBackOff()
}

// writeAlone tries each result of a batch once, those that have failed before
// after the others, and gives back those that the database still does not take.
func (x *exchange) writeAlone(ctx context.Context, batch []pending) []pending {
	var late []pending
	var why error
	old := len(x.backlog.late)
	for _, p := range append(append([]pending{}, batch[old:]...), batch[:old]...) {
		status, err := x.w.o.Store.Apply(ctx, resultsOf([]pending{p}))
		if err != nil && dag.CodeOf(err) != dag.ErrInvalid {
			late, why = append(late, p), err
			continue
		}
		x.tell([]pending{p}, status, err)
	}
	if why != nil {
		x.w.o.Log.Warn("results could not be written yet; they are kept and tried again", "results", len(late), "error", why)
	}
	return late
}

// drop gives up what could not be written before the worker had to end.
func (x *exchange) drop(batch []pending) {
	x.tell(batch, nil, errors.New("the worker ended before the state database took the result"))
}

// tell lets everybody know what became of a batch, and that its runs are to be
// looked at.
func (x *exchange) tell(batch []pending, status []dag.ApplyStatus, err error) {
	x.tellEach(batch, status, err)
	x.w.o.SchedulerWake.Signal()
}

// tellEach lets those know who wait for the results of a batch.
func (x *exchange) tellEach(batch []pending, status []dag.ApplyStatus, err error) {
	for i, p := range batch {
		var st dag.ApplyStatus
		if err == nil {
			st = status[i]
		} else {
			x.w.o.Log.Error("a result could not be written; the attempt's lease will end and it is tried again",
				"task_instance", p.claim.String(), "error", err)
		}
		p.done(st, err)
	}
}

func resultsOf(batch []pending) []dag.Result {
	out := make([]dag.Result, len(batch))
	for i, p := range batch {
		out[i] = p.result
	}
	return out
}
