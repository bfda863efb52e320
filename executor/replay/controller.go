package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// Usual settings of a drain.
const (
	DefaultRate       = 50.0
	DefaultPauseShare = 0.5
)

// pageSize is how many letters are read at once; a drain with a rate reads what
// it needs for about two seconds, so that what it knows of a letter is young.
const (
	pageSize    = 500
	minPageSize = 20
)

// freshFor is how long verdicts are good: what they rest on may change.
const freshFor = 5 * time.Second

// Waits of the loop: between looks at what is in flight, between tries when the
// database is away, how long it may be away, and between looks at the shares.
const (
	pollInFlight = 100 * time.Millisecond
	pollMost     = time.Second
	retryFirst   = 200 * time.Millisecond
	retryMost    = 2 * time.Second
	patience     = 60 * time.Second
	shareEvery   = time.Second
)

// shareSample is how many letters must have ended, or been decided about, before
// their shares count.
const shareSample = 50

// Options of New.
type Options struct {
	Store  Store
	Probes Probes
	Clock  dag.Clock
	IDs    dag.IDSource
	// Observer is told of decisions; may be nil.
	Observer Observer
}

// Controller replays dead letters.
type Controller struct{ o Options }

// New makes a controller.
func New(o Options) *Controller { return &Controller{o: o} }

// Request asks for a drain.
type Request struct {
	Filter dag.LetterFilter
	// Where is a condition on letters, "" for none.
	Where string
	// Rate is letters a second, 0 for no limit; Burst at least 1.
	Rate        float64
	Burst       int
	MaxInFlight int
	Limit       int
	Canary      int
	MaxReturns  int
	PauseShare  float64
	Actor       string
}

// drain is the request as a drain.
func (r Request) drain() dag.Drain {
	return dag.Drain{
		State: dag.DrainRunning, Filter: r.Filter, Where: r.Where, Rate: r.Rate, Burst: max(1, r.Burst), MaxInFlight: r.MaxInFlight, Limit: r.Limit,
		Canary: r.Canary, MaxReturns: r.MaxReturns, PauseShare: r.PauseShare, Actor: r.Actor,
	}
}

// check refuses a request that makes no sense.
func (r Request) check() (*Where, error) {
	fail := func(format string, args ...any) (*Where, error) {
		return nil, &dag.Error{Code: dag.ErrInvalid, Op: "replay", Err: fmt.Errorf(format, args...)}
	}
	switch {
	case r.Rate < 0 || r.Burst < 0 || r.MaxInFlight < 0 || r.Limit < 0 || r.Canary < 0 || r.MaxReturns < 0:
		return fail("a rate, a burst, a limit and a number are 0 or more")
	case r.PauseShare < 0 || r.PauseShare > 1:
		return fail("the share that pauses is %g; it is from 0 to 1", r.PauseShare)
	}
	return where(r.Where)
}

func where(text string) (*Where, error) {
	if text == "" {
		return nil, nil
	}
	w, err := NewWhere(text)
	if err != nil {
		return nil, &dag.Error{Code: dag.ErrInvalid, Op: "read --where", Err: err, Hint: `for example: payload.codec == "h264" and attempt_count > 2`}
	}
	return w, nil
}

// Plan is what a dry run found.
type Plan struct {
	dag.DrainCounts
	// Selected is the number of letters that were looked at; the counts sum up to
	// it.
	Selected int `json:"selected"`
	// Reasons counts the reasons of what is not replayed, Samples has one letter
	// for each.
	Reasons map[string]int   `json:"reasons,omitempty"`
	Samples map[string]int64 `json:"samples,omitempty"`
	// Unsure counts letters about which the condition could not be asked, and
	// WhyUnsure has the first reason: they are not selected.
	Unsure    int    `json:"unsure,omitempty"`
	WhyUnsure string `json:"why_unsure,omitempty"`
}

// PoisonShare is the share of poison among what was selected.
func (p Plan) PoisonShare() float64 {
	if p.Selected == 0 {
		return 0
	}
	return float64(p.Quarantine) / float64(p.Selected)
}

// DryRun decides about all letters that a request selects and changes nothing.
// progress, when not nil, is told how many of how many were looked at.
func (c *Controller) DryRun(ctx context.Context, r Request, progress func(done, total int)) (Plan, error) {
	plan := Plan{Reasons: map[string]int{}, Samples: map[string]int64{}}
	w, err := r.check()
	if err != nil {
		return plan, err
	}
	f := r.Filter
	var total int
	if f.UpTo, total, err = c.o.Store.DrainBounds(ctx, f); err != nil {
		return plan, err
	}
	j := newJudge(r.MaxReturns, w, c.o.Probes)
	f.Limit = pageSize
	for looked := 0; ; {
		page, err := c.o.Store.ReplayPage(ctx, f, "")
		if err != nil || len(page) == 0 {
			return plan, err
		}
		looked += len(page)
		f.After = page[len(page)-1].Letter.ID
		last := len(page) < f.Limit
		verdicts, err := j.page(ctx, page)
		if err != nil {
			return plan, err
		}
		plan.Unsure, plan.WhyUnsure = j.unsure, j.whyUnsure
		for i := range verdicts {
			plan.count(&verdicts[i])
			if r.Limit > 0 && plan.Selected >= r.Limit {
				return plan, nil
			}
		}
		if progress != nil {
			progress(looked, total)
		}
		if last {
			return plan, nil
		}
	}
}

func (p *Plan) count(v *dag.ReplayVerdict) {
	p.Selected++
	p.Add(v.Decision)
	if v.Decision != dag.DecisionReplayed {
		p.Reasons[v.Reason]++
		if _, seen := p.Samples[v.Reason]; !seen {
			p.Samples[v.Reason] = v.Case.Letter.ID
		}
	}
}

// Begin makes a drain of a request. Run works on it.
func (c *Controller) Begin(ctx context.Context, r Request) (dag.Drain, error) {
	if _, err := r.check(); err != nil {
		return dag.Drain{}, err
	}
	d := r.drain()
	d.ID = c.o.IDs.NewID()[:12]
	return c.o.Store.NewDrain(ctx, d)
}

// Tick tells how a drain goes.
type Tick struct {
	Drain dag.Drain
	// Decided are the decisions of the step that was just made.
	Decided dag.DrainCounts
	WaitFor dag.DrainWait
}

// Run works on a running drain until it is done, paused or stopped, or until ctx
// ends: then it finishes the letter in hand and marks the drain as stopped.
// Several processes may run one drain. When the database stays away for a minute
// it gives up with the drain as it was. tick may be nil.
func (c *Controller) Run(ctx context.Context, id, actor string, tick func(Tick)) (dag.Drain, error) {
	d, err := c.o.Store.Drain(ctx, id)
	if err != nil || d.State != dag.DrainRunning {
		return d, err
	}
	w, err := where(d.Where)
	if err != nil {
		return d, err
	}
	run := &running{c: c, d: d, judge: newJudge(d.MaxReturns, w, c.o.Probes), actor: actor, tick: tick}
	for _, l := range run.lanes() {
		l.reread(&run.d)
	}
	for run.d.State == dag.DrainRunning {
		if ctx.Err() != nil {
			return run.stop(ctx)
		}
		wait, err := run.step(ctx)
		var pause *PauseError
		switch {
		case err != nil && ctx.Err() != nil:
			return run.stop(ctx)
		case errors.As(err, &pause):
			if run.d, err = c.o.Store.SetDrainState(ctx, id, dag.DrainPaused, pause.Reason); err != nil {
				return run.d, err
			}
		case err != nil:
			if wait, err = run.trouble(err); err != nil {
				return run.d, err
			}
		default:
			run.failing, run.away = 0, time.Time{}
		}
		if wait > 0 {
			select {
			case <-ctx.Done():
			case <-c.o.Clock.After(wait):
			}
		}
	}
	return run.d, nil
}

// Resume makes a paused or stopped drain running again. Whoever resumes one that
// paused by itself has judged: it goes on without its canary, and does not pause
// by itself again.
func (c *Controller) Resume(ctx context.Context, id string) (dag.Drain, error) {
	d, err := c.o.Store.Drain(ctx, id)
	if err != nil {
		return d, err
	}
	if d.State == dag.DrainDone {
		return d, &dag.Error{
			Code: dag.ErrConflict, Op: "resume drain " + id, Err: errors.New("it is done"), Hint: "airlock dlq replay begins another one",
		}
	}
	return c.o.Store.SetDrainState(ctx, id, dag.DrainRunning, "")
}
