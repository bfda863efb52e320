package executor

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/breaker"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/operator"
)

// WorkerOptions is what a worker is made of. Fields without a default must be set.
type WorkerOptions struct {
	Store     WorkerStore
	Settings  SettingsStore
	Operators *operator.Registry
	Clock     dag.Clock // default dag.SystemClock
	Rand      dag.Rand  // default dag.SystemRand
	Log       *slog.Logger

	// ID names this worker in the tables, unique among all that ever ran.
	ID       string
	Hostname string
	PID      int
	// Queues to take from; empty takes from all.
	Queues []string
	// Concurrency is how many attempts run at once; default 16.
	Concurrency int
	// Lease is how long a claim holds without renewal; default 30 s.
	Lease time.Duration
	// Heartbeat is the time between renewals; default a third of Lease.
	Heartbeat time.Duration
	// Poll is how often an idle worker looks for work when nobody wakes it, and a
	// busy one whether what it runs is still its own; default 500 ms.
	Poll time.Duration
	// DrainTimeout is how long running attempts may go on after a stop is asked
	// for, before they are handed back; default 60 s.
	DrainTimeout time.Duration
	// MaxInputFailures is how often a media input may fail, in all tasks of all
	// workers together, before nobody opens it any more; 0 is no limit.
	MaxInputFailures int
	// OnlyRun restricts the worker to one run (its row id).
	OnlyRun int64

	// LogsDir is where attempts' logs lie; LogLimit bounds each.
	LogsDir  string
	LogLimit int64
	// DagsFolder is the root of the DAG files; ScratchRoot holds attempts'
	// temporary folders, default the system's.
	DagsFolder  string
	ScratchRoot string
	// Installation tells this state database from others on the machine in the
	// marker of child processes.
	Installation string

	// Wake wakes the worker: work may be queued. LeaseWake makes it ask at once
	// whether its leases still hold. SchedulerWake and OutboxWake are signalled
	// when results are written.
	Wake, LeaseWake, SchedulerWake, OutboxWake Wake
	// Scheduler is that of the same process, nil without one: the worker then
	// decides itself what follows from its results.
	Scheduler *Scheduler
	// Circuits guards what tasks depend on; nil for no guard.
	Circuits *breaker.Guard
	// OnProgress and OnEnd, when set, are told of running and ended attempts.
	OnProgress func(dag.Claim, operator.Progress)
	OnEnd      func(dag.Claim, dag.Result)
}

func (o WorkerOptions) withDefaults() WorkerOptions {
	if o.Clock == nil {
		o.Clock = dag.SystemClock{}
	}
	if o.Rand == nil {
		o.Rand = dag.SystemRand{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Concurrency <= 0 {
		o.Concurrency = 16
	}
	if o.Lease <= 0 {
		o.Lease = 30 * time.Second
	}
	if o.Heartbeat <= 0 {
		o.Heartbeat = o.Lease / 3
	}
	if o.Poll <= 0 {
		o.Poll = 500 * time.Millisecond
	}
	if o.DrainTimeout <= 0 {
		o.DrainTimeout = 60 * time.Second
	}
	if o.Wake == nil {
		o.Wake = NewWake()
	}
	if o.LeaseWake == nil {
		o.LeaseWake = NewWake()
	}
	return o
}

// Worker claims queued task instances and runs them, as many at once as it has
// slots. It takes only what it can start at once.
type Worker struct {
	o       WorkerOptions
	clock   *fleetClock // o.Clock
	keep    *keeper
	results chan pending // from the attempts to the exchange
	passes  chan passAsked

	releases releases
}

// NewWorker makes a worker; Run starts it.
func NewWorker(o WorkerOptions) *Worker {
	o = o.withDefaults()
	clock := &fleetClock{Clock: o.Clock, log: o.Log}
	o.Clock = clock
	if o.Circuits != nil {
		o.Circuits.GoBy(clock)
	}
	keep := newKeeper(o.Store, clock, o.LeaseWake, o.Log, o.Lease, o.Heartbeat)
	keep.poll = o.Poll
	w := &Worker{
		o:       o,
		clock:   clock,
		keep:    keep,
		results: make(chan pending, o.Concurrency), passes: make(chan passAsked), releases: releases{n: map[int64]int{}},
	}
	if o.Scheduler != nil {
		o.Scheduler.beside = w
	}
	return w
}

// Run claims and runs work until ctx ends, then drains: no new claims, running
// attempts may finish within DrainTimeout and are handed back after it, and
// every result is written before Run returns.
func (w *Worker) Run(ctx context.Context) {
	work := context.WithoutCancel(ctx) // running attempts outlive the request to stop
	keeping, stopKeeping := context.WithCancel(work)
	var loops sync.WaitGroup
	loops.Go(func() { w.sweep(keeping) })
	loops.Go(func() { w.notice(ctx) })
	loops.Go(func() { w.keep.run(keeping) })
	if w.o.Circuits != nil {
		loops.Go(func() { w.o.Circuits.Run(keeping) })
	}
	over, end := context.WithCancel(keeping)
	defer end()
	loops.Go(func() { w.limitDrain(ctx, keeping, end) })

	(&exchange{w: w, work: work}).run(ctx, over)
	stopKeeping()
	loops.Wait()
}

// limitDrain stops what still runs when a stop was asked for too long ago, and
// ends the waiting for a database that does not take the results either: once
// the leases are over there is nothing to save. written ends when there is
// nothing left to stop.
func (w *Worker) limitDrain(ctx, written context.Context, end func()) {
	select {
	case <-written.Done():
		return
	case <-ctx.Done():
	}
	select {
	case <-written.Done():
		return
	case <-w.o.Clock.After(w.o.DrainTimeout):
		w.o.Log.Warn("the drain limit has passed; running attempts are stopped and handed back")
		w.keep.cancelAll(operator.ErrStopping)
	}
	select {
	case <-written.Done():
	case <-w.o.Clock.After(w.o.Lease):
		end()
	}
}

// start runs one claim in a goroutine; its slot is free again when its result
// is written, so that a worker never holds more than it has slots for.
func (w *Worker) start(work context.Context, c dag.Claim, asked time.Duration, x *exchange) {
	ctx, cancel := context.WithCancelCause(work)
	w.keep.add(c, asked, cancel)
	release := func() {
		w.keep.remove(leaseOf(c))
		cancel(nil)
		x.release()
	}
	w.o.Log.Info("task instance running", "dag_id", c.DagID, "run_id", c.RunID, "task_id", c.TaskID, "map_index", c.MapIndex,
		"try", c.TryNumber, "fence", c.Fence, "queue", c.Queue)
	go func() {
		in, result := w.attempt(ctx, c)
		w.keep.ends(leaseOf(c))
		w.results <- pending{result: result, claim: c, done: func(st dag.ApplyStatus, err error) {
			if err == nil && st == dag.Refused {
				go w.writeRefused(in, release) // not from the exchange's own goroutine: it reads what this sends
				return
			}
			w.written(c, result, st, err)
			release()
		}}
	}()
}

// writeRefused ends an attempt whose result the database does not take: it is
// sealed without what could not be stored.
func (w *Worker) writeRefused(in Ending, release func()) {
	in.Outcome = dag.Failed(fault.New(fault.CodeXComTooLarge, "the state database refuses what the attempt left: a value is larger than the server allows"))
	in.Args, in.Detail, in.Claim.Payload = nil, nil, nil
	result := Decide(in, w.o.Rand)
	w.results <- pending{result: result, claim: in.Claim, done: func(st dag.ApplyStatus, err error) {
		w.written(in.Claim, result, st, err)
		release()
	}}
}

// written tells the log, the outbox and whoever watches what became of a result.
func (w *Worker) written(c dag.Claim, r dag.Result, st dag.ApplyStatus, err error) {
	switch {
	case err != nil: // the exchange has said so
	case st == dag.StaleFence:
		w.o.Log.Warn("a result came too late: the instance was taken over or cleared", "task_instance", c.String(), "fence", c.Fence)
	case st == dag.Applied:
		w.logEnd(c, r)
		if len(r.Events) > 0 {
			w.o.OutboxWake.Signal()
		}
		if w.o.OnEnd != nil {
			w.o.OnEnd(c, r)
		}
	}
}

// maxLoggedError is how many bytes of an error's first line the process's log gets.
const maxLoggedError = 400

// logEnd writes the one line that each state change gets.
func (w *Worker) logEnd(c dag.Claim, r dag.Result) {
	level := slog.LevelInfo
	if r.State == dag.StateFailed {
		level = slog.LevelError
	}
	attrs := []any{
		"dag_id", c.DagID, "run_id", c.RunID, "task_id", c.TaskID, "map_index", c.MapIndex,
		"try", r.Attempt.TryNumber, "fence", c.Fence, "state", string(r.State),
	}
	if r.Attempt.ErrorClass != "" { // a skip has a code that says why, and is no error
		attrs = append(attrs, "error_class", string(r.Attempt.ErrorClass), "error_code", r.Attempt.ErrorCode)
		line, _, _ := strings.Cut(r.Attempt.ErrorMessage, "\n") // the letter and the attempt's log have the rest
		attrs = append(attrs, "error", dag.CutText(line, maxLoggedError))
	}
	if r.NextTryAt != nil {
		attrs = append(attrs, "next_try_at", r.NextTryAt.Format(time.RFC3339))
	}
	w.o.Log.Log(context.Background(), level, "task instance "+string(r.State), attrs...)
}
