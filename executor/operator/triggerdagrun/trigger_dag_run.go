package triggerdagrun

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/operator"
)

// defaultPoke is how often a waiting task looks at the run.
const defaultPoke = 60 * time.Second

// A waiting task looks no more often than sensors do, and no more seldom than a
// time can say, in seconds.
const (
	shortestPoke = 100 * time.Millisecond
	longestPoke  = 9e9
)

// Operator makes a run of another DAG.
type Operator struct{}

// New makes the operator.
func New() Operator { return Operator{} }

// Spec implements operator.Operator.
func (Operator) Spec() dag.OperatorSpec {
	return dag.OperatorSpec{
		Name: "trigger_dag_run",
		Aliases: []string{
			"airflow.providers.standard.operators.trigger_dagrun.TriggerDagRunOperator",
			"airflow.operators.trigger_dagrun.TriggerDagRunOperator",
			"airflow.operators.dagrun_operator.TriggerDagRunOperator",
		},
		Doc: "Makes a run of another DAG, once however often it is tried.",
		Fields: []dag.Field{
			{Name: "trigger_dag_id", Type: dag.FieldString, Required: true, Templated: true, Mappable: true, Doc: "The DAG to run."},
			{Name: "trigger_run_id", Type: dag.FieldString, Templated: true, Mappable: true,
				Doc: "The new run's id; made from this task instance when not given, so that a retry finds the same run."},
			{Name: "logical_date", Type: dag.FieldString, Templated: true, Mappable: true, Doc: "The new run's logical date, ISO 8601; UTC when it has no zone."},
			{Name: "conf", Type: dag.FieldAny, Templated: true, Mappable: true, Doc: "The new run's conf: a mapping, or a JSON object as text."},
			{Name: "wait_for_completion", Type: dag.FieldBool, Default: false,
				Doc: "Wait for the run's end; the worker's place is free meanwhile."},
			{Name: "poke_interval", Type: dag.FieldDuration, Default: "60s", Doc: "How often a waiting task looks at the run."},
			{Name: "allowed_states", Type: dag.FieldStringList, Default: []any{"success"}, Doc: "States of the run in which this task succeeds."},
			{Name: "failed_states", Type: dag.FieldStringList, Default: []any{"failed"}, Doc: "States of the run in which this task fails."},
		},
		Ignored: []string{
			"reset_dag_run", "skip_when_already_exists", "fail_when_dag_is_paused", "deferrable", "note", "run_after",
			"execution_date", "openlineage_inject_parent_info",
		},
		Validate: validate,
	}
}

func validate(args map[string]any) []dag.Problem {
	var out []dag.Problem
	for _, key := range []string{"allowed_states", "failed_states"} {
		for _, s := range texts(args[key]) {
			if !slices.Contains(runStates(), dag.RunState(s)) && !strings.Contains(s, "{{") {
				out = append(out, dag.Problem{
					Path: key, Severity: dag.SeverityError, Code: "bad-value",
					Message: fmt.Sprintf("%q is no state of a run; allowed are queued, running, success, failed", s),
				})
			}
		}
	}
	return out
}

func runStates() []dag.RunState {
	return []dag.RunState{dag.RunQueued, dag.RunRunning, dag.RunSuccess, dag.RunFailed}
}

// Run implements operator.Operator.
func (Operator) Run(ctx context.Context, t *operator.Task) dag.Outcome {
	req, err := request(t.Args)
	if err != nil {
		return dag.Failed(fault.New(fault.CodeInvalidArgument, err.Error()))
	}
	runID, err := t.Trigger(ctx, req)
	if err != nil {
		return dag.Failed(triggerError(ctx, req, err))
	}
	fmt.Fprintf(t.Log, "airlock: run %s of DAG %s\n", runID, req.DagID)
	done := dag.Success(runID)
	done.XComs = map[string]any{"trigger_run_id": runID}
	if wait, _ := t.Args["wait_for_completion"].(bool); !wait {
		return done
	}
	if t.RunState == nil {
		return dag.Failed(fault.New(fault.CodeInvalidArgument, "wait_for_completion: this process cannot look at other runs"))
	}
	state, err := t.RunState(ctx, req.DagID, runID)
	if err != nil {
		return dag.Failed(triggerError(ctx, req, err))
	}
	switch {
	case state == "":
		return dag.Failed(externalFailed("run %s of DAG %s was deleted while it was waited for", runID, req.DagID))
	case contains(t.Args["allowed_states"], dag.RunSuccess, state):
		return done
	case contains(t.Args["failed_states"], dag.RunFailed, state):
		return dag.Failed(externalFailed("run %s of DAG %s is %s", runID, req.DagID, state))
	case state.Finished():
		return dag.Failed(externalFailed("run %s of DAG %s ended as %s, which is not among allowed_states", runID, req.DagID, state))
	}
	fmt.Fprintf(t.Log, "airlock: the run is %s; looks again in %s\n", state, poke(t.Args))
	return dag.Outcome{Kind: dag.OutcomeReschedule, RescheduleAt: t.Clock.Now().Add(poke(t.Args))}
}

func externalFailed(format string, args ...any) *dag.TaskError {
	e := fault.New(fault.CodeExternalTaskFailed, fmt.Sprintf(format, args...))
	e.Hint = "clear that run, then this task"
	return e
}

// triggerError says why the run could not be made or looked at.
func triggerError(ctx context.Context, req operator.TriggerRequest, err error) *dag.TaskError {
	if te := fault.Context(ctx); te != nil {
		return te
	}
	text := fmt.Sprintf("trigger DAG %s: %v", req.DagID, err)
	switch dag.CodeOf(err) {
	case dag.ErrNotFound:
		return fault.New(fault.CodeDAGNotFound, text)
	case dag.ErrInvalid:
		return fault.New(fault.CodeInvalidArgument, text)
	case dag.ErrExists, dag.ErrConflict, dag.ErrInternal:
	}
	te := fault.Error(err)
	if te.Code == fault.CodeInternal {
		return fault.New(fault.CodeTriggerFailed, text)
	}
	te.Message = text
	return te
}

// contains tells whether a list of states, or its default, has the state.
func contains(v any, fallback, state dag.RunState) bool {
	if v == nil {
		return state == fallback
	}
	return slices.Contains(texts(v), string(state))
}

// texts reads a list of texts, or one text.
func texts(v any) []string {
	switch x := v.(type) {
	case string:
		return []string{x}
	case []any:
		var out []string
		for _, item := range x {
			out = append(out, fmt.Sprint(item))
		}
		return out
	case []string:
		return x
	default:
		return nil
	}
}

// poke reads poke_interval, which is at least shortestPoke.
func poke(args map[string]any) time.Duration {
	s, ok := args["poke_interval"].(float64)
	if !ok || math.IsNaN(s) {
		return defaultPoke
	}
	return max(time.Duration(min(s, longestPoke)*float64(time.Second)), shortestPoke)
}

// request reads what run is asked for.
func request(args map[string]any) (operator.TriggerRequest, error) {
	var req operator.TriggerRequest
	var ok bool
	if req.DagID, ok = args["trigger_dag_id"].(string); !ok || strings.TrimSpace(req.DagID) == "" {
		return req, fmt.Errorf("trigger_dag_id is %v; it must be the id of a DAG", args["trigger_dag_id"])
	}
	req.DagID = strings.TrimSpace(req.DagID)
	if v := args["trigger_run_id"]; v != nil {
		if req.RunID, ok = v.(string); !ok {
			return req, fmt.Errorf("trigger_run_id is %v; it must be text", v)
		}
	}
	if v := args["logical_date"]; v != nil && v != "" && v != "None" {
		text, _ := v.(string)
		at, err := instant(text)
		if err != nil {
			return req, fmt.Errorf("logical_date is %v; it must be a date like 2026-03-01T02:00:00+00:00", v)
		}
		req.LogicalDate = &at
	}
	conf, err := mapping(args["conf"])
	if err != nil {
		return req, err
	}
	req.Conf = conf
	return req, nil
}

// instant reads a date; one without a zone is UTC.
func instant(text string) (time.Time, error) {
	text = strings.TrimSpace(text)
	var last error
	for _, layout := range []string{
		time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02",
	} {
		at, err := time.Parse(layout, text)
		if err == nil {
			return at.UTC(), nil
		}
		last = err
	}
	return time.Time{}, last
}

// mapping reads conf.
func mapping(v any) (map[string]any, error) {
	switch x := v.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return x, nil
	case string:
		if strings.TrimSpace(x) == "" {
			return nil, nil
		}
		var m map[string]any
		d := json.NewDecoder(bytes.NewReader([]byte(x)))
		d.UseNumber()
		if err := d.Decode(&m); err != nil || d.More() {
			return nil, fmt.Errorf("conf is text that is no JSON object: %q", x)
		}
		return m, nil
	default:
		return nil, fmt.Errorf("conf is %v; it must be a mapping", v)
	}
}
