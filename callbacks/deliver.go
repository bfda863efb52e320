package callbacks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/crashpoint"
)

// maxCause is the longest cause of a failed delivery that is stored, in bytes.
const maxCause = 1 << 10

// recordLimit limits the recording of one delivery's end.
const recordLimit = 15 * time.Second

// attempt makes one delivery and records how it ended.
func (d *Dispatcher) attempt(ctx context.Context, c claimed) result {
	limited, cancel := context.WithTimeout(ctx, d.o.Timeout)
	crashpoint.Point("outbox: before a delivery")
	err := d.notify(limited, c.event)
	cancel()
	crashpoint.Point("outbox: delivered, not recorded")
	if err != nil && ctx.Err() != nil {
		return result{claimed: c, abandoned: true} // we ended it: not the receiver's fault
	}
	if err == nil {
		d.delivered(ctx, c.event)
		return result{claimed: c}
	}
	r, missed := d.missed(ctx, c, asFailure(err))
	d.record(ctx, missed)
	return r
}

func (d *Dispatcher) delivered(ctx context.Context, e dag.Event) {
	log := d.o.Log.With(eventAttrs(e)...)
	ctx, cancel := recording(ctx)
	defer cancel()
	if err := d.o.Outbox.EventDelivered(ctx, e.ID); err != nil {
		log.ErrorContext(ctx, "a callback was delivered and that cannot be recorded; it will be delivered again", "error", err)
		return
	}
	d.o.OnEnd(e.Callback.Name, "delivered")
	log.DebugContext(ctx, "callback delivered")
}

// recording is the context in which an end is recorded: it outlives the
// delivery, so that what was delivered is not delivered again for want of a
// moment.
func recording(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), recordLimit)
}

func eventAttrs(e dag.Event) []any {
	return []any{"event", e.ID, "kind", string(e.Kind), "receiver", e.Callback.Name, "subject", subject(e.TaskInstanceKey)}
}

// subject is what an event is about: a task instance, or a run as a whole.
func subject(k dag.TaskInstanceKey) string {
	if k.DagID == "" { // a circuit
		return k.RunID
	}
	if k.TaskID == "" {
		return k.DagID + "/" + k.RunID
	}
	return k.String()
}

// notify renders and hands over; a panic is an error like any other.
func (d *Dispatcher) notify(ctx context.Context, e dag.Event) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the notifier %q failed: panic: %v", e.Callback.Name, p)
			d.o.Log.ErrorContext(ctx, "a notifier panicked", "receiver", e.Callback.Name, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	n, ok := d.notifiers[e.Callback.Name]
	if !ok {
		return Permanent(fmt.Errorf("there is no callback %q; there are: %s", e.Callback.Name, strings.Join(d.names, ", ")))
	}
	del := Delivery{
		Event: e, Body: e.Context, Connection: d.connection, Clock: d.o.Clock,
		Warn: func(message string, attrs ...any) { d.o.Log.With(eventAttrs(e)...).WarnContext(ctx, message, attrs...) },
	}
	if err := json.Unmarshal(e.Context, &del.Context); err != nil {
		return Permanent(fmt.Errorf("the stored event cannot be read: %w", err))
	}
	seen := del.Context
	if a, ok := n.(ContextAdapter); ok {
		seen = a.TemplateContext(seen)
	}
	args, err := d.o.Render(ctx, e.Callback.Args, seen)
	if err != nil {
		return fmt.Errorf("the arguments of the callback cannot be rendered: %w", err)
	}
	del.Args = args
	return n.Notify(ctx, del)
}

// connection finds a connection; one that does not exist is not waited for.
func (d *Dispatcher) connection(ctx context.Context, id string) (dag.Connection, error) {
	if d.o.Settings == nil {
		return dag.Connection{}, Permanent(errors.New("this process has no connections"))
	}
	c, err := d.o.Settings.Connection(ctx, id)
	if dag.CodeOf(err) == dag.ErrNotFound {
		return c, Permanent(fmt.Errorf("the connection %q does not exist; add it with: airlock connections add %s", id, id))
	}
	return c, err
}
