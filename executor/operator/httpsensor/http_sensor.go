package httpsensor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/operator"
	"github.com/airlock-dag/airlock/executor/operator/expression"
	"github.com/airlock-dag/airlock/executor/operator/httpcall"
	"github.com/airlock-dag/airlock/executor/operator/sensor"
)

// Operator waits for an answer.
type Operator struct{ calls *httpcall.Caller }

// New makes the operator.
func New(calls *httpcall.Caller) Operator { return Operator{calls: calls} }

// Spec implements operator.Operator.
func (Operator) Spec() dag.OperatorSpec {
	return dag.OperatorSpec{
		Name: "http_sensor",
		Aliases: []string{
			"airflow.providers.http.sensors.http.HttpSensor",
			"airflow.sensors.http_sensor.HttpSensor",
		},
		Doc: "Waits until an HTTP service answers as a condition says.",
		Fields: slices.Concat(httpcall.Fields("GET"), []dag.Field{
			{Name: "request_params", Type: dag.FieldAny, Templated: true, Mappable: true, Doc: "Airflow's name of data; with both, this is the query."},
			{Name: "response_error_codes_allowlist", Type: dag.FieldAny, Doc: "Statuses that mean \"not yet\"; only 404 when not given."},
			{Name: "request_timeout", Type: dag.FieldDuration, Mappable: true, Default: "60s", Doc: "How long one request may take."},
		}, sensor.Fields()),
		Ignored:  append(httpcall.Ignored(), "request_kwargs"),
		Validate: validate,
	}
}

func validate(args map[string]any) []dag.Problem {
	out := append(httpcall.Validate(args), sensor.Validate(args)...)
	bad := func(path, format string, v ...any) {
		out = append(out, dag.Problem{Path: path, Severity: dag.SeverityError, Code: "bad-value", Message: fmt.Sprintf(format, v...)})
	}
	if _, err := notYet(args["response_error_codes_allowlist"]); err != nil {
		bad("response_error_codes_allowlist", "%v", err)
	}
	if s, ok := args["request_timeout"].(float64); ok && !(s > 0 && s <= 1e6) {
		bad("request_timeout", "request_timeout is %v seconds; it must be above 0 and at most 1000000", s)
	}
	return out
}

// notYet reads the statuses that mean "not yet".
func notYet(v any) (map[int]bool, error) {
	if v == nil {
		return map[int]bool{404: true}, nil
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	out := map[int]bool{}
	for _, item := range list {
		n, err := strconv.Atoi(strings.TrimSpace(fmt.Sprint(item)))
		if err != nil || n < 100 || n > 999 {
			return nil, fmt.Errorf("%v is no HTTP status; write them like [404, 503]", item)
		}
		out[n] = true
	}
	return out, nil
}

// Run implements operator.Operator.
func (o Operator) Run(ctx context.Context, t *operator.Task) dag.Outcome {
	w := &wait{calls: o.calls, t: t}
	var err error
	if w.notYet, err = notYet(t.Args["response_error_codes_allowlist"]); err != nil {
		return dag.Failed(fault.New(fault.CodeInvalidArgument, "response_error_codes_allowlist: "+err.Error()))
	}
	if text, ok := t.Args["response_check"].(string); ok {
		if w.check, err = expression.Compile(text, httpcall.Env{}); err != nil {
			return dag.Failed(fault.New(fault.CodeInvalidArgument, "response_check: "+err.Error()))
		}
	}
	if s, ok := t.Args["request_timeout"].(float64); ok && s > 0 {
		w.limit = time.Duration(min(s, 1e6) * float64(time.Second))
	}
	return sensor.Run(ctx, t, w.poke)
}

type wait struct {
	calls  *httpcall.Caller
	t      *operator.Task
	check  *expression.Expression
	notYet map[int]bool
	limit  time.Duration
}

func (w *wait) poke(ctx context.Context) (sensor.Seen, *dag.TaskError) {
	r, te := w.calls.Call(ctx, w.t, httpcall.Request{Method: "GET", Limit: w.limit})
	if te != nil {
		if r != nil && w.notYet[r.StatusCode] {
			return sensor.Seen{Text: status(r)}, nil
		}
		return sensor.Seen{}, te
	}
	if w.check == nil {
		return sensor.Seen{Done: true, Text: status(r)}, nil
	}
	holds, err := w.check.Holds(httpcall.Env{Response: *r})
	if err != nil {
		e := fault.New(fault.CodeResponseInvalid, "response_check: "+err.Error())
		e.Class = dag.ClassTransient // the next answer may be another
		return sensor.Seen{}, e
	}
	if !holds {
		return sensor.Seen{Text: status(r) + ", and response_check does not hold"}, nil
	}
	return sensor.Seen{Done: true, Text: status(r)}, nil
}

func status(r *httpcall.Response) string {
	return strings.TrimSpace(fmt.Sprintf("status %d %s", r.StatusCode, r.Reason))
}
