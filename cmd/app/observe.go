package app

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/airlock-dag/airlock/cmd/httpapi"
	"github.com/airlock-dag/airlock/cmd/metrics"
	"github.com/airlock-dag/airlock/dag"
)

// DefaultMetricsAddress is where standalone serves metrics unless the settings
// say otherwise: the port that Airflow's users know from its StatsD exporter.
const DefaultMetricsAddress = "127.0.0.1:9102"

// metricsOff is the address that serves nothing.
const metricsOff = "off"

// beatLimit is how old a scheduler's last pass may be while it is healthy.
const beatLimit = 30 * time.Second

// observed is what one process tells of itself.
type observed struct {
	registry *prometheus.Registry
	metrics  *metrics.Metrics
	beat     atomic.Pointer[time.Time] // the scheduler's last pass
}

// newObserved makes the counters, all on a registry of their own: two
// applications in one process do not meet.
func newObserved() *observed {
	o := &observed{registry: prometheus.NewRegistry()}
	o.metrics = metrics.New(o.registry)
	o.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return o
}

// pass counts a pass of the scheduler.
func (a *App) pass(took time.Duration, report dag.ScheduleReport) {
	now := a.o.Clock.Now()
	a.observed.beat.Store(&now)
	a.followed(took, report)
}

// followed counts a look at runs, of the scheduler or beside results, and traces
// those that ended in it.
func (a *App) followed(took time.Duration, report dag.ScheduleReport) {
	a.observed.metrics.Pass(took, report)
	for _, r := range report.Runs {
		a.tracer.RunEnded(r, report.Now)
	}
}

// taskEnded counts an attempt and traces it.
func (a *App) taskEnded(c dag.Claim, r dag.Result) {
	a.observed.metrics.TaskEnded(c, r)
	a.tracer.TaskEnded(c, r)
}

// Gatherer gives the metrics of this process.
func (a *App) Gatherer() prometheus.Gatherer { return a.observed.registry }

// serveMetrics serves /metrics and /health until ctx ends, when the settings
// ask for it or standalone does. It returns when the address is taken, so that
// a mistake is told at the start; done is closed when it serves no more.
func (a *App) serveMetrics(ctx context.Context, standalone, schedule bool) (done chan struct{}, err error) {
	done = make(chan struct{})
	address := strings.TrimSpace(a.o.Config.Metrics.Address)
	byDefault := address == "" && standalone && a.o.ServeMetrics
	if byDefault {
		address = DefaultMetricsAddress
	}
	if address == "" || address == metricsOff {
		close(done)
		return done, nil
	}
	var l net.Listener
	if l, err = httpapi.Listen(ctx, address); err != nil {
		close(done)
		if byDefault {
			a.o.Log.Warn("metrics are not served: the usual port is taken", "address", address, "hint", "set metrics.address, or off")
			return done, nil
		}
		return done, err
	}
	a.o.Log.Info("serving /metrics and /health", "address", l.Addr().String())
	began := a.o.Clock.Now()
	h := httpapi.Handler(httpapi.Options{
		Gatherer: a.observed.registry, Log: a.o.Log,
		Health: func(ctx context.Context) httpapi.Health { return a.health(ctx, schedule, began) },
	})
	go func() {
		defer close(done)
		httpapi.Serve(ctx, l, h, a.o.Log)
	}()
	return done, nil
}

// health asks the parts of this process. A scheduler that has only begun has
// not failed yet.
func (a *App) health(ctx context.Context, schedule bool, began time.Time) httpapi.Health {
	h := httpapi.Health{Metadatabase: httpapi.NewPart(a.store.Ping(ctx) == nil)}
	if !schedule {
		return h
	}
	last := a.observed.beat.Load()
	since := began
	if last != nil {
		since = *last
	}
	part := httpapi.NewPart(a.o.Clock.Now().Sub(since) < beatLimit)
	part.Latest = last
	h.Scheduler = &part
	return h
}
