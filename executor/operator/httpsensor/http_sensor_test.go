package httpsensor_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
	"github.com/airlock-dag/airlock/executor/operator/httpcall"
	"github.com/airlock-dag/airlock/executor/operator/httpsensor"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
)

// answer is one of a server that gives the list one by one, the last for ever.
type answer struct {
	status int
	body   string
}

func serve(t *testing.T, list ...answer) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		a := list[min(int(n.Add(1))-1, len(list)-1)]
		if a.status == 429 {
			w.Header().Set("Retry-After", "11")
		}
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, a.body)
	}))
	t.Cleanup(s.Close)
	return s, &n
}

// look is one look of a sensor in reschedule mode.
func look(t *testing.T, s *httptest.Server, args map[string]any) dag.Outcome {
	t.Helper()
	args["endpoint"], args["mode"] = s.URL+"/x", "reschedule"
	return httpsensor.New(httpcall.New()).Run(t.Context(), operatortest.New(t, args).Task)
}

func TestWaitsInPokeMode(t *testing.T) {
	t.Parallel()
	s, n := serve(t, answer{404, ""}, answer{200, `{"state": "new"}`}, answer{200, `{"state": "ready"}`})
	f := operatortest.New(t, map[string]any{"endpoint": s.URL, "response_check": "response.json.state == 'ready'", "poke_interval": 30.0})
	clock := dagtest.NewClock(operatortest.LogicalDate())
	f.Clock = clock
	out := make(chan dag.Outcome, 1)
	go func() { out <- httpsensor.New(httpcall.New()).Run(t.Context(), f.Task) }()
	for range 2 {
		clock.BlockUntil(1)
		clock.Advance(30 * time.Second)
	}
	require.Equal(t, dag.Success(nil), <-out)
	require.Equal(t, int64(3), n.Load())
}

func TestWhatAnAnswerMeans(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer answer
		args   map[string]any
		want   dag.OutcomeKind
		code   string
	}{
		"200":                       {answer{200, ""}, map[string]any{}, dag.OutcomeSuccess, ""},
		"404 is not yet":            {answer{404, ""}, map[string]any{}, dag.OutcomeReschedule, ""},
		"403 fails":                 {answer{403, ""}, map[string]any{}, dag.OutcomeFailed, "HTTP_403"},
		"500 fails":                 {answer{500, ""}, map[string]any{}, dag.OutcomeFailed, "HTTP_500"},
		"500 and silent_fail":       {answer{500, ""}, map[string]any{"silent_fail": true}, dag.OutcomeReschedule, ""},
		"429":                       {answer{429, ""}, map[string]any{}, dag.OutcomeFailed, "HTTP_429"},
		"a list of its own":         {answer{503, ""}, map[string]any{"response_error_codes_allowlist": []any{"404", 503.0}}, dag.OutcomeReschedule, ""},
		"an empty list":             {answer{404, ""}, map[string]any{"response_error_codes_allowlist": []any{}}, dag.OutcomeFailed, "HTTP_404"},
		"no check of the status":    {answer{500, "up"}, map[string]any{"extra_options": map[string]any{"check_response": false}, "response_check": "response.text == 'up'"}, dag.OutcomeSuccess, ""},
		"the check does not hold":   {answer{200, "down"}, map[string]any{"response_check": "response.text == 'up'"}, dag.OutcomeReschedule, ""},
		"the check does not fit":    {answer{200, "no JSON"}, map[string]any{"response_check": "response.json.a.b == 1"}, dag.OutcomeFailed, "RESPONSE_INVALID"},
		"the check is Python":       {answer{200, ""}, map[string]any{"response_check": "lambda r: True"}, dag.OutcomeFailed, "INVALID_ARGUMENT"},
		"a connection that is none": {answer{200, ""}, map[string]any{"conn_id": "nope"}, dag.OutcomeFailed, "CONNECTION_MISSING"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := serve(t, c.answer)
			out := look(t, s, c.args)
			require.Equal(t, c.want, out.Kind, "%v", out.Err)
			if c.code != "" {
				require.Equal(t, c.code, out.Err.Code)
			}
			if c.code == "HTTP_429" {
				require.Equal(t, dag.BudgetThrottling, out.Err.Budget)
				require.Equal(t, 11*time.Second, out.Err.RetryAfter)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	validate := httpsensor.New(httpcall.New()).Spec().Validate
	require.Empty(t, validate(map[string]any{"response_error_codes_allowlist": []any{"404", 503}, "request_timeout": 1.0}))
	for _, args := range []map[string]any{
		{"response_error_codes_allowlist": []any{"4xx"}}, {"request_timeout": 0.0}, {"response_check": "nope()"}, {"timeout": -1.0},
	} {
		require.Len(t, validate(args), 1, "%v", args)
	}
}
