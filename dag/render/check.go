package render

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// ErrUndeclaredParam marks a template that reads a param that nothing declares:
// it works in the runs whose conf gives it.
var ErrUndeclaredParam = errors.New("nothing declares this param")

// Check tries a template without a run. The error says what fails whatever the
// run: its syntax, or a name or filter that there is not. What depends on the
// run's values is not looked at. It is a *dag.Error, as those of rendering are;
// one that wraps ErrUndeclaredParam holds only for runs whose conf does not give
// the param. No run, variable, connection or XCom is read.
func Check(tpl string, d *dag.DAG, t *dag.Task) error { return CheckEvent(tpl, d, t, nil) }

// CheckEvent is Check for a template that is rendered with an event of a task, or
// with one of a run where t is nil: names are there besides, and where there is
// no task, its own names are not.
func CheckEvent(tpl string, d *dag.DAG, t *dag.Task, names []string) error {
	if !IsTemplate(tpl) {
		return nil
	}
	params := map[string]any{}
	for name := range d.ParamSchemas {
		params[name] = ""
	}
	maps.Copy(params, d.Params)
	extra := make(map[string]any, len(names))
	for _, name := range names {
		extra[name] = ""
	}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	run := &dag.Run{DagID: d.ID, RunID: "check", LogicalDate: &at, DataIntervalStart: &at, DataIntervalEnd: &at, RunAfter: at}
	in := Input{DAG: d, Run: run, Params: params, Extra: extra, PreviousSuccess: func() (*dag.Run, error) { return nil, nil }}
	if t != nil {
		maps.Copy(params, t.Params)
		key := dag.TaskInstanceKey{DagID: d.ID, RunID: run.RunID, TaskID: t.ID, MapIndex: -1}
		in.Task, in.TI = t, &dag.TaskInstance{TaskInstanceKey: key, TryNumber: 1}
	}
	_, err := New(in).String(tpl)
	if err == nil {
		return nil
	}
	var syntax *malformed
	var name *undefined
	var attribute *undefinedAttribute
	var field *missing // of an object of ours, whose fields are the same in every run
	switch {
	case errors.As(err, &syntax), errors.As(err, &name), errors.As(err, &field):
		return err
	case errors.As(err, &attribute) && attribute.of == "params":
		hint := "declare it under params:"
		if near := dag.Nearest(attribute.name, slices.Collect(maps.Keys(params))); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		return &dag.Error{Code: dag.ErrInvalid, Op: "template", Err: fmt.Errorf("params.%s: %w", attribute.name, ErrUndeclaredParam), Hint: hint}
	default:
	}
	if m := unknownFilter.FindStringSubmatch(err.Error()); m != nil {
		hint := ""
		if near := dag.Nearest(m[1], filterNames()); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		return &dag.Error{Code: dag.ErrInvalid, Op: "template", Err: fmt.Errorf("there is no filter %q", m[1]), Hint: hint}
	}
	return nil
}
