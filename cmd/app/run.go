package app

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/airlock-dag/airlock/callbacks"
	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor"
	"github.com/airlock-dag/airlock/executor/breaker"
)

// parts are the loops of one process.
type parts struct {
	scheduler *executor.Scheduler
	worker    *executor.Worker
	outbox    *callbacks.Dispatcher
	cleaner   *executor.Cleaner
	// What the worker takes: none for all queues.
	queues      []string
	concurrency int
}

type partOptions struct {
	// only is the run that all loops are about; nil for every run.
	only        *dag.Run
	show        *display
	queues      []string
	concurrency int
	// follows is set where the worker decides itself what follows from its results.
	follows bool
}

// parts builds the loops; none runs yet.
func (a *App) parts(o partOptions) parts {
	cfg := a.o.Config
	host := hostname()
	id := host + "-" + a.o.IDs.NewID()[:12]
	if o.queues == nil {
		o.queues = cfg.Worker.Queues
	}
	outbox, onlyRun := callbacks.Outbox(a.store), int64(0)
	if o.only != nil { // what others have to tell is theirs
		outbox, onlyRun = a.store.OutboxOf(*o.only), o.only.ID
	}
	if o.concurrency == 0 {
		o.concurrency = cfg.Worker.Concurrency
	}
	log, said, missed := a.o.Log, a.o.Log, a.o.Log
	if o.show != nil { // the display tells how attempts end; the log would say it twice
		log, said, missed = slog.New(slog.DiscardHandler), o.show.logger(), o.show.missed()
	}
	w := executor.WorkerOptions{
		Store: a.store, Settings: a.settings, Operators: a.o.Operators, Clock: a.o.Clock, Rand: a.o.Rand, Log: log,
		ID: id, Hostname: host, PID: os.Getpid(), Queues: o.queues, Concurrency: o.concurrency,
		Lease: cfg.Worker.LeaseDuration, Heartbeat: cfg.Worker.HeartbeatInterval, Poll: cfg.Worker.PollInterval,
		DrainTimeout: cfg.Worker.DrainTimeout, OnlyRun: onlyRun, MaxInputFailures: cfg.Worker.MaxInputFailures,
		LogsDir: cfg.Logging.Folder, DagsFolder: cfg.DagsFolder, Installation: a.installation(),
		Wake: a.workerWake, LeaseWake: a.leaseWake, SchedulerWake: a.schedulerWake, OutboxWake: a.outboxWake,
		OnEnd: a.taskEnded,
		Circuits: breaker.NewGuard(breaker.Options{
			Store: a.store, Clock: a.o.Clock, Rand: a.o.Rand, Log: said, Alerted: a.outboxWake.Signal,
		}),
	}
	if o.show != nil {
		w.OnProgress, w.OnEnd = o.show.progress, o.show.end
	}
	scheduler := executor.NewScheduler(executor.SchedulerOptions{
		Store: a.store, Catalog: a.store, Results: a.store, Settings: a.settings, Clock: a.o.Clock, Rand: a.o.Rand, Log: log, Warnings: said,
		ID: id, Hostname: host, Poll: cfg.Scheduler.Interval, RunsPerPass: cfg.Scheduler.RunsPerPass, MaxMapLength: cfg.MaxMapLength,
		DagsFolder: cfg.DagsFolder, OnlyRun: onlyRun, ReapDelay: cfg.Worker.LeaseDuration,
		Wake: a.schedulerWake, WorkerWake: a.workerWake, LeaseWake: a.leaseWake, OutboxWake: a.outboxWake,
		OnPass: a.pass, OnEnd: a.taskEnded, OnStart: a.observed.metrics.RunStarted, OnFollow: a.followed,
	})
	if o.follows {
		w.Scheduler = scheduler
	}
	return parts{
		queues: o.queues, concurrency: o.concurrency,
		cleaner:   a.Cleaner(log),
		worker:    executor.NewWorker(w),
		scheduler: scheduler,
		outbox: callbacks.New(callbacks.Options{
			Outbox: outbox, Notifiers: notifiers(said, a.installation()), Clock: a.o.Clock, Rand: a.o.Rand, Log: missed, Owner: id,
			Settings: a.settings, OnEnd: a.observed.metrics.Delivered,
			Lease: cfg.Callbacks.LeaseDuration, Poll: cfg.Callbacks.Interval, MaxAttempts: cfg.Callbacks.MaxAttempts, Wake: a.outboxWake,
		}),
	}
}

// Cleaner deletes old history of this database and, its logs, of this machine.
func (a *App) Cleaner(log *slog.Logger) *executor.Cleaner {
	keep := a.o.Config.Retention
	return executor.NewCleaner(executor.CleanerOptions{
		Store: a.store, Clock: a.o.Clock, Log: log, LogsDir: a.o.Config.Logging.Folder, Observe: a.observed.metrics.Cleaned,
		Retention: executor.Retention{
			dag.CleanRuns: keep.Runs, dag.CleanAttempts: keep.Attempts, dag.CleanEvents: keep.Events,
			dag.CleanEffects: keep.Effects, dag.CleanDesk: keep.Desk, dag.CleanLogs: keep.Logs,
		},
	})
}

// RunStandalone schedules and works in this process until ctx ends, then
// drains: running tasks finish within the drain limit or are handed back.
func (a *App) RunStandalone(ctx context.Context) error {
	p := a.parts(partOptions{follows: true})
	return a.runAll(ctx, p, true, true)
}

// RunScheduler schedules until ctx ends; workers run elsewhere.
func (a *App) RunScheduler(ctx context.Context) error {
	return a.runAll(ctx, a.parts(partOptions{}), true, false)
}

// RunWorker works until ctx ends. Queues and concurrency override the settings
// when they are given. It decides what follows from its results, so that the next
// task need not wait for a scheduler to look; on the nodes of a cluster, which do
// not see each other's locks on the pools, it leaves that to the schedulers.
func (a *App) RunWorker(ctx context.Context, queues []string, concurrency int) error {
	return a.runAll(ctx, a.parts(partOptions{queues: queues, concurrency: concurrency, follows: !a.store.Clustered()}), false, true)
}

// settleEvery is the time between two looks at incidents whose letters may all be
// settled.
const settleEvery = 5 * time.Second

// settleIncidents tells receivers of incidents that are over, until ctx ends.
func (a *App) settleIncidents(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.o.Clock.After(settleEvery):
		}
		n, err := a.store.SettleIncidents(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			a.o.Log.Warn("incidents could not be looked at; it is tried again", "error", err)
		case n > 0:
			a.o.Log.Info("incidents are over: no letter of theirs is open", "incidents", n)
		}
	}
}

// runAll runs the loops and ends them in order: first what makes new work, then
// the work, then the messages about it.
func (a *App) runAll(ctx context.Context, p parts, schedule, work bool) error {
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	served, err := a.serveMetrics(serving, schedule && work, schedule)
	if err != nil {
		return err
	}
	up := []any{"dags_folder", a.o.Config.DagsFolder, "database", a.o.Config.Database.String(), "scheduler", schedule, "worker", work}
	if work {
		up = append(up, "queues", cmp.Or(strings.Join(p.queues, ","), "all"), "concurrency", p.concurrency)
	}
	a.o.Log.Info("airlock is up", append(up, "pid", os.Getpid())...)
	var first sync.WaitGroup
	if schedule {
		first.Go(func() { a.catalog.Run(ctx) })
		first.Go(func() { p.scheduler.Run(ctx) })
		first.Go(func() { a.settleIncidents(ctx) })
		first.Go(func() {
			p.cleaner.Run(ctx, dag.CleanRuns, dag.CleanAttempts, dag.CleanEvents, dag.CleanEffects, dag.CleanDesk)
		})
	} else {
		first.Go(func() { a.keepSource(ctx) })
	}
	if work {
		first.Go(func() { p.worker.Run(ctx) })
		first.Go(func() { p.cleaner.Run(ctx, dag.CleanLogs) })
	}
	delivering, stopDelivering := context.WithCancel(context.WithoutCancel(ctx))
	defer stopDelivering()
	var last sync.WaitGroup
	var deliveryErr error
	last.Go(func() { deliveryErr = p.outbox.Run(delivering) })

	<-ctx.Done()
	a.o.Log.Info("stopping: no new work; running tasks may finish", "limit", a.o.Config.Worker.DrainTimeout.String())
	first.Wait()
	stopDelivering()
	last.Wait()
	stopServing()
	<-served
	a.o.Log.Info("stopped")
	return deliveryErr
}
