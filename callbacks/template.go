package callbacks

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/render"
)

// Templates renders arguments with Airflow's names, as far as an event knows
// them, and variables and connections from settings (nil for none). The error
// says which names there are besides.
func Templates(settings Settings, clock dag.Clock) RenderFunc {
	return func(ctx context.Context, args map[string]any, c dag.EventContext) (map[string]any, error) {
		if len(args) == 0 {
			return args, nil
		}
		var unread error // what could not be read, for want of the database
		in := templateInput(c)
		in.Clock = clock
		if settings != nil {
			in.Connection = func(id string) (dag.Connection, error) {
				conn, err := settings.Connection(ctx, id)
				if err != nil && dag.CodeOf(err) != dag.ErrNotFound {
					unread = fmt.Errorf("the connection %q cannot be read: %w", id, err)
				}
				return conn, err
			}
			in.Variables = func() map[string]string {
				vars, err := settings.Variables(ctx)
				if err != nil {
					unread = fmt.Errorf("the variables cannot be read: %w", err)
				}
				out := make(map[string]string, len(vars))
				for _, v := range vars {
					out[v.Key] = v.Value
				}
				return out
			}
		}
		rendered, err := render.New(in).Value(map[string]any(args))
		switch out, ok := rendered.(map[string]any); {
		case unread != nil:
			return nil, &Failure{Err: unread}
		case err != nil:
			return nil, Permanent(err)
		case !ok:
			return nil, Permanent(fmt.Errorf("the arguments became a %T", rendered))
		default:
			return out, nil
		}
	}
}

// TemplateNames are the names that templates of callbacks have besides Airflow's.
func TemplateNames() []string {
	return slices.Sorted(maps.Keys(templateInput(dag.EventContext{}).Extra))
}

// templateInput is what an event knows of its DAG, run and task instance.
func templateInput(c dag.EventContext) render.Input {
	at := c.At
	in := render.Input{
		DAG: &dag.DAG{ID: c.DagID},
		Run: &dag.Run{
			DagID: c.DagID, RunID: c.RunID, Type: c.RunType, LogicalDate: c.LogicalDate,
			DataIntervalStart: c.DataIntervalStart, DataIntervalEnd: c.DataIntervalEnd,
		},
		Params: c.Params,
		Extra: map[string]any{
			"event": string(c.Event), "state": c.State, "dedup_key": c.DedupKey, "log_path": c.LogPath,
			"exception": orNone(c.Exception), "reason": orNone(c.Reason), "error_class": orNone(string(c.ErrorClass)),
			"error_code": orNone(c.ErrorCode), "error_message": orNone(c.ErrorMessage),
			"alert_key": orNone(c.AlertKey), "circuit": orNone(c.Circuit), "opening": c.Opening,
		},
	}
	if c.TaskID == "" {
		in.Run.State, in.Run.EndDate = dag.RunState(c.State), &at
		return in
	}
	in.Run.State = dag.RunRunning
	in.Task = &dag.Task{ID: c.TaskID}
	in.TI = &dag.TaskInstance{
		TaskInstanceKey: dag.TaskInstanceKey{DagID: c.DagID, RunID: c.RunID, TaskID: c.TaskID, MapIndex: c.MapIndex},
		State:           dag.State(c.State), TryNumber: c.TryNumber, MaxTries: c.MaxTries, NextTryAt: c.NextTryAt,
	}
	return in
}

// orNone gives templates None for what the event does not have.
func orNone(s string) any {
	if s == "" {
		return nil
	}
	return s
}
