package breaker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// Times of a guard.
const (
	// fresh is how long what a guard knows of the breakers is taken for true: an
	// opening reaches every worker within it.
	fresh = time.Second
	// gather is how long ended calls gather before they are counted.
	gather = 100 * time.Millisecond
	// flushLimit limits the counting, and the last one at the end.
	flushLimit = 5 * time.Second
)

// Store is what a guard needs of the state database.
type Store interface {
	// UpdateCircuit makes one step of a breaker in a transaction.
	UpdateCircuit(ctx context.Context, u dag.CircuitUpdate) (before, after dag.Circuit, err error)
	// Circuits lists the breakers, with their windows when they are asked for.
	Circuits(ctx context.Context, windows bool) ([]dag.Circuit, error)
}

// Options of NewGuard.
type Options struct {
	Store Store
	Clock dag.Clock // default dag.SystemClock
	Rand  dag.Rand  // default dag.SystemRand; spreads those who wait
	Log   *slog.Logger
	// ProbeLimit is how long a probe may take before another may go beside it: its
	// worker may be dead. Default 1 min.
	ProbeLimit time.Duration
	// Alerted is called when a breaker opened or closed: there are events.
	Alerted func()
}

// Guard is one worker's side of all breakers. It asks before an attempt,
// from memory while it is fresh, and counts after it, many at a time.
//
// When the state database cannot be asked it goes by what it knew last, and lets
// through what it knows nothing of: breakers protect others, and must not stop
// the work by themselves.
type Guard struct {
	o    Options
	wake chan struct{}

	mu      sync.Mutex
	known   map[string]dag.Circuit
	asked   time.Time
	pending map[string]*tally
}

// tally are the calls of one breaker that are not counted yet.
type tally struct {
	policy dag.CircuitPolicy
	ended  Ended
}

// NewGuard makes a guard; Run counts for it.
func NewGuard(o Options) *Guard {
	if o.Clock == nil {
		o.Clock = dag.SystemClock{}
	}
	if o.Rand == nil {
		o.Rand = dag.SystemRand{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.ProbeLimit <= 0 {
		o.ProbeLimit = time.Minute
	}
	if o.Alerted == nil {
		o.Alerted = func() {}
	}
	return &Guard{o: o, wake: make(chan struct{}, 1), known: map[string]dag.Circuit{}, pending: map[string]*tally{}}
}

// GoBy makes a guard that is not in use yet go by another clock. It has to be
// the state database's: the instants of the breakers are the database's, and a
// machine that is late would wait for probes that are long due.
func (g *Guard) GoBy(c dag.Clock) { g.o.Clock = c }

// Need is a dependency that an attempt is about to use.
type Need struct {
	Name   string
	Policy dag.CircuitPolicy
}

// Ticket is the leave to use dependencies. Leave must be called once.
type Ticket struct {
	g     *Guard
	calls []call
}

type call struct {
	need  Need
	probe bool
	phase time.Time
}

// Enter asks for leave to use all that an attempt needs. When one of the
// breakers lets nothing through there is no ticket: name and until say which
// and when to ask again. Those who wait come back spread out.
func (g *Guard) Enter(ctx context.Context, needs []Need) (t *Ticket, name string, until time.Time) {
	t = &Ticket{g: g}
	if len(needs) == 0 {
		return t, "", time.Time{}
	}
	g.refresh(ctx)
	for _, n := range needs {
		g.mu.Lock()
		c := g.known[n.Name]
		g.mu.Unlock()
		if c.State != dag.CircuitOpen && c.State != dag.CircuitHalfOpen {
			t.calls = append(t.calls, call{need: n})
			continue
		}
		answer, phase := g.ask(ctx, c, n)
		if !answer.Go {
			t.Leave(Neutral) // what the others gave is given back
			return nil, n.Name, g.spread(answer.Until, n.Policy)
		}
		t.calls = append(t.calls, call{need: n, probe: answer.Probe, phase: phase})
	}
	return t, "", time.Time{}
}

// ask decides from memory where that is enough, else in the database.
func (g *Guard) ask(ctx context.Context, c dag.Circuit, n Need) (answer Answer, phase time.Time) {
	now := g.o.Clock.Now()
	if _, a := Ask(c, n.Policy, now, g.o.ProbeLimit); !a.Go && c.State == dag.CircuitOpen {
		return a, time.Time{}
	}
	_, after, err := g.o.Store.UpdateCircuit(ctx, dag.CircuitUpdate{
		Name: n.Name, Window: n.Policy.Window,
		Decide: func(c dag.Circuit, _ dag.CircuitWindow, now time.Time) (dag.Circuit, []dag.Event) {
			var next dag.Circuit
			next, answer = Ask(c, n.Policy, now, g.o.ProbeLimit)
			return next, nil
		},
	})
	if err != nil {
		g.o.Log.WarnContext(ctx, "a circuit breaker cannot be asked; the task waits", "circuit", n.Name, "error", err)
		return Answer{Until: now.Add(n.Policy.OpenFor)}, time.Time{}
	}
	g.remember(after)
	return answer, after.ChangedAt
}

// spread draws an instant between the earliest and half an opening later, so
// that thousands who wait do not come back as one.
func (g *Guard) spread(until time.Time, p dag.CircuitPolicy) time.Time {
	return until.Add(time.Duration(g.o.Rand.Float64() * float64(p.OpenFor) / 2))
}

// refresh reads the breakers again when what is known is old.
func (g *Guard) refresh(ctx context.Context) {
	now := g.o.Clock.Now()
	g.mu.Lock()
	since := now.Sub(g.asked)
	old := g.asked.IsZero() || since < 0 || since >= fresh
	if old {
		g.asked = now // one asks, the others go by what is known
	}
	g.mu.Unlock()
	if !old {
		return
	}
	list, err := g.o.Store.Circuits(ctx, false)
	if err != nil {
		g.o.Log.WarnContext(ctx, "the circuit breakers cannot be read; going by what was known", "error", err)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range list {
		if c.Version >= g.known[c.Name].Version {
			g.known[c.Name] = c
		}
	}
}

func (g *Guard) remember(c dag.Circuit) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.Version >= g.known[c.Name].Version {
		g.known[c.Name] = c
	}
}

// Leave tells how the attempt ended. It does not block.
func (t *Ticket) Leave(end End) {
	if t == nil || len(t.calls) == 0 {
		return
	}
	g := t.g
	g.mu.Lock()
	for _, c := range t.calls {
		if !c.probe && end == Neutral {
			continue
		}
		k := g.pending[c.need.Name]
		if k == nil {
			k = &tally{}
			g.pending[c.need.Name] = k
		}
		k.policy = c.need.Policy
		if c.probe {
			k.ended.Probes = append(k.ended.Probes, Probe{Phase: c.phase, End: end})
			continue
		}
		k.ended.Calls++
		if end == Failure {
			k.ended.Failures++
		}
	}
	t.calls = nil
	g.mu.Unlock()
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// Run counts ended calls until ctx ends, and what is left then.
func (g *Guard) Run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-g.wake:
			select {
			case <-ctx.Done():
			case <-g.o.Clock.After(gather):
			}
			g.Flush(ctx)
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushLimit)
	defer cancel()
	g.Flush(last)
}

// Flush counts what has gathered. What cannot be counted is dropped.
func (g *Guard) Flush(ctx context.Context) {
	g.mu.Lock()
	batch := g.pending
	g.pending = map[string]*tally{}
	g.mu.Unlock()
	for name, t := range batch {
		before, after, err := g.o.Store.UpdateCircuit(ctx, dag.CircuitUpdate{
			Name: name, Calls: t.ended.Calls, Failures: t.ended.Failures, Window: t.policy.Window,
			Decide: func(c dag.Circuit, w dag.CircuitWindow, now time.Time) (dag.Circuit, []dag.Event) {
				next := Settle(c, w, t.ended, t.policy, now)
				next.Name = name
				return next, dag.CircuitEvents(c, next, now)
			},
		})
		if err != nil {
			// A lost probe's place comes free by itself; a lost count is a call less
			// in a share of many.
			g.o.Log.WarnContext(ctx, "calls of a circuit cannot be counted", "circuit", name, "calls", t.ended.Calls, "error", err)
			continue
		}
		g.remember(after)
		if before.State != after.State {
			g.tell(before, after)
		}
	}
}

// tell writes the one line that each change of a breaker gets.
func (g *Guard) tell(before, after dag.Circuit) {
	g.o.Alerted()
	level := slog.LevelInfo
	if after.State == dag.CircuitOpen {
		level = slog.LevelWarn // its alert is the receivers' to give
	}
	g.o.Log.Log(context.Background(), level, "circuit "+string(after.State), "circuit", after.Name, "was", string(before.State),
		"reason", after.Reason, "opening", after.Openings)
}
