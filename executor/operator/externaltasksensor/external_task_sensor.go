package externaltasksensor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/operator"
	"github.com/airlock-dag/airlock/executor/operator/sensor"
)

// Operator waits for another DAG.
type Operator struct{}

// New makes the operator.
func New() Operator { return Operator{} }

// Spec implements operator.Operator.
func (Operator) Spec() dag.OperatorSpec {
	return dag.OperatorSpec{
		Name: "external_task_sensor",
		Aliases: []string{
			"airflow.providers.standard.sensors.external_task.ExternalTaskSensor",
			"airflow.sensors.external_task.ExternalTaskSensor",
			"airflow.sensors.external_task_sensor.ExternalTaskSensor",
		},
		Doc: "Waits for the run of another DAG with the same logical date, or for tasks of it.",
		Fields: append([]dag.Field{
			{Name: "external_dag_id", Type: dag.FieldString, Required: true, Templated: true, Mappable: true, Doc: "The DAG to wait for."},
			{Name: "external_task_id", Type: dag.FieldString, Templated: true, Mappable: true, Doc: "The task to wait for; the whole run when nothing is named."},
			{Name: "external_task_ids", Type: dag.FieldStringList, Templated: true, Mappable: true, Doc: "Tasks to wait for, all of them."},
			{Name: "external_task_group_id", Type: dag.FieldString, Templated: true, Mappable: true, Doc: "Group whose tasks to wait for, all of them."},
			{Name: "allowed_states", Type: dag.FieldStringList, Default: []any{"success"}, Doc: "States that end the wait."},
			{Name: "skipped_states", Type: dag.FieldStringList, Doc: "States in which this task is skipped."},
			{Name: "failed_states", Type: dag.FieldStringList, Doc: "States in which this task fails."},
			{Name: "execution_delta", Type: dag.FieldDuration, Mappable: true, Doc: "How much earlier the other run's logical date is."},
			{Name: "check_existence", Type: dag.FieldBool, Default: false, Doc: "Fail at once when there is no such DAG, task or group, instead of waiting for it."},
		}, sensor.Fields()...),
		Ignored:  []string{"poll_interval"},
		Validate: validate,
	}
}

func validate(args map[string]any) []dag.Problem {
	out := sensor.Validate(args)
	if err := readError(args); err != nil {
		out = append(out, dag.Problem{Path: err.key, Severity: dag.SeverityError, Code: "bad-value", Message: err.text})
	}
	return out
}

// want is what a step waits for.
type want struct {
	query                    operator.ExternalQuery
	allowed, skipped, failed []string
	checkExistence           bool
}

// keyError is what is wrong with a key.
type keyError struct{ key, text string }

func readError(args map[string]any) *keyError {
	_, err := read(args)
	return err
}

// read reads the arguments, all but the logical date.
func read(args map[string]any) (want, *keyError) {
	var w want
	w.query.DagID = text(args["external_dag_id"])
	if w.query.DagID == "" {
		return w, &keyError{"external_dag_id", "external_dag_id is empty"}
	}
	given := []string{}
	if id := text(args["external_task_id"]); id != "" {
		given, w.query.TaskIDs = append(given, "external_task_id"), []string{id}
	}
	if ids := texts(args["external_task_ids"]); len(ids) > 0 {
		given, w.query.TaskIDs = append(given, "external_task_ids"), ids
	}
	if w.query.GroupID = text(args["external_task_group_id"]); w.query.GroupID != "" {
		given = append(given, "external_task_group_id")
	}
	if len(given) > 1 {
		return w, &keyError{given[1], "only one of " + strings.Join(given, " and ") + " can be given"}
	}
	if twice := duplicate(w.query.TaskIDs); twice != "" {
		return w, &keyError{"external_task_ids", fmt.Sprintf("external_task_ids names %q twice", twice)}
	}
	w.allowed, w.skipped, w.failed = texts(args["allowed_states"]), texts(args["skipped_states"]), texts(args["failed_states"])
	if len(w.allowed) == 0 {
		w.allowed = []string{string(dag.StateSuccess)}
	}
	if err := w.states(len(given) > 0); err != nil {
		return w, err
	}
	w.checkExistence, _ = args["check_existence"].(bool)
	return w, nil
}

// states checks that the states are ones that tasks, or runs, have.
func (w want) states(ofTasks bool) *keyError {
	valid := []string{"queued", "running", "success", "failed"}
	of := "a run"
	if ofTasks {
		of, valid = "a task", nil
		for _, s := range dag.States() {
			if s != dag.StateNone {
				valid = append(valid, string(s))
			}
		}
	}
	seen := map[string]string{}
	for _, list := range []struct {
		key    string
		states []string
	}{{"allowed_states", w.allowed}, {"skipped_states", w.skipped}, {"failed_states", w.failed}} {
		for _, s := range list.states {
			if strings.Contains(s, "{{") {
				continue
			}
			if !slices.Contains(valid, s) {
				return &keyError{list.key, fmt.Sprintf("%q is no state of %s; it has: %s", s, of, strings.Join(valid, ", "))}
			}
			if other, twice := seen[s]; twice {
				return &keyError{list.key, fmt.Sprintf("the state %s stands in %s and in %s", s, other, list.key)}
			}
			seen[s] = list.key
		}
	}
	return nil
}

// Run implements operator.Operator.
func (Operator) Run(ctx context.Context, t *operator.Task) dag.Outcome {
	w, err := read(t.Args)
	if err != nil {
		return dag.Failed(fault.New(fault.CodeInvalidArgument, err.text))
	}
	if t.ExternalStates == nil {
		return dag.Failed(fault.New(fault.CodeInvalidArgument, "this process cannot look at other runs"))
	}
	w.query.LogicalDate = t.Run.RunAfter
	if t.Run.LogicalDate != nil {
		w.query.LogicalDate = *t.Run.LogicalDate
	}
	if s, ok := t.Args["execution_delta"].(float64); ok {
		w.query.LogicalDate = w.query.LogicalDate.Add(-time.Duration(s * float64(time.Second)))
	}
	return sensor.Run(ctx, t, func(ctx context.Context) (sensor.Seen, *dag.TaskError) {
		got, err := t.ExternalStates(ctx, w.query)
		if err != nil {
			if te := fault.Context(ctx); te != nil {
				return sensor.Seen{}, te
			}
			return sensor.Seen{}, fault.New(fault.CodeStateDatabase, "look at the other run: "+err.Error())
		}
		return w.judge(got)
	})
}

// name says what is waited for.
func (w want) name() string {
	s := "DAG " + w.query.DagID
	switch {
	case w.query.GroupID != "":
		s = "group " + w.query.GroupID + " of " + s
	case len(w.query.TaskIDs) > 0:
		s = "task " + strings.Join(w.query.TaskIDs, ", ") + " of " + s
	}
	return s + " at " + w.query.LogicalDate.UTC().Format(time.RFC3339Nano)
}

// judge says what the states of the other run mean. A failed state comes before
// a skipped one, and both before the allowed ones.
func (w want) judge(got operator.ExternalStates) (sensor.Seen, *dag.TaskError) {
	if w.checkExistence {
		switch {
		case got.NoDAG:
			return sensor.Seen{}, fault.New(fault.CodeDAGNotFound, fmt.Sprintf("there is no DAG %q, and check_existence is set", w.query.DagID))
		case len(got.Unknown) > 0:
			return sensor.Seen{}, fault.New(fault.CodeInvalidArgument, fmt.Sprintf(
				"DAG %q has no %s, and check_existence is set", w.query.DagID, strings.Join(got.Unknown, ", ")))
		}
	}
	switch {
	case got.Run != "":
	case got.Newest.IsZero():
		return sensor.Seen{Text: w.name() + " has no run"}, nil
	default:
		return sensor.Seen{Text: fmt.Sprintf("%s has no run, and its schedule has gone on to %s: that run was cleaned away, or never made, and only a backfill or a run by hand with this date would bring it",
			w.name(), got.Newest.UTC().Format(time.RFC3339Nano))}, nil
	}
	states := map[string][]string{} // by who has it
	who := "the run"
	if len(w.query.TaskIDs) > 0 || w.query.GroupID != "" {
		for id, counts := range got.Tasks {
			for s := range counts {
				states[id] = append(states[id], string(s))
			}
		}
	} else {
		states[who] = []string{string(got.Run)}
	}
	if id, s := first(states, w.failed); id != "" {
		e := fault.New(fault.CodeExternalTaskFailed, fmt.Sprintf("%s: %s is %s", w.name(), id, s))
		e.Hint = "clear what failed there, then this task"
		return sensor.Seen{}, e
	}
	if id, s := first(states, w.skipped); id != "" {
		return sensor.Seen{Skip: fmt.Sprintf("%s: %s is %s", w.name(), id, s)}, nil
	}
	if waits := w.missing(states, got.TaskIDs); waits != "" {
		return sensor.Seen{Text: w.name() + ": " + waits}, nil
	}
	return sensor.Seen{Done: true, Text: w.name()}, nil
}

// missing says what is not in an allowed state, "" for nothing.
func (w want) missing(states map[string][]string, taskIDs []string) string {
	if len(states) == 0 {
		return "no task is there"
	}
	for _, id := range taskIDs {
		if len(states[id]) == 0 {
			return id + " is not there"
		}
	}
	for _, id := range slices.Sorted(maps.Keys(states)) {
		for _, s := range states[id] {
			if !slices.Contains(w.allowed, s) {
				return id + " is " + s
			}
		}
	}
	return ""
}

// first is the first task, by its id, with one of the states.
func first(states map[string][]string, among []string) (id, state string) {
	for _, id := range slices.Sorted(maps.Keys(states)) {
		for _, s := range states[id] {
			if slices.Contains(among, s) {
				return id, s
			}
		}
	}
	return "", ""
}

func text(v any) string {
	s, _ := v.(string)
	return strings.TrimSpace(s)
}

func texts(v any) []string {
	var out []string
	switch x := v.(type) {
	case string:
		out = append(out, strings.TrimSpace(x))
	case []any:
		for _, item := range x {
			out = append(out, strings.TrimSpace(fmt.Sprint(item)))
		}
	case []string:
		out = append(out, x...)
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

func duplicate(ids []string) string {
	seen := map[string]bool{}
	for _, id := range ids {
		if seen[id] {
			return id
		}
		seen[id] = true
	}
	return ""
}
