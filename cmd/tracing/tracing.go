package tracing

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/airlock-dag/airlock/dag"
)

// sendTimeout bounds one request to the collector; what it does not take in
// time is dropped, as traces are a view and no record.
const sendTimeout = 10 * time.Second

// Options of New.
type Options struct {
	// Endpoint is the collector's OTLP address over HTTP, such as
	// http://localhost:4318; /v1/traces is added where no path is given.
	Endpoint string
	// Version of the program and Host that it runs on, for the resource.
	Version, Host string
	Log           *slog.Logger
}

// Tracer sends spans. A nil Tracer does nothing.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// New makes a tracer; without an endpoint it is nil, and costs nothing. The
// error says what is wrong with the address. Headers, for a collector that asks
// for a token, come from OTEL_EXPORTER_OTLP_HEADERS.
func New(ctx context.Context, o Options) (*Tracer, error) {
	if o.Endpoint == "" {
		return nil, nil
	}
	address, err := url.Parse(o.Endpoint)
	if err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https" {
		return nil, &dag.Error{
			Code: dag.ErrInvalid, Op: "read traces.otlp_endpoint", Err: errors.New("it is no address of a collector"),
			Hint: "write http://HOST:4318",
		}
	}
	if address.User != nil { // the exporter would leave it out, and the log would show it
		return nil, &dag.Error{
			Code: dag.ErrInvalid, Op: "read traces.otlp_endpoint", Err: errors.New("the address has a user in it"),
			Hint: `put what the collector asks for into OTEL_EXPORTER_OTLP_HEADERS, as in "authorization=Basic ..."`,
		}
	}
	if address.Path == "" || address.Path == "/" {
		address.Path = "/v1/traces"
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(address.String()), otlptracehttp.WithTimeout(sendTimeout))
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	return newTracer(exporter, o), nil
}

func newTracer(exporter sdk.SpanExporter, o Options) *Tracer {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	provider := sdk.NewTracerProvider(
		sdk.WithBatcher(&telling{SpanExporter: exporter, log: o.Log, endpoint: o.Endpoint}, sdk.WithExportTimeout(sendTimeout)),
		sdk.WithIDGenerator(named{}),
		sdk.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "airlock"), attribute.String("service.version", o.Version), attribute.String("host.name", o.Host))),
	)
	return &Tracer{provider: provider, tracer: provider.Tracer("github.com/airlock-dag/airlock")}
}

// telling says once that the collector is away, and once that it is back: the
// SDK would write a line to stderr for each batch.
type telling struct {
	sdk.SpanExporter
	log      *slog.Logger
	endpoint string
	away     bool
}

// ExportSpans implements sdk.SpanExporter. The SDK calls it from one goroutine
// at a time.
func (t *telling) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := t.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err != nil && !t.away:
		t.log.Warn("the traces' collector takes nothing; what it misses is dropped", "endpoint", t.endpoint, "error", err)
	case err == nil && t.away:
		t.log.Info("the traces' collector is back", "endpoint", t.endpoint)
	}
	t.away = err != nil
	return nil
}

// Close sends what waits, for as long as ctx lasts.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// TaskEnded makes the span of an attempt.
func (t *Tracer) TaskEnded(c dag.Claim, r dag.Result) {
	if t == nil {
		return
	}
	a := &r.Attempt
	start, end := a.StartDate, a.EndDate
	if start.IsZero() { // an expansion that failed has made no attempt of its own
		start = end
	}
	traceID, runSpan := runIDs(c.DagID, c.RunID, c.Run.ClearNumber)
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: traceID, SpanID: runSpan, TraceFlags: trace.FlagsSampled, Remote: true,
	}))
	ctx = context.WithValue(ctx, idKey{}, ids{traceID, spanID("attempt", strconv.FormatInt(c.ID, 10), strconv.FormatInt(c.Fence, 10))})
	_, span := t.tracer.Start(ctx, c.TaskID, trace.WithTimestamp(start), trace.WithAttributes(
		attribute.String("airlock.dag_id", c.DagID), attribute.String("airlock.run_id", c.RunID), attribute.String("airlock.task_id", c.TaskID),
		attribute.Int("airlock.map_index", c.MapIndex), attribute.Int("airlock.try_number", max(a.TryNumber, c.TryNumber)), attribute.Int64("airlock.fence", c.Fence),
		attribute.String("airlock.state", string(r.State)), attribute.String("airlock.operator", c.Operator), attribute.String("airlock.queue", c.Queue),
		attribute.String("airlock.hostname", a.Hostname)))
	if a.ErrorClass != "" {
		span.SetAttributes(attribute.String("airlock.error_class", string(a.ErrorClass)), attribute.String("airlock.error_code", a.ErrorCode))
		if r.State == dag.StateFailed || r.State == dag.StateUpForRetry {
			span.SetStatus(codes.Error, a.ErrorCode)
		}
	}
	span.End(trace.WithTimestamp(end))
}

// RunEnded makes the span of a run, which those of its attempts lie below.
func (t *Tracer) RunEnded(r dag.ScheduledRun, at time.Time) {
	if t == nil || !r.Decision.State.Finished() {
		return
	}
	start := at
	if r.Run.StartDate != nil {
		start = *r.Run.StartDate
	}
	traceID, runSpan := runIDs(r.Run.DagID, r.Run.RunID, r.Run.ClearNumber)
	ctx := context.WithValue(context.Background(), idKey{}, ids{traceID, runSpan})
	_, span := t.tracer.Start(ctx, r.Run.DagID, trace.WithNewRoot(), trace.WithTimestamp(start), trace.WithAttributes(
		attribute.String("airlock.dag_id", r.Run.DagID), attribute.String("airlock.run_id", r.Run.RunID),
		attribute.String("airlock.run_type", string(r.Run.Type)), attribute.String("airlock.state", string(r.Decision.State)),
		attribute.String("airlock.reason", r.Decision.Reason)))
	if r.Decision.State == dag.RunFailed {
		span.SetStatus(codes.Error, r.Decision.Reason)
	}
	span.End(trace.WithTimestamp(at))
}

// runIDs are the ids of a run's trace and of its span. A run that was cleared
// gives another trace.
func runIDs(dagID, runID string, clear int) (trace.TraceID, trace.SpanID) {
	sum := hash("run", dagID, runID, strconv.Itoa(clear))
	return trace.TraceID(sum[:16]), trace.SpanID(sum[16:24])
}

func spanID(parts ...string) trace.SpanID {
	sum := hash(parts...)
	return trace.SpanID(sum[:8])
}

func hash(parts ...string) [sha256.Size]byte {
	var text []byte
	for _, p := range parts {
		text = append(strconv.AppendInt(text, int64(len(p)), 10), ':')
		text = append(text, p...)
	}
	return sha256.Sum256(text)
}

type idKey struct{}

type ids struct {
	trace trace.TraceID
	span  trace.SpanID
}

// named gives a span the ids that its context asks for.
type named struct{}

// NewIDs implements sdk.IDGenerator.
func (named) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	id, _ := ctx.Value(idKey{}).(ids)
	return id.trace, id.span
}

// NewSpanID implements sdk.IDGenerator.
func (n named) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	_, span := n.NewIDs(ctx)
	return span
}
