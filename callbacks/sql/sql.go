package sql

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/callbacks"
	"github.com/airlock-dag/airlock/dag"
)

// limit is the longest that one statement may take, with the connection.
const limit = 30 * time.Second

// Exec runs one statement with its arguments, in order, in the database of a
// connection, in a transaction of its own. away tells that the database could
// not be reached or was too busy: a later try may do. Errors hold no password.
type Exec func(ctx context.Context, conn dag.Connection, statement string, args []any) (away bool, err error)

// Notifier runs statements. Make it with New.
type Notifier struct {
	exec Exec
}

// New makes the notifier.
func New(exec Exec) *Notifier { return &Notifier{exec: exec} }

// Name implements callbacks.Notifier.
func (*Notifier) Name() string { return "sql" }

// TemplateContext implements callbacks.ContextAdapter. The texts of errors come
// from anywhere, and in a statement they must not act: templates do not see
// them. They are bound by name.
func (*Notifier) TemplateContext(c dag.EventContext) dag.EventContext {
	c.Exception, c.ErrorMessage = "", ""
	return c
}

// Spec describes the arguments.
func Spec() dag.OperatorSpec {
	return dag.OperatorSpec{
		Name: "sql",
		Fields: []dag.Field{
			{Name: "conn_id", Type: dag.FieldString, Required: true},
			{Name: "sql", Type: dag.FieldString, Required: true},
			{Name: "parameters", Type: dag.FieldMap},
			{Name: "timeout", Type: dag.FieldDuration},
		},
	}
}

// Notify implements callbacks.Notifier.
func (n *Notifier) Notify(ctx context.Context, d callbacks.Delivery) error {
	if err := d.Args.Check(Spec()); err != nil {
		return err
	}
	timeout, err := d.Args.Duration("timeout", limit)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	id, err := d.Args.Text("conn_id")
	if err != nil {
		return err
	}
	text, err := d.Args.Text("sql")
	if err != nil {
		return err
	}
	if id == "" || strings.TrimSpace(text) == "" {
		return callbacks.Permanent(errors.New("conn_id and sql are needed: the database, and the statement to run in it"))
	}
	conn, err := d.Connection(ctx, id)
	if err != nil {
		return err
	}
	known, err := values(d)
	if err != nil {
		return err
	}
	statement, args, err := Bind(text, !strings.EqualFold(conn.Type, "sqlite"), known)
	if err != nil {
		return callbacks.Permanent(err)
	}
	away, err := n.exec(ctx, conn, statement, args)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return &callbacks.Failure{Err: fmt.Errorf("the statement did not end within %s", timeout), Down: true}
	default:
		return &callbacks.Failure{Err: fmt.Errorf("in the database of %s: %w", id, err), Down: away, Permanent: !away}
	}
}

// values are what a statement can bind: the event's own, and the receiver's
// parameters, which win.
func values(d callbacks.Delivery) (map[string]any, error) {
	c := d.Context
	out := map[string]any{
		"event": string(c.Event), "dedup_key": c.DedupKey, "dag_id": c.DagID, "run_id": c.RunID, "task_id": c.TaskID,
		"map_index": c.MapIndex, "try_number": c.TryNumber, "max_tries": c.MaxTries, "state": c.State, "reason": c.Reason,
		"exception": c.Exception, "error_class": string(c.ErrorClass), "error_code": c.ErrorCode, "error_message": c.ErrorMessage,
		"log_path": c.LogPath, "alert_key": c.AlertKey, "circuit": c.Circuit, "at": instant(&c.At), "logical_date": instant(c.LogicalDate),
		"next_try_at": instant(c.NextTryAt), "context": string(d.Body), "headline": callbacks.Headline(c),
	}
	switch own := d.Args["parameters"].(type) {
	case nil:
	case map[string]any:
		for k, v := range own {
			switch v.(type) {
			case nil, string, float64, int, bool:
				out[k] = v
			case json.Number:
				out[k] = fmt.Sprint(v)
			default:
				raw, err := json.Marshal(v)
				if err != nil {
					return nil, callbacks.Permanent(fmt.Errorf("parameters.%s: %w", k, err))
				}
				out[k] = string(raw)
			}
		}
	default:
		return nil, callbacks.Permanent(fmt.Errorf("parameters is a %T, a mapping is needed", own))
	}
	return out, nil
}

// instant is a time as every dialect takes it, UTC; NULL for none.
func instant(t *time.Time) any {
	if t == nil || t.IsZero() {
		return nil
	}
	return t.UTC().Format("2006-01-02 15:04:05.000000")
}
