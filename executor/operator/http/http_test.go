package httpop_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	httpop "github.com/airlock-dag/airlock/executor/operator/http"
	"github.com/airlock-dag/airlock/executor/operator/httpcall"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
)

// episodes is the answer of /episodes.
const episodes = `{"id": 17, "state": "ready", "tags": ["a", "b"]}`

// serve answers every path with its own text.
func serve(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/key":
			_, _ = io.WriteString(w, r.Header.Get("Idempotency-Key"))
		case "/episodes":
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, episodes)
		case "/busy":
			w.Header().Set("Retry-After", "30")
			w.WriteHeader(http.StatusTooManyRequests)
		case "/angles":
			_, _ = io.WriteString(w, strings.Repeat("<", 1<<20)) // six bytes each as JSON
		case "/controls":
			_, _ = io.WriteString(w, strings.Repeat("\x01", 4<<20))
		case "/slow":
			<-r.Context().Done()
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func run(t *testing.T, s *httptest.Server, args map[string]any) (*operatortest.Fixture, dag.Outcome) {
	t.Helper()
	args["endpoint"] = s.URL + args["endpoint"].(string)
	f := operatortest.New(t, args)
	return f, httpop.New(httpcall.New()).Run(t.Context(), f.Task)
}

func TestAnswersAreKept(t *testing.T) {
	t.Parallel()
	s := serve(t)
	_, out := run(t, s, map[string]any{"endpoint": "/episodes", "response_check": "response.status_code == 201 and response.json.state == 'ready'"})
	require.Equal(t, dag.OutcomeSuccess, out.Kind, "%v", out.Err)
	require.Equal(t, episodes, out.ReturnValue)
	require.Equal(t, map[string]any{
		"status_code": 201, "json": map[string]any{"id": int64(17), "state": "ready", "tags": []any{"a", "b"}},
	}, out.XComs)

	for filter, want := range map[string]any{
		"response.json.id": int64(17), "response.json.tags": []any{"a", "b"}, "response.headers['content-length']": strconv.Itoa(len(episodes)), "response.json.none": nil,
		"len(response.json.tags) > 1": true,
	} {
		_, out = run(t, s, map[string]any{"endpoint": "/episodes", "response_filter": filter})
		require.Equal(t, dag.OutcomeSuccess, out.Kind, "%v", out.Err)
		require.Equal(t, want, out.ReturnValue, filter)
	}
}

func TestTheKeyGoesAlong(t *testing.T) {
	t.Parallel()
	f, out := run(t, serve(t), map[string]any{"endpoint": "/key"})
	require.Equal(t, f.IdempotencyKey, out.ReturnValue)
	require.Equal(t, "demo/scheduled__2026-03-01T02:00:00+00:00/work", out.ReturnValue)
}

func TestWhatFails(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for name, c := range map[string]struct {
		args  map[string]any
		code  string
		class dag.ErrorClass
	}{
		"a check that does not hold":  {map[string]any{"endpoint": "/episodes", "response_check": "response.status_code == 200"}, "RESPONSE_INVALID", dag.ClassPermanent},
		"a check that does not fit":   {map[string]any{"endpoint": "/key", "response_check": "response.json.a.b == 1"}, "RESPONSE_INVALID", dag.ClassPermanent},
		"a filter that does not fit":  {map[string]any{"endpoint": "/key", "response_filter": "response.json[0]"}, "RESPONSE_INVALID", dag.ClassPermanent},
		"a check that is none":        {map[string]any{"endpoint": "/key", "response_check": "jobs.check"}, "INVALID_ARGUMENT", dag.ClassConfiguration},
		"a limit that passes":         {map[string]any{"endpoint": "/slow", "timeout": 0.2}, "NETWORK_TIMEOUT", dag.ClassTransient},
		"a connection that is not":    {map[string]any{"endpoint": "/key", "conn_id": "nope"}, "CONNECTION_MISSING", dag.ClassConfiguration},
		"a server that wants us gone": {map[string]any{"endpoint": "/busy"}, "HTTP_429", dag.ClassTransient},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, out := run(t, s, c.args)
			require.Equal(t, dag.OutcomeFailed, out.Kind)
			require.Equal(t, c.code, out.Err.Code, out.Err.Message)
			require.Equal(t, c.class, out.Err.Class)
			if c.code == "HTTP_429" {
				require.Equal(t, dag.BudgetThrottling, out.Err.Budget)
				require.Equal(t, 30*time.Second, out.Err.RetryAfter)
				require.Equal(t, f.IdempotencyKey, out.Err.IdempotencyKey)
			}
		})
	}
}

// TestLongAnswersFit: whatever is in an answer, what is kept of it fits where
// XComs are kept.
func TestLongAnswersFit(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for path, kept := range map[string]int{"/angles": 512 << 10, "/controls": 512 << 10} {
		f, out := run(t, s, map[string]any{"endpoint": path})
		require.Equal(t, dag.OutcomeSuccess, out.Kind)
		require.Len(t, out.ReturnValue, kept)
		require.Equal(t, true, out.XComs["truncated"])
		raw, err := json.Marshal(out.ReturnValue)
		require.NoError(t, err)
		require.LessOrEqual(t, len(raw), 4<<20)
		require.Contains(t, f.Output.String(), "too long to keep")
	}
}

func TestTheLog(t *testing.T) {
	t.Parallel()
	s := serve(t)
	f, _ := run(t, s, map[string]any{"endpoint": "/episodes?token=hidden"})
	require.Contains(t, f.Output.String(), fmt.Sprintf("POST %s/episodes: 201 Created, %d bytes in", s.URL, len(episodes)))
	require.NotContains(t, f.Output.String(), "hidden")
	require.NotContains(t, f.Output.String(), "ready")
	f, _ = run(t, s, map[string]any{"endpoint": "/episodes", "log_response": true})
	require.Contains(t, f.Output.String(), `"state": "ready"`)
}

func TestValidate(t *testing.T) {
	t.Parallel()
	validate := httpop.New(httpcall.New()).Spec().Validate
	require.Empty(t, validate(map[string]any{"method": "{{ params.m }}", "timeout": 5.0, "response_check": "response.ok"}))
	for _, args := range []map[string]any{
		{"method": "GE T"}, {"conn_id": "a", "http_conn_id": "b"}, {"data": "a", "json": "b"}, {"response_check": "response.status == 200"},
		{"response_filter": "lambda r: r.text"}, {"timeout": 0.0}, {"timeout": 1e9},
	} {
		require.Len(t, validate(args), 1, "%v", args)
	}
}
