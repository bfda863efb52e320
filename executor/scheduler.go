package executor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/crashpoint"
	"github.com/airlock-dag/airlock/dag/timetable"
)

// SchedulerOptions is what a scheduler is made of.
type SchedulerOptions struct {
	Store    SchedulerStore
	Catalog  CatalogStore
	Results  WorkerStore // Apply, for the reaper
	Settings SettingsStore
	Clock    dag.Clock // default dag.SystemClock; measures waiting, not due times
	Rand     dag.Rand
	Log      *slog.Logger
	// Warnings gets what somebody has to do something about; default Log.
	Warnings *slog.Logger
	ID       string
	Hostname string
	// Poll is the longest wait between looks when nobody wakes the scheduler and
	// nothing is known to be due; default 1 s.
	Poll time.Duration
	// RunsPerPass is how many runs one transaction looks at; more while there are
	// more than that and it is quick. Default 50.
	RunsPerPass int
	// MaxMapLength is the most instances of one mapped task; default 1024.
	MaxMapLength int
	// ReapDelay is how long ended leases are let be after the state database was
	// away: time for the workers that lived on to renew them and to hand in what
	// they finished meanwhile. Default 30 s, best a worker's lease.
	ReapDelay time.Duration
	// DagsFolder is the root of the DAG files, for relative patterns of expand.
	DagsFolder string
	// OnlyRun restricts the scheduler to one run: a test run.
	OnlyRun int64

	// LeaseWake is signalled when a pass took leases away from running attempts.
	Wake, WorkerWake, LeaseWake, OutboxWake Wake

	// OnPass, when set, is told of each pass and of how long its transaction
	// took; OnEnd of attempts that end without a worker: taken back from one that
	// is lost, or sealed because a mapped task cannot be expanded; OnStart of runs
	// that the schedule made, and of how long after their due time they started; OnFollow of what the
	// worker of the same process decided, and of how long its transaction took.
	OnPass   func(took time.Duration, report dag.ScheduleReport)
	OnEnd    func(dag.Claim, dag.Result)
	OnStart  func(late time.Duration)
	OnFollow func(took time.Duration, report dag.ScheduleReport)
}

func (o SchedulerOptions) withDefaults() SchedulerOptions {
	if o.Clock == nil {
		o.Clock = dag.SystemClock{}
	}
	if o.Rand == nil {
		o.Rand = dag.SystemRand{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Warnings == nil {
		o.Warnings = o.Log
	}
	if o.Poll <= 0 {
		o.Poll = time.Second
	}
	if o.RunsPerPass <= 0 {
		o.RunsPerPass = 50
	}
	if o.ReapDelay <= 0 {
		o.ReapDelay = 30 * time.Second
	}
	if o.MaxMapLength <= 0 {
		o.MaxMapLength = 1024
	}
	if o.Wake == nil {
		o.Wake = NewWake()
	}
	if o.OnPass == nil {
		o.OnPass = func(time.Duration, dag.ScheduleReport) {}
	}
	if o.OnEnd == nil {
		o.OnEnd = func(dag.Claim, dag.Result) {}
	}
	if o.OnFollow == nil {
		o.OnFollow = func(time.Duration, dag.ScheduleReport) {}
	}
	if o.OnStart == nil {
		o.OnStart = func(time.Duration) {}
	}
	return o
}

// Scheduler makes due runs, moves runs forward, expands mapped tasks and takes
// back what dead workers held. Any number of them may share a database: each
// step is a transaction that locks what it decides about.
type Scheduler struct {
	o          SchedulerOptions
	graphs     versionMemory[*dag.Graph]
	timetables versionMemory[*timetable.Timetable]

	looked  time.Time // when dueness and leases were last looked at
	asOf    time.Time // the database's time then
	skipped bool      // the last pass did not look
	moved   bool      // the last pass had runs to look at
	limit   int       // how many runs the next pass looks at

	round time.Time // when the next round is due

	beside *Worker     // of the same process; nil without one
	alone  bool        // its last pass failed: the next one is made without it
	due    []time.Time // when runs that were made ahead may start
	steady time.Time   // the end of the last pass
	failed time.Time   // when the state database last failed a pass, or hung in it
}

// lookEvery bounds how often a busy scheduler asks for due DAGs and ended
// leases: moving runs forward must not pay for it in every pass.
const lookEvery = 20 * time.Millisecond

// maxRest bounds the rest after a pass.
const maxRest = 20 * time.Millisecond

// NewScheduler makes a scheduler; Run starts it.
func NewScheduler(o SchedulerOptions) *Scheduler {
	return &Scheduler{o: o.withDefaults()}
}

// Run loops until ctx ends.
func (s *Scheduler) Run(ctx context.Context) {
	failures := 0
	var since time.Time
	clock := jumps{clock: s.o.Clock}
	for ctx.Err() == nil {
		if by := clock.look(); by != 0 {
			s.o.Log.Warn("this machine's clock was set, or the machine slept; what is due is due by the clock as it is now", "by", by.Round(time.Second).String())
		}
		began := s.o.Clock.Now()
		busy, err := s.Pass(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			if failures++; failures == 1 {
				since = began
			}
			s.o.Log.Error("the scheduler's pass failed; it is tried again", "error", err)
		case err == nil && failures > 0:
			s.o.Log.Info("the scheduler's passes work again", "failed", failures, "for", s.o.Clock.Now().Sub(since).String())
			failures = 0
		}
		if err == nil {
			s.rounds(ctx)
		}
		if busy && err == nil {
			continue
		}
		if s.moved {
			s.rest(ctx, s.o.Clock.Now().Sub(began))
		}
		s.waitFor(ctx, failures)
	}
}

// rest lets changes gather for as long as the last pass took: one pass over many
// changes costs little more than over one. What is quick to look at is looked
// at quickly, and a pass that takes long leaves workers their half of the time.
func (s *Scheduler) rest(ctx context.Context, took time.Duration) {
	if took = s.untilDue(min(took, maxRest)); took <= 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-s.o.Clock.After(took):
	}
}

// Pass does everything that is due once; busy tells that there may be more to
// do at once.
func (s *Scheduler) Pass(ctx context.Context) (busy bool, err error) {
	now := s.o.Clock.Now()
	since := now.Sub(s.looked)
	s.moved = false
	s.skipped = since >= 0 && since < lookEvery // a clock that was set back must not stop it
	reaped, away := 0, true
	defer func() { s.noteOutage(err != nil && away) }()
	if !s.skipped {
		s.looked = now
		if s.asOf, err = s.o.Store.Now(ctx); err != nil {
			return false, err
		}
		if s.o.OnlyRun == 0 {
			made, err := s.createDueRuns(ctx, s.asOf)
			if err != nil {
				return false, err
			}
			busy = made > 0
		}
		if !s.recovering(now) {
			if reaped, err = s.reap(ctx); err != nil {
				return false, err
			}
		}
	}
	more, err := s.advance(ctx)
	away = err != nil && !errors.Is(err, errExpansion) // a run that cannot be expanded says nothing about the database
	return busy || more || reaped > 0, err
}

// advance looks at the runs that changed, queues what is ready and expands what
// is to be expanded. It tells whether there may be more to do at once.
func (s *Scheduler) advance(ctx context.Context) (more bool, err error) {
	began := s.o.Clock.Now()
	s.limit = max(s.limit, s.o.RunsPerPass)
	report, taken, err := s.schedule(ctx, dag.SchedulePass{Limit: s.limit, OnlyRun: s.o.OnlyRun})
	if err != nil {
		return false, err
	}
	crashpoint.Point("scheduler: between pass and expansion")
	took := s.o.Clock.Now().Sub(began)
	s.o.OnPass(took, report)
	more = report.Looked >= s.limit
	s.limit = nextLimit(s.limit, s.o.RunsPerPass, more, took)
	s.moved = s.moved || len(report.Runs) > 0
	if report.Left || report.TakenBack > 0 { // DAGs may have another run now
		s.looked = time.Time{}
		s.o.Wake.Signal()
	}
	if report.Queued > taken {
		s.o.WorkerWake.Signal()
	}
	s.warn(report.NeverFit)
	expanded, err := s.expandAll(ctx, report.Runs)
	return more || expanded, err
}

// noteOutage remembers a pass that the state database failed, or before whose
// end it hung.
func (s *Scheduler) noteOutage(failed bool) {
	now := s.o.Clock.Now()
	if failed || s.stalled(now) {
		s.failed = now
	}
	s.steady = now
}

// stalled tells whether it has been so long since the last pass that leases may
// have ended only because the database, or this process, stood still. Where all
// passes are slow, every other delay is one in which the reaper does its work.
func (s *Scheduler) stalled(now time.Time) bool {
	if s.steady.IsZero() || now.Sub(s.steady) < max(s.o.ReapDelay/2, 2*s.o.Poll) {
		return false
	}
	since := now.Sub(s.failed)
	return s.failed.IsZero() || since < 0 || since >= 2*s.o.ReapDelay
}

// recovering tells whether the database was away until just now.
func (s *Scheduler) recovering(now time.Time) bool {
	since := now.Sub(s.failed)
	return !s.failed.IsZero() && since >= 0 && since < s.o.ReapDelay
}

// errExpansion marks a mapped task that could not be expanded.
var errExpansion = errors.New("expand")

// expandAll tells of each run and expands what it asks for. One that cannot be
// expanded now is asked for again, and does not keep the others waiting.
func (s *Scheduler) expandAll(ctx context.Context, runs []dag.ScheduledRun) (some bool, err error) {
	for _, r := range runs {
		s.tell(r)
		if r.Started && r.Run.Type == dag.RunScheduled && r.Run.ClearNumber == 0 && !r.Run.IsReplay && r.Run.StartDate != nil {
			s.o.OnStart(r.Run.StartDate.Sub(r.Run.RunAfter))
		}
		note := func(what string, e error) {
			if e != nil {
				err = errors.Join(err, fmt.Errorf("%w: %s of %s/%s: %w", errExpansion, what, r.Run.DagID, r.Run.RunID, e))
				return
			}
			some = true
		}
		for _, taskID := range r.Decision.Expand {
			note(taskID, s.expand(ctx, r.Run, taskID))
		}
		for _, groupID := range r.Decision.ExpandGroups {
			note(groupID, s.expandGroup(ctx, r.Run, groupID))
		}
	}
	return some, err
}

// decide is the pure part of a pass, with the graph of each version kept.
func (s *Scheduler) decide(snap *dag.RunSnapshot, now time.Time) (dag.Decision, error) {
	g, err := s.graph(context.Background(), snap.Run.VersionID)
	if err != nil {
		return dag.Decision{}, err
	}
	return g.Evaluate(snap, now), nil
}

func (s *Scheduler) graph(ctx context.Context, versionID int64) (*dag.Graph, error) {
	if g, ok := s.graphs.get(versionID, s.o.Clock.Now()); ok {
		return g, nil
	}
	d, err := s.o.Catalog.Version(ctx, versionID)
	if err != nil {
		return nil, err
	}
	g := dag.NewGraph(d)
	s.graphs.put(versionID, g)
	return g, nil
}

// Wait returns when something may be due: a signal, the earliest due time that
// the tables know, or the poll interval.
func (s *Scheduler) Wait(ctx context.Context) { s.waitFor(ctx, 0) }

func (s *Scheduler) waitFor(ctx context.Context, failures int) {
	d := s.o.Poll << min(failures, 3)
	switch {
	case failures > 0:
	case s.skipped:
		d = s.untilDue(lookEvery)
	default:
		// What was due at the last look and could not be done is not counted: it must
		// neither make the loop spin nor hide what is due next.
		if next, err := s.o.Store.NextWake(ctx, s.asOf, Lead); err == nil && !next.IsZero() {
			if now, err := s.o.Store.Now(ctx); err == nil {
				d = max(0, min(d, next.Sub(now)))
			}
		}
	}
	select {
	case <-ctx.Done():
	case <-s.o.Wake:
	case <-s.o.Clock.After(d):
	}
}
