package tracing

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/airlock-dag/airlock/dag"
)

var began = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func ended(try int, state dag.State) (dag.Claim, dag.Result) {
	c := dag.Claim{
		TaskInstance: dag.TaskInstance{
			TaskInstanceKey: dag.TaskInstanceKey{DagID: "d", RunID: "r", TaskID: "load", MapIndex: -1},
			ID:              7, Fence: int64(try), TryNumber: try, Operator: "bash", Queue: "default",
		},
		Run: dag.Run{DagID: "d", RunID: "r", ClearNumber: 1},
	}
	r := dag.Result{State: state, Attempt: dag.Attempt{
		TryNumber: try, StartDate: began.Add(time.Duration(try) * time.Minute), EndDate: began.Add(time.Duration(try)*time.Minute + time.Second),
	}}
	if state != dag.StateSuccess {
		r.Attempt.ErrorClass, r.Attempt.ErrorCode = dag.ClassTransient, "EXIT_CODE"
	}
	return c, r
}

func runEnd() dag.ScheduledRun {
	return dag.ScheduledRun{
		Run: dag.Run{DagID: "d", RunID: "r", ClearNumber: 1, StartDate: &began}, Decision: dag.Decision{State: dag.RunSuccess, Reason: "success"},
	}
}

// TestAttemptsLieBelowTheirRun checks ids, times and states: the run's span is
// made by another process than those of its attempts.
func TestAttemptsLieBelowTheirRun(t *testing.T) {
	t.Parallel()
	kept := tracetest.NewInMemoryExporter()
	worker, scheduler := newTracer(kept, Options{}), newTracer(kept, Options{})
	worker.TaskEnded(ended(1, dag.StateUpForRetry))
	worker.TaskEnded(ended(2, dag.StateSuccess))
	scheduler.RunEnded(runEnd(), began.Add(3*time.Minute))
	scheduler.RunEnded(dag.ScheduledRun{Decision: dag.Decision{State: dag.RunRunning}}, began) // still running: no span
	require.NoError(t, worker.provider.ForceFlush(t.Context()))
	require.NoError(t, scheduler.provider.ForceFlush(t.Context()))
	spans := kept.GetSpans()
	require.Len(t, spans, 3)
	first, second, run := spans[0], spans[1], spans[2]

	require.Equal(t, "d", run.Name)
	require.False(t, run.Parent.IsValid())
	require.Equal(t, began, run.StartTime)
	require.Equal(t, began.Add(3*time.Minute), run.EndTime)
	for _, s := range []tracetest.SpanStub{first, second} {
		require.Equal(t, "load", s.Name)
		require.Equal(t, run.SpanContext.TraceID(), s.SpanContext.TraceID())
		require.Equal(t, run.SpanContext.SpanID(), s.Parent.SpanID())
		require.Equal(t, time.Second, s.EndTime.Sub(s.StartTime))
	}
	require.NotEqual(t, first.SpanContext.SpanID(), second.SpanContext.SpanID())
	require.Equal(t, codes.Error, first.Status.Code)
	require.Equal(t, codes.Unset, second.Status.Code)

	// A cleared run is another trace.
	again, _ := runIDs("d", "r", 2)
	require.NotEqual(t, run.SpanContext.TraceID(), again)
}

// TestCollectorGetsSpans sends over HTTP to a server that is away at first: that
// is said once, and so is its return.
func TestCollectorGetsSpans(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got coltrace.ExportTraceServiceRequest
	away := true
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, err := io.ReadAll(r.Body)
		if away || err != nil || r.URL.Path != "/v1/traces" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if proto.Unmarshal(body, &got) != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(srv.Close)
	var log bytes.Buffer
	tracer, err := New(t.Context(), Options{Endpoint: srv.URL, Version: "1.2.3", Host: "h1", Log: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	for range 2 {
		tracer.TaskEnded(ended(1, dag.StateSuccess))
		require.NoError(t, tracer.provider.ForceFlush(t.Context()))
	}
	require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("takes nothing")), log.String())
	mu.Lock()
	away = false
	mu.Unlock()
	tracer.TaskEnded(ended(2, dag.StateFailed))
	require.NoError(t, tracer.Close(t.Context()))
	require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("is back")))

	mu.Lock()
	defer mu.Unlock()
	require.Len(t, got.ResourceSpans, 1)
	span := got.ResourceSpans[0].ScopeSpans[0].Spans[0]
	require.Equal(t, "load", span.Name)
	values := map[string]string{}
	for _, a := range append(span.Attributes, got.ResourceSpans[0].Resource.Attributes...) {
		values[a.Key] = a.Value.GetStringValue()
	}
	require.Equal(t, "failed", values["airlock.state"])
	require.Equal(t, "EXIT_CODE", values["airlock.error_code"])
	require.Equal(t, "airlock", values["service.name"])
}

func TestNoCollectorCostsNothing(t *testing.T) {
	t.Parallel()
	tracer, err := New(t.Context(), Options{})
	require.NoError(t, err)
	require.Nil(t, tracer)
	c, r := ended(1, dag.StateSuccess)
	tracer.TaskEnded(c, r)
	tracer.RunEnded(runEnd(), began)
	require.NoError(t, tracer.Close(t.Context()))
	for _, wrong := range []string{"localhost:4318", "collector", "ftp://x", "http://"} {
		_, err := New(t.Context(), Options{Endpoint: wrong})
		require.ErrorContains(t, err, "http://HOST:4318", wrong)
	}
	for _, address := range []string{"http://me:hunter2@collector:4318", "http://me:hunter2@:%zz"} {
		_, err = New(t.Context(), Options{Endpoint: address})
		require.Error(t, err)
		require.NotContains(t, err.Error(), "hunter2")
	}
}
