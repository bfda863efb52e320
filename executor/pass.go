package executor

import (
	"context"
	"errors"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// passAsked is a scheduling pass that the scheduler of the same process wants
// made by a worker with room.
type passAsked struct {
	ctx    context.Context
	pass   dag.SchedulePass
	answer chan<- passMade
}

type passMade struct {
	busy   bool // no slot was free: nothing was done
	report dag.ScheduleReport
	taken  int // how many of what was queued the worker has begun
	err    error
}

// schedule makes a pass in the goroutine that counts the slots, if that one waits
// for something to do; else the scheduler makes it itself, beside the exchange.
func (w *Worker) schedule(ctx context.Context, pass dag.SchedulePass) (passMade, bool) {
	answer := make(chan passMade, 1)
	select {
	case w.passes <- passAsked{ctx, pass, answer}:
		made := <-answer
		return made, !made.busy
	default:
		return passMade{}, false
	}
}

// nextPass is how long the exchange waits for the pass after one that left runs
// to look at: what is due begins before the results of what has begun are written.
const nextPass = 2 * time.Millisecond

// passes makes passes as long as the scheduler asks for the next one at once. It
// tells whether all that there is to begin has begun.
func (x *exchange) passes(a passAsked) (all bool) {
	for {
		all, more := x.pass(a)
		if !more {
			return all
		}
		select {
		case a = <-x.w.passes:
		case <-x.w.o.Clock.After(nextPass):
			return all
		}
	}
}

// pass makes a pass and begins what it gives this worker. It tells whether that
// was all that there is to begin, and whether there is more to look at.
func (x *exchange) pass(a passAsked) (all, more bool) {
	w := x.w
	p := x.claimParams(0)
	if p.N <= 0 {
		a.answer <- passMade{busy: true}
		return true, false
	}
	limited, done := context.WithTimeout(a.ctx, w.o.Lease)
	defer done()
	asked, at := w.clock.Elapsed(), w.o.Clock.Now()
	claims, report, err := w.o.Store.ScheduleAndClaim(limited, a.pass, p, w.o.Scheduler.decide)
	x.unsure = errors.Is(err, dag.ErrOutcomeUnknown)
	x.begin(claims, asked, at)
	x.busy = x.busy || len(claims) > 1
	a.answer <- passMade{report: report, taken: len(claims), err: err}
	return !x.unsure && report.Queued <= len(claims), err == nil && report.Looked >= a.pass.Limit && len(claims) < p.N
}

// schedule makes a pass. Where the worker of the same process waits for work, it
// makes it, and takes what the pass finds: then that starts in one commit.
func (s *Scheduler) schedule(ctx context.Context, pass dag.SchedulePass) (report dag.ScheduleReport, taken int, err error) {
	if s.beside != nil && !s.alone {
		if a, ok := s.beside.schedule(ctx, pass); ok {
			s.alone = a.err != nil // it was bounded by a lease; the next one takes what it takes
			return a.report, a.taken, a.err
		}
	}
	report, err = s.o.Store.Schedule(ctx, pass, s.decide)
	s.alone = s.alone && err != nil
	return report, 0, err
}

// quickPass is what a pass may take for the next to look at twice as many runs.
const quickPass = 15 * time.Millisecond

// nextLimit is how many runs the next pass looks at. What a transaction costs
// whatever is in it is shared by many then, and still what came first does not
// wait for the last, and workers get their turns.
func nextLimit(limit, usual int, more bool, took time.Duration) int {
	switch {
	case !more:
		return usual
	case took <= quickPass:
		return min(2*limit, 16*usual)
	case took > 3*quickPass:
		return max(limit/2, usual)
	}
	return limit
}
