package executor

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/operator"
)

// gatherFor is how long an exchange waits for more results while the worker is
// busy. A commit costs about as much, so a wait that saves one is never dear.
const gatherFor = 2 * time.Millisecond

// exchange is the worker's one conversation with the state database: it hands
// in the results that have gathered and takes work for the slots that they
// leave free, in one transaction. All slots are counted here, by one goroutine.
type exchange struct {
	w        *Worker
	work     context.Context // running attempts outlive the request to stop
	held     int             // attempts that have a slot
	failures int             // exchanges that failed in a row
	since    time.Time       // when something could not be done first; zero when all can be
	backlog  backlog
	// busy is set while exchanges move more than one task: then a short wait
	// gathers more of them. A lone result waits for nobody.
	busy bool
	// unsure is set when a claim may have been made without an answer: what this
	// worker holds then is asked for before it takes more.
	unsure bool
}

// run exchanges until ctx has ended and every result is written. What cannot be
// written by the time that over is done is dropped: its lease ends then. So does
// that of an attempt whose operator has not come back.
func (x *exchange) run(ctx, over context.Context) {
	x.turn(ctx, nil) // who joins takes what is there, and does not wait first
	for ctx.Err() == nil || x.held > 0 || x.unsure {
		batch := x.wait(ctx, over)
		if x.busy && len(x.backlog.late) == 0 {
			batch = x.gather(batch)
		}
		if over.Err() != nil {
			x.unsure = false // the reaper will see to it
			if len(x.backlog.late) > 0 {
				x.drop(batch)
				x.backlog.late = nil
				continue
			}
			if len(batch) == 0 && x.held > 0 {
				x.w.o.Log.Warn("attempts did not stop when they were told to; they are left, and run again when their leases have ended", "attempts", x.held)
				return
			}
		}
		x.turn(ctx, batch)
	}
}

// wait returns when there may be something to do: a result came, somebody
// signalled, or the poll interval passed. The batch begins with what is late.
func (x *exchange) wait(ctx, over context.Context) []pending {
	stop := ctx.Done()
	if ctx.Err() != nil { // what is held ends by itself, or is stopped by the drain limit
		stop = over.Done()
	}
	if len(x.backlog.late) > 0 { // the database is let be for a while, whatever comes
		select {
		case <-over.Done():
		case <-x.w.o.Clock.After(x.backlog.wait):
		}
		return x.ready(slices.Clone(x.backlog.late))
	}
	passes := x.w.passes
	if ctx.Err() != nil || x.unsure || x.failures > 0 {
		passes = nil
	}
	poll := x.w.o.Clock.After(min(x.w.o.Poll<<min(x.failures, 4), 5*time.Second))
	for {
		select {
		case p := <-x.w.results:
			return x.ready([]pending{p})
		case <-stop:
		case <-x.w.o.Wake:
		case a := <-passes:
			if all := x.passes(a); all {
				continue
			}
		case <-poll:
		}
		return nil
	}
}

// ready adds the results that are there already.
func (x *exchange) ready(batch []pending) []pending {
	for len(batch) < maxBatch {
		select {
		case p := <-x.w.results:
			batch = append(batch, p)
		default:
			return batch
		}
	}
	return batch
}

// gather waits a little for the results of the attempts that still run.
func (x *exchange) gather(batch []pending) []pending {
	if len(batch) >= min(x.held, maxBatch) {
		return batch
	}
	enough := x.w.o.Clock.After(gatherFor)
	for len(batch) < min(x.held, maxBatch) {
		select {
		case p := <-x.w.results:
			batch = append(batch, p)
		case <-enough:
			return batch
		}
	}
	return batch
}

// turn writes a batch and begins what it got in exchange.
func (x *exchange) turn(ctx context.Context, batch []pending) {
	w := x.w
	if x.unsure {
		if err := x.adopt(ctx); err != nil {
			x.failed(ctx, batch, err)
			return
		}
	}
	p := x.claimParams(len(batch))
	if ctx.Err() != nil {
		p.N = 0
	}
	if p.N <= 0 && len(batch) == 0 {
		return
	}
	within := ctx
	if len(batch) > 0 {
		within = x.work // what is finished is written, whoever asks us to stop
	}
	asked, at := w.clock.Elapsed(), w.o.Clock.Now()
	if x.backlog.hopeless(at) {
		x.backlog.keep(x.writeAlone(within, batch), w.o.Clock.Now())
		batch = nil // work is claimed by itself
		if p.N = w.o.Concurrency - x.held; p.N <= 0 || ctx.Err() != nil {
			return
		}
		within, asked, at = ctx, w.clock.Elapsed(), w.o.Clock.Now()
	}
	// A server that hangs is as good as one that is away once a lease has passed.
	limited, done := context.WithTimeout(within, w.o.Lease)
	status, claims, tell, err := x.trade(limited, batch, p)
	done()
	switch {
	case err == nil:
		x.failures = 0
		if len(batch) > 0 {
			x.backlog.late = nil
			tell(batch, status, nil)
		}
		if !x.since.IsZero() && len(x.backlog.late) == 0 {
			w.o.Log.Info("the state database takes results and gives work again", "after", w.o.Clock.Now().Sub(x.since).Round(time.Millisecond).String())
			x.since = time.Time{}
		}
	case len(batch) > 0 && dag.CodeOf(err) == dag.ErrInvalid: // one of them is wrong; which one shows
		x.fails()
		x.backlog.keep(x.writeAlone(x.work, batch), w.o.Clock.Now())
	default:
		x.unsure = p.N > 0 && errors.Is(err, dag.ErrOutcomeUnknown)
		x.failed(ctx, batch, err)
	}
	x.begin(claims, asked, at)
	x.busy = len(batch) > 1 || len(claims) > 1
}

// claimParams asks for as much as there are slots, with those that n results
// leave free.
func (x *exchange) claimParams(n int) dag.ClaimParams {
	o := &x.w.o
	return dag.ClaimParams{
		WorkerID: o.ID, Hostname: o.Hostname, PID: o.PID, Queues: o.Queues,
		N: o.Concurrency - x.held + n, Lease: o.Lease, OnlyRun: o.OnlyRun,
	}
}

// begin begins claims; asked and at are when they were asked for, by the time
// that runs and by the clock.
func (x *exchange) begin(claims []dag.Claim, asked time.Duration, at time.Time) {
	w := x.w
	for i, c := range claims {
		if i == 0 && c.LeaseUntil != nil {
			w.clock.learn(c.LeaseUntil.Add(-w.o.Lease), at, w.o.Clock.Now())
		}
		x.held++
		w.start(x.work, c, asked, x)
	}
}

// trade makes the exchange. Beside the scheduler of the same process it decides at
// once what follows from the results, and may take it: one commit does what takes
// three between two processes. tell lets everybody know.
func (x *exchange) trade(ctx context.Context, batch []pending, p dag.ClaimParams) (
	[]dag.ApplyStatus, []dag.Claim, func([]pending, []dag.ApplyStatus, error), error,
) {
	w := x.w
	if w.o.Scheduler == nil || len(batch) == 0 || p.N <= 0 {
		status, claims, err := w.o.Store.Exchange(ctx, resultsOf(batch), p)
		return status, claims, x.tell, err
	}
	began := w.o.Clock.Now()
	status, claims, report, err := w.o.Store.ExchangeAndSchedule(ctx, resultsOf(batch), p, w.o.Scheduler.decide)
	took := w.o.Clock.Now().Sub(began)
	return status, claims, func(batch []pending, status []dag.ApplyStatus, err error) {
		x.tellEach(batch, status, err)
		w.o.Scheduler.followed(took, report)
	}, err
}

// fails counts an exchange that failed.
func (x *exchange) fails() {
	if x.failures++; x.since.IsZero() {
		x.since = x.w.o.Clock.Now()
	}
}

// failed keeps a batch that was not taken.
func (x *exchange) failed(ctx context.Context, batch []pending, err error) {
	w := x.w
	switch {
	case len(batch) > 0:
		x.fails()
		x.backlog.keep(batch, w.o.Clock.Now())
		w.o.Log.Warn("results could not be written yet; they are kept and tried again",
			"results", len(batch), "error", err)
	case ctx.Err() == nil:
		x.fails()
		w.o.Log.Warn("no work could be claimed; waiting for the state database", "error", err)
	}
}

// adopt begins what this worker holds by the tables and does not know of: a
// claim that was committed and never answered. Left alone it would run nowhere
// until its lease ends, and count as a crash.
func (x *exchange) adopt(ctx context.Context) error {
	w := x.w
	limited, done := context.WithTimeout(x.work, w.o.Lease)
	defer done()
	claims, err := w.o.Store.Held(limited, w.o.ID)
	if err != nil {
		return err
	}
	var leases []dag.Lease
	strays := map[dag.Lease]dag.Claim{}
	for _, c := range claims {
		if l := (dag.Lease{TaskInstanceID: c.ID, Fence: c.Fence}); !w.keep.holds(l) {
			leases, strays[l] = append(leases, l), c
		}
	}
	asked := w.clock.Elapsed()
	if len(leases) > 0 {
		lost, err := w.o.Store.Renew(limited, leases, w.o.Lease)
		if err != nil {
			return err
		}
		for _, l := range lost {
			delete(strays, l)
		}
	}
	x.unsure = false
	for _, c := range strays {
		w.o.Log.Info("a claim whose answer was lost is found again", "task_instance", c.String(), "fence", c.Fence)
		x.held++
		w.start(x.work, c, asked, x)
		if ctx.Err() != nil {
			w.keep.cancel(c.ID, operator.ErrStopping)
		}
	}
	return nil
}

// release gives an attempt's slot back. It is called from the exchange's own
// goroutine, when the attempt's result is written.
func (x *exchange) release() { x.held-- }
