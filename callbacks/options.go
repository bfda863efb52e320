package callbacks

import (
	"log/slog"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// Options of New. Outbox and Notifiers are needed, and Settings where templates
// or notifiers use connections and variables.
type Options struct {
	Outbox    Outbox
	Notifiers []Notifier
	// Settings serve connections and variables to notifiers and templates.
	Settings Settings
	// Render renders a receiver's arguments. Default: Templates(Settings, Clock).
	Render RenderFunc
	// Clock's default is dag.SystemClock.
	Clock dag.Clock
	// Rand spreads retries by up to a tenth of their delay, so that events that
	// failed together do not come back together; nil for no spread.
	Rand dag.Rand
	// Log's default discards.
	Log *slog.Logger
	// Owner names this dispatcher in the outbox.
	Owner string
	// Concurrency is how many deliveries run at once. Default 8. One receiver gets
	// at most half of it, and so do those together that are behind one host or
	// connection and did not take the last delivery.
	Concurrency int
	// Lease is how long a claimed event is kept from other dispatchers; it is
	// renewed while the event is here. Default 30 s.
	Lease time.Duration
	// Poll is the longest time between two looks into the outbox. Default 5 s.
	Poll time.Duration
	// MaxAttempts is after how many failed deliveries an event is dead. Default 12.
	MaxAttempts int
	// Timeout limits one delivery from outside, whatever limit the notifier has
	// of its own. Default 90 s.
	Timeout time.Duration
	// Grace is how long running deliveries may go on when Run is told to stop.
	// Default 10 s.
	Grace time.Duration
	// OnEnd, when set, is told how each delivery of a receiver ended: delivered,
	// retried (it failed and will be tried again), put_off (the receiver takes no
	// more for now) or dead.
	OnEnd func(receiver, outcome string)
	// Wake is a signal that there may be new events, e.g. from the loop that
	// wrote them; nil for none.
	Wake <-chan struct{}
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = dag.SystemClock{}
	}
	if o.Render == nil {
		o.Render = Templates(o.Settings, o.Clock)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.OnEnd == nil {
		o.OnEnd = func(string, string) {}
	}
	if o.Owner == "" {
		o.Owner = "dispatcher"
	}
	o.Concurrency = positive(o.Concurrency, 8)
	o.Lease = positive(o.Lease, 30*time.Second)
	o.Poll = positive(o.Poll, 5*time.Second)
	o.MaxAttempts = positive(o.MaxAttempts, 12)
	o.Timeout = positive(o.Timeout, 90*time.Second)
	o.Grace = positive(o.Grace, 10*time.Second)
	return o
}

func positive[N int | time.Duration](n, instead N) N {
	if n <= 0 {
		return instead
	}
	return n
}
