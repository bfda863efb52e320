package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// Decide is the pure decision about one run at an instant.
type Decide = func(s *dag.RunSnapshot, now time.Time) (dag.Decision, error)

// putOff is when a run is looked at again whose decision failed; expandRetry
// when one is whose mapped tasks were to be expanded, should whoever was told
// so have died.
const (
	putOff      = time.Minute
	expandRetry = 10 * time.Second
)

// passRun is one run in a scheduling pass.
type passRun struct {
	run      dag.Run
	seen     stamp // what its row was when it was locked
	log      changeLog
	def      *dag.DAG
	held     []dag.TaskInstance // its instances
	index    map[int64]int      // their places by id, once asked for
	kept     *dag.Kept          // the evaluation that the decision goes on from
	past     *dag.PastRun
	decision dag.Decision
	err      error
	// wait is set for a queued run that may not start; look is then when to ask
	// again, nil when the end of another run will tell.
	wait bool
	look *time.Time
	// started is set when the run became running in this pass.
	started bool
	// gone is set when the run was made ahead and has been taken back.
	gone bool
	// raced is set when an instance was no longer what the decision saw.
	raced bool
	// fleeting is set for a run that is not to be remembered, recalled for one
	// that was, and unseen for one that is not locked besides.
	fleeting, recalled, unseen bool
	// shared is set when other processes decide about the run as well.
	shared bool
	// written is what the pass left in the run's row.
	written stamp
}

// Schedule takes up to pass.Limit runs that need a look, locks them, asks decide
// for each and applies the decisions, all in one transaction. Then what is
// ready becomes queued as far as pools and limits leave slots. A run whose
// decision fails is put off for a minute and reported with its error; the
// others go on.
func (s *Store) Schedule(ctx context.Context, pass dag.SchedulePass, decide Decide) (dag.ScheduleReport, error) {
	if report, nothing, err := s.nothingDue(ctx, pass); err != nil || nothing {
		return report, err
	}
	var report dag.ScheduleReport
	var runs []*passRun
	err := s.write(ctx, "schedule", func(ctx context.Context, t *tx) error {
		var err error
		report, runs, err = t.schedule(ctx, pass, decide)
		return err
	})
	s.scheduled(report, runs, err)
	return report, err
}

// nothingDue tells, after a pass that found nothing, whether that is so still.
func (s *Store) nothingDue(ctx context.Context, pass dag.SchedulePass) (dag.ScheduleReport, bool, error) {
	if !s.idle.passes.Load() || pass.OnlyRun != 0 {
		return dag.ScheduleReport{}, false, nil
	}
	now, err := s.Now(ctx)
	if err != nil {
		return dag.ScheduleReport{}, false, err
	}
	found, err := s.finds(ctx, "SELECT id FROM dag_run"+s.force("k_eval")+" WHERE next_eval_at <= ? AND state IN ('queued', 'running') LIMIT 1", dialect.Stamp(now))
	if err == nil && !found {
		found, err = s.finds(ctx, "SELECT id FROM task_instance WHERE state = 'scheduled' LIMIT 1")
	}
	return dag.ScheduleReport{Now: now}, !found, s.explain("schedule", err)
}

// scheduled notes how a pass ended.
func (s *Store) scheduled(report dag.ScheduleReport, runs []*passRun, err error) {
	s.idle.passes.Store(err == nil && report.Looked == 0 && report.Queued == 0)
	if err == nil {
		s.remember(runs)
	}
}

// schedule is a pass inside a transaction, with the runs that it looked at.
func (t *tx) schedule(ctx context.Context, pass dag.SchedulePass, decide Decide) (dag.ScheduleReport, []*passRun, error) {
	report := dag.ScheduleReport{Now: t.now}
	runs, err := t.dueRuns(ctx, pass)
	if err != nil {
		return report, nil, err
	}
	if err := t.startRuns(ctx, runs, pass.OnlyRun != 0); err != nil {
		return report, nil, err
	}
	report.Looked = len(runs)
	runs = slices.DeleteFunc(runs, func(r *passRun) bool { return r.gone })
	report.TakenBack = report.Looked - len(runs)
	if err := t.recallRuns(ctx, runs, nil); err != nil {
		return report, nil, err
	}
	var ready []candidate
	for _, r := range runs {
		ready = append(ready, t.decideRun(r, decide)...)
	}
	if err := t.applyDecisions(ctx, runs, pass.OnlyRun != 0); err != nil {
		return report, nil, err
	}
	if report.Queued, report.NeverFit, err = t.queue(ctx, runs, ready, pass.OnlyRun); err != nil {
		return report, nil, err
	}
	report.Left = t.room
	for _, r := range runs {
		if !r.wait {
			report.Runs = append(report.Runs, dag.ScheduledRun{Run: r.run, Decision: r.decision, Err: r.err, Started: r.started})
		}
	}
	return report, runs, nil
}

// instance finds an instance of the run; nil when it has none with this id.
func (r *passRun) instance(id int64) *dag.TaskInstance {
	if i := r.place(id); i >= 0 {
		return &r.held[i]
	}
	return nil
}

// changing finds an instance that is about to be changed, for the next decision
// to see.
func (r *passRun) changing(id int64) *dag.TaskInstance {
	i := r.place(id)
	if i < 0 {
		return nil
	}
	r.kept.Changed(i)
	return &r.held[i]
}

// place is where an instance stands among those of the run; -1 for nowhere.
func (r *passRun) place(id int64) int {
	if r.index == nil {
		r.index = make(map[int64]int, len(r.held))
		for i := range r.held {
			r.index[r.held[i].ID] = i
		}
	}
	if i, found := r.index[id]; found {
		return i
	}
	return -1
}

// loadRuns fills in what the decisions look at: version, instances, past.
func (t *tx) loadRuns(ctx context.Context, runs []*passRun) error {
	byID := map[int64]*passRun{}
	var ids []int64
	for _, r := range runs {
		if r.wait {
			continue
		}
		def, err := t.s.version(ctx, t, r.run.VersionID)
		if err != nil && dag.CodeOf(err) != dag.ErrNotFound {
			return err
		}
		r.def, r.err = def, err
		byID[r.run.ID] = r
		ids = append(ids, r.run.ID)
	}
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	in, args := t.s.among(ids)
	err := eachInstance(ctx, t, scheduleColumns, "task_instance", " WHERE dag_run_id IN "+in+" ORDER BY dag_run_id, task_id, map_index", args,
		func(row *instanceRow) {
			r := byID[row.DagRunID]
			if r.held == nil && r.def != nil {
				r.held = make([]dag.TaskInstance, 0, len(r.def.Tasks))
			}
			row.DagID, row.RunID = r.run.DagID, r.run.RunID
			r.fleeting = r.fleeting || row.Replaying
			r.held = append(r.held, row.model())
		})
	if err != nil {
		return err
	}
	for _, r := range runs {
		if err := t.loadPast(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// decideRun asks for the decision about a run and gives the instances that are
// ready to be queued.
func (t *tx) decideRun(r *passRun, decide Decide) []candidate {
	if r.wait || r.err != nil {
		return nil
	}
	if r.kept == nil && len(r.held) >= keepsFrom && (r.shared || t.s.follows.Load()) {
		r.kept = &dag.Kept{}
	}
	snapshot := dag.RunSnapshot{Run: r.run, Instances: r.held, Past: r.past, Kept: r.kept}
	r.decision, r.err = decide(&snapshot, t.now)
	if r.err == nil {
		r.err = t.s.check(r.decision)
	}
	if r.err != nil {
		r.decision = dag.Decision{State: r.run.State}
		return nil
	}
	return r.ready()
}

// ready are the instances that the decision wants queued.
func (r *passRun) ready() []candidate {
	var ready []candidate
	for _, tr := range r.decision.Transitions {
		if !isReady(tr) {
			continue
		}
		if ti := r.instance(tr.TaskInstanceID); ti != nil {
			ready = append(ready, newCandidate(&r.run, ti, tr.From))
		}
	}
	return ready
}

// isReady tells whether a transition asks for a slot.
func isReady(tr dag.Transition) bool {
	return tr.From != dag.StateQueued && (tr.To == dag.StateScheduled || tr.To == dag.StateQueued)
}

// check refuses a decision with a change that the table does not have.
func (s *Store) check(d dag.Decision) error {
	for _, tr := range d.Transitions {
		if !s.allowed[change{tr.From, tr.To}] {
			return fmt.Errorf("task %s: a change from %s to %s is not in the table of transitions", tr.TaskID, tr.From, tr.To)
		}
		if tr.To == dag.StateFailed {
			return fmt.Errorf("task %s: %w", tr.TaskID, errFailedByDecision)
		}
	}
	return nil
}

var errFailedByDecision = errors.New("an instance becomes failed only together with its dead letter")

// applyDecisions writes what the decisions ask for but the queueing, and when
// each run is to be looked at again. anyway is set for a run that goes on though
// its DAG is paused.
func (t *tx) applyDecisions(ctx context.Context, runs []*passRun, anyway bool) error {
	if err := t.applyTransitions(ctx, runs); err != nil {
		return err
	}
	if len(runs) == 0 {
		return nil
	}
	// One writer's order for all: by id.
	slices.SortFunc(runs, func(a, b *passRun) int { return int(a.run.ID - b.run.ID) })
	ids := make([]int64, len(runs))
	for i, r := range runs {
		ids[i] = r.run.ID
	}
	b := newBulk("dag_run", ids)
	unseen := slices.ContainsFunc(runs, func(r *passRun) bool { return r.unseen }) // all of them or none
	var stamps []any
	var events []dag.Event
	var ended []*passRun
	for i, r := range runs {
		stamps = append(stamps, dialect.Stamp(r.seen.updated))
		r.written = stamp{t.after(r.seen.updated), t.nextLook(r)}
		b.set(i, "updated_at", dialect.Stamp(r.written.updated))
		b.set(i, "next_eval_at", dialect.StampPtr(r.written.next))
		if log := t.logOf(r); log != r.log {
			b.set(i, "change_log", string(log))
			r.log = log
		}
		if r.started {
			b.set(i, "state", string(dag.RunRunning))
			b.set(i, "start_date", t.at)
		}
		if r.wait || r.err != nil || !r.decision.State.Finished() {
			continue
		}
		r.run.State, r.run.Reason = r.decision.State, r.decision.Reason
		at := t.now
		r.run.EndDate = &at
		b.set(i, "state", string(r.run.State))
		b.set(i, "reason", short(r.run.Reason, 100))
		b.set(i, "end_date", t.at)
		events = append(events, r.decision.Events...)
		ended = append(ended, r)
	}
	if unseen {
		only := "state = 'running' AND next_eval_at IS NULL"
		if !anyway {
			only += " AND " + notPaused
		}
		b.guard = &rowGuard{only: only, column: "updated_at", seen: stamps}
	}
	if err := b.must(ctx, t, errOtherwise); err != nil {
		return err
	}
	if err := t.insertEvents(ctx, events); err != nil {
		return err
	}
	return t.afterEnd(ctx, ended)
}

// nextLook is when a run is to be looked at again though nothing in it changes.
func (t *tx) nextLook(r *passRun) *time.Time {
	after := func(d time.Duration) *time.Time {
		at := t.now.Add(d)
		return &at
	}
	switch {
	case r.wait:
		return r.look
	case r.err != nil:
		return after(putOff)
	case r.raced:
		// What the decision saw has changed: it is made again, and its end of the
		// run does not count.
		r.decision.State, r.decision.Reason, r.decision.Events = dag.RunRunning, "", nil
		return after(0)
	case r.decision.State.Finished():
		return nil
	}
	var next *time.Time
	if !r.decision.NextAt.IsZero() {
		at := r.decision.NextAt
		next = &at
	}
	if len(r.decision.Expand) > 0 && (next == nil || next.After(*after(expandRetry))) {
		next = after(expandRetry)
	}
	return next
}
