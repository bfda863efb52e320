package callbacks

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// Outbox is what the dispatcher needs of the state database.
type Outbox interface {
	// ClaimEvents takes up to n pending events that are due, oldest first, and
	// keeps them from other dispatchers until the lease ends. An event is held
	// back while an older one of the same task instance and receiver is pending
	// and not among those that are taken with it: the dispatcher itself keeps
	// that order only among the events that it knows of.
	ClaimEvents(ctx context.Context, owner string, n int, lease time.Duration) ([]dag.Event, error)
	// RenewEvents extends the lease of claimed events and lists those that the
	// owner still holds.
	RenewEvents(ctx context.Context, owner string, ids []int64, lease time.Duration) (held []int64, err error)
	// EventDelivered records that the receiver has the event.
	EventDelivered(ctx context.Context, id int64) error
	// EventsMissed records deliveries that failed, or were not tried, in one step.
	EventsMissed(ctx context.Context, missed []dag.MissedDelivery) error
}

// Settings are where connections and variables come from.
type Settings interface {
	// Connection finds a connection; the error of one that does not exist has
	// dag.ErrNotFound.
	Connection(ctx context.Context, id string) (dag.Connection, error)
	// Variables lists all variables.
	Variables(ctx context.Context) ([]dag.Variable, error)
}

// RenderFunc renders the templates in a receiver's arguments with the context
// of an event. A mistake in a template is an error marked Permanent.
type RenderFunc func(ctx context.Context, args map[string]any, c dag.EventContext) (map[string]any, error)

// Notifier delivers events to one kind of receiver. One value serves all
// deliveries, concurrently.
type Notifier interface {
	// Name is the short name in DAG files: "webhook".
	Name() string
	// Notify makes one delivery and returns soon after ctx is done. An error is
	// repeated later unless it is a Failure that says otherwise. Its text is
	// stored and logged, so it holds no secret.
	Notify(ctx context.Context, d Delivery) error
}

// ContextAdapter is a Notifier whose templates must not see every value as it
// is, because of where the result goes.
type ContextAdapter interface {
	// TemplateContext is what the templates of the arguments see.
	TemplateContext(c dag.EventContext) dag.EventContext
}

// Delivery is one event on its way to one receiver.
type Delivery struct {
	Event dag.Event
	// Context is Event.Context, decoded.
	Context dag.EventContext
	// Body is Event.Context as it is: what a receiver gets.
	Body json.RawMessage
	// Args are the receiver's arguments, rendered.
	Args Args
	// Connection finds a connection by id.
	Connection func(ctx context.Context, id string) (dag.Connection, error)
	Clock      dag.Clock
	// Warn tells the log what was odd about a delivery that worked.
	Warn func(message string, attrs ...any)
}

// Failure is a delivery that failed, with what the dispatcher should know.
type Failure struct {
	Err error
	// Permanent failures are not repeated: the event is dead at once.
	Permanent bool
	// Down says that the receiver as a whole is away or overloaded, not that it
	// dislikes this event: other events for it are spared the wait for a while.
	Down bool
	// Throttled says that the receiver is there and takes no more for now (429):
	// the delivery is put off and does not count as a failed one.
	Throttled bool
	// RetryAfter is the receiver's own word on when to come back; 0 for none.
	RetryAfter time.Duration
}

// Error implements error.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap gives the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Permanent marks an error that no repetition mends.
func Permanent(err error) error { return &Failure{Err: err, Permanent: true} }

// asFailure reads what an error says; any error that is not a Failure is one
// that may pass.
func asFailure(err error) *Failure {
	var f *Failure
	if errors.As(err, &f) {
		// The outermost text, the inner verdict.
		return &Failure{Err: err, Permanent: f.Permanent, Down: f.Down, Throttled: f.Throttled, RetryAfter: f.RetryAfter}
	}
	return &Failure{Err: err}
}
