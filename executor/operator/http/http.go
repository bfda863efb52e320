package httpop

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/operator"
	"github.com/airlock-dag/airlock/executor/operator/expression"
	"github.com/airlock-dag/airlock/executor/operator/httpcall"
)

const (
	// maxValue is the most bytes that a value for later tasks has as JSON.
	maxValue = 4 << 20
	// cutText is what is kept of a text that is larger; no text of this size is
	// larger than maxValue as JSON, whatever is in it.
	cutText = 512 << 10
	// maxLogged is how much of an answer log_response prints.
	maxLogged = 64 << 10
)

// Operator makes one HTTP request.
type Operator struct{ calls *httpcall.Caller }

// New makes the operator.
func New(calls *httpcall.Caller) Operator { return Operator{calls: calls} }

// Spec implements operator.Operator.
func (Operator) Spec() dag.OperatorSpec {
	return dag.OperatorSpec{
		Name: "http",
		Aliases: []string{
			"airflow.providers.http.operators.http.HttpOperator",
			"airflow.providers.http.operators.http.SimpleHttpOperator",
			"airflow.operators.http_operator.SimpleHttpOperator",
		},
		Doc: "Makes one HTTP request; the text of the answer is the XCom.",
		Fields: append(httpcall.Fields("POST"), []dag.Field{
			{Name: "response_filter", Type: dag.FieldString, Mappable: true, Doc: "Expression whose value is kept instead of the text, such as `response.json.id`."},
			{Name: "idempotency_key", Type: dag.FieldString, Templated: true, Mappable: true, Doc: "Sent as Idempotency-Key; the task instance when not given."},
			{Name: "timeout", Type: dag.FieldDuration, Mappable: true, Default: "60s", Doc: "How long the request may take, the answer's body included."},
			{Name: "log_response", Type: dag.FieldBool, Mappable: true, Default: false, Doc: "Print the answer to the attempt's log."},
		}...),
		Ignored:  append(httpcall.Ignored(), "deferrable", "retry_args", "pagination_function", "auth_type"),
		Validate: validate,
	}
}

func validate(args map[string]any) []dag.Problem {
	out := httpcall.Validate(args)
	if s, ok := args["timeout"].(float64); ok && !(s > 0 && s <= 1e6) {
		out = append(out, dag.Problem{Path: "timeout", Severity: dag.SeverityError, Code: "bad-value", Message: fmt.Sprintf("timeout is %v seconds; it must be above 0 and at most 1000000", s)})
	}
	return out
}

// Run implements operator.Operator.
func (o Operator) Run(ctx context.Context, t *operator.Task) dag.Outcome {
	check, filter, err := expressions(t.Args)
	if err != nil {
		return dag.Failed(fault.New(fault.CodeInvalidArgument, err.Error()))
	}
	req := httpcall.Request{Method: "POST", IdempotencyKey: t.IdempotencyKey}
	if s, ok := t.Args["timeout"].(float64); ok && s > 0 {
		req.Limit = time.Duration(min(s, 1e6) * float64(time.Second))
	}
	r, te := o.calls.Call(ctx, t, req)
	if r != nil {
		if show, _ := t.Args["log_response"].(bool); show {
			fmt.Fprintf(t.Log, "%s\n", dag.CutText(r.Text, maxLogged))
		}
		if t.Detail != nil {
			t.Detail(map[string]any{"status_code": r.StatusCode, "bytes": len(r.Text), "elapsed_s": r.Elapsed})
		}
	}
	if te == nil {
		te = checked(check, r)
	}
	if te != nil {
		te.IdempotencyKey = t.IdempotencyKey
		return dag.Failed(te)
	}
	return outcome(t, filter, r)
}

func expressions(args map[string]any) (check, filter *expression.Expression, err error) {
	if text, ok := args["response_check"].(string); ok {
		if check, err = expression.Compile(text, httpcall.Env{}); err != nil {
			return nil, nil, fmt.Errorf("response_check: %w", err)
		}
	}
	if text, ok := args["response_filter"].(string); ok {
		if filter, err = expression.Compile(text, httpcall.Env{}); err != nil {
			return nil, nil, fmt.Errorf("response_filter: %w", err)
		}
	}
	return check, filter, nil
}

// checked asks response_check.
func checked(check *expression.Expression, r *httpcall.Response) *dag.TaskError {
	if check == nil {
		return nil
	}
	holds, err := check.Holds(httpcall.Env{Response: *r})
	if err == nil && holds {
		return nil
	}
	text := fmt.Sprintf("the answer (status %d) does not pass response_check", r.StatusCode)
	if err != nil {
		text += ": " + err.Error()
	}
	e := fault.New(fault.CodeResponseInvalid, text)
	e.Stack = dag.CutText(r.Text, 4<<10)
	return e
}

// outcome is what later tasks see of the answer.
func outcome(t *operator.Task, filter *expression.Expression, r *httpcall.Response) dag.Outcome {
	if filter != nil {
		v, err := filter.Value(httpcall.Env{Response: *r})
		if err != nil {
			return dag.Failed(fault.New(fault.CodeResponseInvalid, "response_filter: "+err.Error()))
		}
		return dag.Success(v)
	}
	text, cut := r.Text, r.Truncated
	if !fits(text) {
		text, cut = strings.ToValidUTF8(text[:min(len(text), cutText)], ""), true
	}
	out := dag.Success(text)
	if t.Def.DoXComPush {
		out.XComs = map[string]any{"status_code": r.StatusCode}
		if r.JSON != nil && fits(r.JSON) {
			out.XComs["json"] = r.JSON
		}
		if cut {
			out.XComs["truncated"] = true
		}
	}
	if cut {
		fmt.Fprintf(t.Log, "airlock: the answer is too long to keep; the first %d bytes are\n", len(text))
	}
	return out
}

func fits(v any) bool {
	raw, err := json.Marshal(v)
	return err == nil && len(raw) <= maxValue
}
