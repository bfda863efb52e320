package render

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
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
func Check(tpl string, d *dag.DAG, t *dag.Task) error { return NewChecker(d, t, nil).Check(tpl) }

// CheckEvent is Check for a template that is rendered with an event of a task, or
// with one of a run where t is nil: names are there besides, and where there is
// no task, its own names are not.
func CheckEvent(tpl string, d *dag.DAG, t *dag.Task, names []string) error {
	return NewChecker(d, t, names).Check(tpl)
}

// Checker tries templates of one task, or of a DAG's events, one after another.
type Checker struct {
	r      *Renderer
	params map[string]any
}

// NewChecker is a checker for templates of a task; see CheckEvent for one without
// a task and for names.
func NewChecker(d *dag.DAG, t *dag.Task, names []string) *Checker {
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
	return &Checker{r: New(in), params: params}
}

// Check is the function Check for the checker's task.
func (c *Checker) Check(tpl string) error {
	if !IsTemplate(tpl) {
		return nil
	}
	_, err := c.r.String(tpl)
	if err == nil {
		return nil
	}
	var syntax *malformed
	var name *undefined
	var attribute *undefinedAttribute
	var field *missing // of an object of ours, whose fields are the same in every run
	switch {
	case errors.As(err, &name) && setsName(tpl, name.name):
		return nil
	case errors.As(err, &syntax), errors.As(err, &name), errors.As(err, &field):
		return err
	case errors.As(err, &attribute) && attribute.of == "params":
		hint := "declare it under params:"
		if near := dag.Nearest(attribute.name, slices.Collect(maps.Keys(c.params))); near != "" {
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

// nameStatement is a statement of a template that gives names a value, up to the
// first value: what stands behind that is read and not set.
var nameStatement = regexp.MustCompile(`\{%[-+]?\s*(?:for\s([^%]*?)\sin\s|set\s([^%=]*)|with\s([^%]*))`)

// setsName tells whether a template gives a name a value itself. Where it stands in
// an {% if %}, only the run says whether that is done.
func setsName(tpl, name string) bool {
	for _, m := range nameStatement.FindAllStringSubmatch(tpl, -1) {
		if slices.Contains(words.FindAllString(m[1]+" "+m[2], -1), name) {
			return true
		}
		for _, given := range givenName.FindAllStringSubmatch(m[3], -1) {
			if given[1] == name {
				return true
			}
		}
	}
	return false
}

// words are the names in a template, and givenName those before a value.
var (
	words     = regexp.MustCompile(`\w+`)
	givenName = regexp.MustCompile(`(\w+)\s*=[^=]`)
)
