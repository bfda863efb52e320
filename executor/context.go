package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/render"
	"github.com/airlock-dag/airlock/executor/operator"
)

// renderer makes the template context of an attempt.
func (w *Worker) renderer(ctx context.Context, in *Ending, log *logFile) (*render.Renderer, error) {
	c := in.Claim
	params, err := render.InstanceParams(in.DAG, in.Task, c.Run.Conf, c.Payload)
	if err != nil {
		return nil, err
	}
	return NewRenderer(ctx, RenderInput{
		DAG: in.DAG, Task: in.Task, TI: &c.TaskInstance, Run: &c.Run, Params: params,
		Settings: notingSettings{w.o.Settings, in.trouble}, XComs: notingXComs{w.o.Store, in.trouble}, Secret: log.Mask, Clock: w.o.Clock,
		PreviousSuccess: func() (*dag.Run, error) {
			last, err := w.previousSuccess(ctx, c.Run)
			return last, in.trouble.note(ctx, err)
		},
	}), nil
}

// previousSuccess is the last successful run of the DAG before a run, by
// logical date; nil when there is none.
func (w *Worker) previousSuccess(ctx context.Context, run dag.Run) (*dag.Run, error) {
	if run.LogicalDate == nil {
		return nil, nil
	}
	runs, err := w.o.Store.Runs(ctx, dag.RunFilter{DagID: run.DagID, States: []dag.RunState{dag.RunSuccess}, Until: &run.RunAfter, Limit: 50})
	if err != nil {
		return nil, err
	}
	var last *dag.Run
	for i := range runs {
		at := runs[i].LogicalDate
		if at != nil && at.Before(*run.LogicalDate) && (last == nil || at.After(*last.LogicalDate)) {
			last = &runs[i]
		}
	}
	return last, nil
}

// previousDelay is the delay before the attempt that just failed, which
// decorrelated jitter grows from.
func (w *Worker) previousDelay(ctx context.Context, in *Ending) time.Duration {
	if in.Claim.ID == 0 || in.Task == nil || in.Task.Retry.Class == nil || in.Task.Retry.Class.Jitter != dag.JitterDecorrelated {
		return 0
	}
	attempts, err := w.o.Store.Attempts(ctx, in.Claim.TaskInstanceKey)
	if err != nil || len(attempts) == 0 {
		return 0 // drawn from the base then, which is within the policy
	}
	return attempts[len(attempts)-1].Delay
}

// RenderInput is what NewRenderer joins into a template context.
type RenderInput struct {
	DAG      *dag.DAG
	Task     *dag.Task         // nil for a DAG-level template
	TI       *dag.TaskInstance // likewise
	Run      *dag.Run
	Params   map[string]any
	Settings SettingsStore
	XComs    XComReader
	// Secret, when set, is told every password that a template may print.
	Secret func(string)
	Extra  map[string]any
	// Clock serves macros; the system's when nil.
	Clock dag.Clock
	// PreviousSuccess serves prev_data_interval_start_success and its like.
	PreviousSuccess func() (*dag.Run, error)
}

// NewRenderer makes a renderer whose variables, connections and XComs are read
// from the stores when a template asks for them.
func NewRenderer(ctx context.Context, in RenderInput) *render.Renderer {
	return render.New(render.Input{
		DAG: in.DAG, Task: in.Task, TI: in.TI, Run: in.Run, Params: in.Params, Extra: in.Extra,
		Clock: in.Clock, PreviousSuccess: in.PreviousSuccess,
		Variables: func() map[string]string {
			vars, err := in.Settings.Variables(ctx)
			out := make(map[string]string, len(vars))
			if err != nil {
				return out
			}
			for _, v := range vars {
				out[v.Key] = v.Value
			}
			return out
		},
		Connection: func(id string) (dag.Connection, error) {
			conn, err := in.Settings.Connection(ctx, id)
			if err == nil && in.Secret != nil {
				in.Secret(conn.Password)
			}
			return conn, err
		},
		XCom: func(taskIDs []string, key, dagID string, mapIndexes []int) (any, error) {
			if key == "" {
				key = dag.XComReturnValue
			}
			if dagID == "" {
				dagID = in.Run.DagID
			}
			return pullXComs(ctx, in.XComs, dagID, in.Run.RunID, taskIDs, key, mapIndexes)
		},
	})
}

// pullXComs reads values as xcom_pull gives them: one task id gives one value,
// several give a list; map indexes pick instances of a mapped task.
func pullXComs(ctx context.Context, r XComReader, dagID, runID string, taskIDs []string, key string, mapIndexes []int) (any, error) {
	one := func(taskID string, idx *int) (any, error) {
		raw, err := r.XCom(ctx, dagID, runID, taskID, key, idx)
		if err != nil || raw == nil {
			return nil, err
		}
		var v any
		err = decodeJSON(raw, &v)
		return v, err
	}
	var all []any
	for _, id := range taskIDs {
		if len(mapIndexes) == 0 {
			v, err := one(id, nil)
			if err != nil {
				return nil, err
			}
			all = append(all, v)
			continue
		}
		for _, i := range mapIndexes {
			v, err := one(id, &i)
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
	}
	if len(all) == 1 {
		return all[0], nil
	}
	return all, nil
}

// decodeJSON keeps numbers exact.
func decodeJSON(raw []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return d.Decode(v)
}

// trigger makes a run of another DAG for trigger_dag_run. The run id is made
// from the asking instance when none is given, so that a second attempt finds
// the run of the first.
func (w *Worker) trigger(ctx context.Context, c dag.Claim, r operator.TriggerRequest) (string, error) {
	cat, ok := w.o.Store.(CatalogStore)
	if !ok {
		return "", &dag.Error{Code: dag.ErrInternal, Op: "trigger " + r.DagID, Err: errors.New("this worker's store has no catalog")}
	}
	rows, err := cat.DAGRows(ctx, dag.DAGFilter{IDs: []string{r.DagID}})
	if err != nil {
		return "", err
	}
	if len(rows) == 0 {
		return "", &dag.Error{Code: dag.ErrNotFound, Op: "trigger " + r.DagID, Err: fmt.Errorf("there is no such DAG"), Hint: "see `airlock dags list`"}
	}
	runID := r.RunID
	if runID == "" {
		key := c.String()
		if intent := c.Intent(); intent > 0 { // cleared after a success: another run is wanted
			key = dag.IdempotencyKey(c.TaskInstanceKey, intent)
		}
		runID = "manual__" + dag.PayloadHash([]byte(key))[:24]
	}
	conf, err := json.Marshal(r.Conf)
	if err != nil {
		return "", &dag.Error{Code: dag.ErrInvalid, Op: "trigger " + r.DagID, Err: fmt.Errorf("its conf is not JSON: %w", err)}
	}
	nr, err := ManualRun(ctx, cat, rows[0], ManualRunRequest{
		RunID: runID, LogicalDate: r.LogicalDate, Conf: conf, TriggeredBy: "operator", AskedBy: c.ID, Now: w.o.Clock.Now(),
	})
	if err != nil {
		return "", err
	}
	made, err := w.o.Store.CreateRuns(ctx, []dag.NewRun{nr})
	if err != nil {
		return "", err
	}
	w.o.SchedulerWake.Signal()
	return made[0].Run.RunID, nil
}
