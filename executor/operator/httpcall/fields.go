package httpcall

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/operator/expression"
)

// DefaultLimit is how long a request may take when nobody says otherwise.
const DefaultLimit = 60 * time.Second

// Fields are the keys of every step that makes a request; method is what the
// step uses when none is given.
func Fields(method string) []dag.Field {
	return []dag.Field{
		{Name: "conn_id", Type: dag.FieldString, Templated: true, Mappable: true, Doc: "Connection with the base address and the login; http_default when the endpoint is no whole address."},
		{Name: "http_conn_id", Type: dag.FieldString, Templated: true, Mappable: true, Doc: "Airflow's name of conn_id."},
		{Name: "endpoint", Type: dag.FieldString, Templated: true, Mappable: true, Doc: "Path below the connection's address, or a whole address."},
		{Name: "method", Type: dag.FieldString, Templated: true, Mappable: true, Default: method, Doc: "The HTTP method."},
		{Name: "headers", Type: dag.FieldMap, Templated: true, Mappable: true, Doc: "Headers besides those of the connection."},
		{Name: "data", Type: dag.FieldAny, Templated: true, Mappable: true,
			Doc: "The query of a GET or HEAD, the body of others: text as it is, a mapping as a form (as JSON where the content type says so)."},
		{Name: "json", Type: dag.FieldAny, Templated: true, Mappable: true, Doc: "A body that is sent as JSON."},
		{Name: "extra_options", Type: dag.FieldMap, Templated: true, Mappable: true,
			Doc: "timeout, verify, allow_redirects and check_response, as in Airflow."},
		{Name: "response_check", Type: dag.FieldString, Mappable: true, Doc: "Condition on the answer, such as `response.json.ready == true`."},
	}
}

// Ignored are keys of Airflow's operators that change nothing here.
func Ignored() []string {
	return []string{"tcp_keep_alive", "tcp_keep_alive_idle", "tcp_keep_alive_count", "tcp_keep_alive_interval"}
}

// Env is what an expression on an answer sees.
type Env struct {
	Response Response `expr:"response"`
}

// Validate finds what the fields cannot say.
func Validate(args map[string]any) []dag.Problem {
	var out []dag.Problem
	bad := func(path, hint, format string, v ...any) {
		out = append(out, dag.Problem{Path: path, Severity: dag.SeverityError, Code: "bad-value", Message: fmt.Sprintf(format, v...), Hint: hint})
	}
	if m, ok := args["method"].(string); ok && !template(m) {
		if _, err := http.NewRequestWithContext(context.Background(), strings.TrimSpace(m), "http://x", nil); err != nil || strings.TrimSpace(m) == "" {
			bad("method", "", "%q is no HTTP method", m)
		}
	}
	if args["conn_id"] != nil && args["http_conn_id"] != nil {
		bad("http_conn_id", "", "only one of conn_id and http_conn_id can be given")
	}
	if args["data"] != nil && args["json"] != nil {
		bad("json", "", "only one of data and json can be given")
	}
	for _, key := range []string{"response_check", "response_filter"} {
		if text, ok := args[key].(string); ok {
			if _, err := expression.Compile(text, Env{}); err != nil {
				bad(key, "write a condition such as response.status_code == 200 or response.json.state == 'ready'", "%v", err)
			}
		}
	}
	return out
}

func template(s string) bool { return strings.Contains(s, "{{") || strings.Contains(s, "{%") }
