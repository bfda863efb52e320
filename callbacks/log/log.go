package log

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/airlock-dag/airlock/callbacks"
	"github.com/airlock-dag/airlock/dag"
)

// Notifier writes events to a log. Make it with New.
type Notifier struct {
	log *slog.Logger
}

// New makes the notifier.
func New(log *slog.Logger) *Notifier { return &Notifier{log: log} }

// Name implements callbacks.Notifier.
func (*Notifier) Name() string { return "log" }

// Spec describes the arguments.
func Spec() dag.OperatorSpec {
	return dag.OperatorSpec{
		Name: "log",
		Fields: []dag.Field{
			{Name: "message", Type: dag.FieldString},
			{Name: "level", Type: dag.FieldString, Enum: []string{"debug", "info", "warn", "warning", "error"}},
		},
	}
}

// Notify implements callbacks.Notifier: one line, at the level that the
// arguments or the kind of event give.
func (n *Notifier) Notify(ctx context.Context, d callbacks.Delivery) error {
	if err := d.Args.Check(Spec()); err != nil {
		return err
	}
	message, err := d.Args.Text("message")
	if err != nil {
		return err
	}
	if message == "" {
		message = headline(d.Context)
	}
	level, err := level(d)
	if err != nil {
		return err
	}
	n.log.LogAttrs(ctx, level, message, attrs(d.Context)...)
	return nil
}

// headline is the line where the receiver gives none.
func headline(c dag.EventContext) string {
	switch c.Event {
	case dag.EventCircuitOpen:
		return "circuit " + c.Circuit + " is open"
	case dag.EventCircuitClose:
		return "circuit " + c.Circuit + " is closed again"
	default:
		return "callback " + string(c.Event)
	}
}

func level(d callbacks.Delivery) (slog.Level, error) {
	text, err := d.Args.Text("level")
	if err != nil {
		return 0, err
	}
	switch strings.ToLower(text) {
	case "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warn", "warning":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	case "":
	default:
		return 0, callbacks.Permanent(fmt.Errorf("level is %q; there are: debug, info, warn, error", text))
	}
	switch d.Context.Event {
	case dag.EventFailure, dag.EventCircuitOpen:
		return slog.LevelError, nil
	case dag.EventRetry:
		return slog.LevelWarn, nil
	default:
		return slog.LevelInfo, nil
	}
}

// attrs are the event's values that are set.
func attrs(c dag.EventContext) []slog.Attr {
	out := []slog.Attr{slog.String("event", string(c.Event))}
	add := func(key, value string) {
		if value != "" {
			out = append(out, slog.String(key, value))
		}
	}
	add("circuit", c.Circuit)
	add("dag_id", c.DagID)
	add("run_id", c.RunID)
	add("task_id", c.TaskID)
	if c.MapIndex >= 0 && c.TaskID != "" {
		out = append(out, slog.Int("map_index", c.MapIndex))
	}
	if c.TryNumber > 0 {
		out = append(out, slog.Int("try_number", c.TryNumber))
	}
	add("state", c.State)
	add("reason", c.Reason)
	add("error_class", string(c.ErrorClass))
	add("error_code", c.ErrorCode)
	add("exception", c.Exception)
	if c.NextTryAt != nil {
		out = append(out, slog.Time("next_try_at", *c.NextTryAt))
	}
	add("log_path", c.LogPath)
	add("alert_key", c.AlertKey)
	add("dedup_key", c.DedupKey)
	return out
}
