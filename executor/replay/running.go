package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// running is one process' work on a drain.
type running struct {
	c     *Controller
	d     dag.Drain
	judge *judge
	actor string
	tick  func(Tick)

	other, gpu stretch

	failing int
	away    time.Time // since when the database is away
	shared  time.Time // when the shares were looked at

	// seen is what had become of the drain's letters before the last step that
	// had to wait for their ends; poll is the time until the next look.
	seen    *dag.DrainOutcome
	poll    time.Duration
	waitFor dag.DrainWait
}

func (r *running) lanes() []*stretch {
	r.other.lane, r.gpu.lane = dag.LaneOther, dag.LaneGPU
	return []*stretch{&r.other, &r.gpu}
}

// stretch is what is at hand of one lane.
type stretch struct {
	lane   dag.DrainLane
	todo   []dag.ReplayVerdict
	judged time.Time
	looked int64 // the last letter that was read
	last   bool  // none follows it
}

func (l *stretch) cursor(d *dag.Drain) int64 {
	if l.lane == dag.LaneGPU {
		return d.GPUCursor
	}
	return d.Cursor
}

// reread drops the verdicts at hand: they are made again from the cursor on.
func (l *stretch) reread(d *dag.Drain) {
	l.todo, l.last, l.looked = nil, false, l.cursor(d)
}

// passed lets go of what is decided; another process may be ahead.
func (l *stretch) passed(d *dag.Drain) {
	at := l.cursor(d)
	for len(l.todo) > 0 && l.todo[0].Case.Letter.ID <= at {
		l.todo = l.todo[1:]
	}
	if at > l.looked {
		l.reread(d)
	}
}

func (l *stretch) step() dag.DrainStretch {
	return dag.DrainStretch{Verdicts: l.todo, UpTo: l.looked, Last: l.last}
}

// step reads letters where none are at hand, and carries out what the pace
// allows. It says how long to wait before the next.
func (r *running) step(ctx context.Context) (time.Duration, error) {
	if moved, err := r.moved(ctx); err != nil || !moved {
		return r.poll, err
	}
	now := r.c.o.Clock.Now()
	for _, l := range r.lanes() {
		if len(l.todo) > 0 && now.Sub(l.judged) > freshFor {
			l.reread(&r.d)
		}
		if len(l.todo) == 0 && !l.last {
			if err := r.read(ctx, l); err != nil {
				return 0, err
			}
		}
	}
	// The step itself is not cut off: a letter in hand is finished.
	res, err := r.c.o.Store.DrainStep(context.WithoutCancel(ctx), r.d.ID, dag.DrainStep{Other: r.other.step(), GPU: r.gpu.step()}, r.actor)
	if err != nil {
		for _, l := range r.lanes() {
			l.reread(&r.d)
		}
		return 0, err
	}
	r.d = res.Drain
	for _, l := range r.lanes() {
		l.passed(&r.d)
	}
	r.tell(res)
	if r.d.State == dag.DrainRunning {
		if err := r.shares(ctx); err != nil {
			return 0, err
		}
	}
	if r.waitFor = res.WaitFor; !r.waitsForEnds() {
		r.seen, r.poll = nil, pollInFlight
	}
	switch {
	case r.d.State != dag.DrainRunning || res.WaitFor == dag.WaitNone:
		return 0, nil
	case res.Wait > 0:
		return min(res.Wait, time.Second), nil // another process may end the drain
	default:
		return r.poll, nil
	}
}

// waitsForEnds tells whether only the end of a replay, or somebody's act on the
// drain, lets it go on.
func (r *running) waitsForEnds() bool {
	return r.waitFor == dag.WaitInFlight || r.waitFor == dag.WaitCanary
}

// moved tells whether a drain that waits for the ends of its letters has
// something to do: a look that locks nothing, less and less often. What ended
// since before the last step makes another step.
func (r *running) moved(ctx context.Context) (bool, error) {
	if !r.waitsForEnds() {
		return true, nil
	}
	ends, err := r.c.o.Store.DrainOutcome(ctx, r.d.ID)
	if err != nil {
		return false, err
	}
	if r.seen == nil || *r.seen != ends {
		r.seen, r.poll = &ends, pollInFlight
		return true, nil
	}
	d, err := r.c.o.Store.Drain(ctx, r.d.ID)
	if err != nil {
		return false, err
	}
	r.d = d
	r.tell(dag.DrainStepResult{Drain: d, WaitFor: r.waitFor})
	r.poll = min(2*r.poll, pollMost)
	if d.State != dag.DrainRunning {
		return false, nil
	}
	return false, r.shares(ctx)
}

// read reads and judges the next page of a lane.
func (r *running) read(ctx context.Context, l *stretch) error {
	f := r.d.Filter
	f.After, f.UpTo, f.Limit, f.Lane = l.looked, r.d.MaxID, pageSize, l.lane
	if r.d.Rate > 0 {
		f.Limit = min(pageSize, max(minPageSize, int(2*r.d.Rate)))
	}
	if r.d.MaxID == 0 { // nothing was found when it began
		l.last = true
		return nil
	}
	page, err := r.c.o.Store.ReplayPage(ctx, f, r.d.ID)
	if err != nil {
		return err
	}
	looked := r.d.MaxID
	if len(page) > 0 {
		looked = page[len(page)-1].Letter.ID
	}
	last := len(page) < f.Limit
	// Of the pages before only what was carried out counts, and that stands in the
	// tables, or what is still at hand.
	r.judge.forget(r.other.todo, r.gpu.todo)
	verdicts, err := r.judge.page(ctx, page)
	if err != nil {
		return err
	}
	l.todo, l.last, l.looked, l.judged = verdicts, last, looked, r.c.o.Clock.Now()
	return nil
}

func (r *running) tell(res dag.DrainStepResult) {
	if o := r.c.o.Observer; o != nil {
		for d, n := range map[dag.ReplayDecision]int{
			dag.DecisionReplayed: res.Decided.Replayed, dag.DecisionDropDuplicate: res.Decided.DropDuplicate, dag.DecisionQuarantine: res.Decided.Quarantine,
			dag.DecisionDeferred: res.Decided.Deferred, dag.DecisionRejected: res.Decided.Rejected,
		} {
			if n > 0 {
				o.Decided(d, n)
			}
		}
	}
	if r.tick != nil {
		r.tick(Tick{Drain: res.Drain, Decided: res.Decided, WaitFor: res.WaitFor})
	}
}

// shares pauses the drain when too much of what it replayed comes back, or too
// much of what it selects is poison.
func (r *running) shares(ctx context.Context) error {
	now := r.c.o.Clock.Now()
	if r.d.PauseShare >= 1 || now.Sub(r.shared) < shareEvery {
		return nil
	}
	r.shared = now
	ends, err := r.c.o.Store.DrainOutcome(ctx, r.d.ID)
	if err != nil {
		return err
	}
	reason := ""
	selected := r.d.Sum() // a condition's share of the total is not known before the end
	if r.d.Where == "" {
		selected = max(selected, r.d.Total)
		if r.d.Limit > 0 {
			selected = min(selected, r.d.Limit)
		}
	}
	switch n := ends.Resolved + ends.Back; {
	case n >= shareSample && float64(ends.Back) > r.d.PauseShare*float64(n):
		reason = fmt.Sprintf("%d of %d letters that ended came back: the fault does not look fixed", ends.Back, n)
	case r.d.Sum() >= shareSample && float64(r.d.Quarantine) > r.d.PauseShare*float64(selected):
		reason = fmt.Sprintf("%d of %d letters are poison: the fault does not look fixed", r.d.Quarantine, selected)
	default:
		return nil
	}
	r.d, err = r.c.o.Store.SetDrainState(ctx, r.d.ID, dag.DrainPaused, reason)
	return err
}

// stop marks the drain as stopped: a person ended this process.
func (r *running) stop(ctx context.Context) (dag.Drain, error) {
	d, err := r.c.o.Store.SetDrainState(context.WithoutCancel(ctx), r.d.ID, dag.DrainStopped, "stopped by "+r.actor)
	if err != nil {
		return r.d, err
	}
	return d, nil
}

// trouble says how long to wait after an error, or gives it back when waiting
// does not help.
func (r *running) trouble(err error) (time.Duration, error) {
	var told *dag.Error
	if errors.As(err, &told) && told.Code != dag.ErrInternal {
		return 0, err
	}
	now := r.c.o.Clock.Now()
	if r.away.IsZero() {
		r.away = now
	}
	if now.Sub(r.away) > patience {
		return 0, &dag.Error{
			Code: dag.ErrInternal, Op: "drain " + r.d.ID, Err: err, Hint: "nothing is lost: airlock dlq resume " + r.d.ID + " goes on where it is",
		}
	}
	r.failing++
	return min(retryFirst<<min(r.failing-1, 5), retryMost), nil
}
