package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/airlock-dag/airlock/dag"
)

// Limits of a request. A scrape reads the database for up to five seconds.
const (
	readLimit  = 5 * time.Second
	writeLimit = 20 * time.Second
	stopLimit  = 2 * time.Second
	// healthLimit is how long the state database may take to answer.
	healthLimit = 3 * time.Second
)

// Health is the body of /health, in the form of Airflow's. A part that this
// process does not run is missing.
type Health struct {
	Metadatabase Part  `json:"metadatabase"`
	Scheduler    *Part `json:"scheduler,omitempty"`
}

// Part is one part of a process.
type Part struct {
	Status string `json:"status"` // healthy or unhealthy
	// Latest is the scheduler's last pass.
	Latest *time.Time `json:"latest_scheduler_heartbeat,omitempty"`
}

// Statuses of a part.
const (
	healthy   = "healthy"
	unhealthy = "unhealthy"
)

// NewPart is a part that is well or not.
func NewPart(well bool) Part {
	if well {
		return Part{Status: healthy}
	}
	return Part{Status: unhealthy}
}

// well tells whether all parts are.
func (h Health) well() bool {
	return h.Metadatabase.Status == healthy && (h.Scheduler == nil || h.Scheduler.Status == healthy)
}

// Options of New.
type Options struct {
	Gatherer prometheus.Gatherer
	// Health is asked by each request for /health.
	Health func(ctx context.Context) Health
	Log    *slog.Logger
}

// Handler answers /metrics and /health. /health is 200 when all parts are
// healthy, else 503, with the parts in the body both times.
func Handler(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{
		ErrorLog: errorLog{o.Log}, ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4, Timeout: writeLimit - time.Second,
	}))
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), healthLimit)
		defer cancel()
		h := o.Health(ctx)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if !h.well() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		if err := json.NewEncoder(w).Encode(h); err != nil {
			o.Log.DebugContext(r.Context(), "a health answer was not taken", "error", err)
		}
	})
	return mux
}

// errorLog is where a scrape's errors go.
type errorLog struct{ log *slog.Logger }

// Println implements promhttp.Logger.
func (e errorLog) Println(v ...any) { e.log.Warn("metrics", "error", fmt.Sprint(v...)) }

// Listen takes an address; a taken or wrong one is a dag.Error that says what
// to do.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, &dag.Error{
			Code: dag.ErrInvalid, Op: "serve metrics on " + address, Err: err,
			Hint: "give a free address as metrics.address or --metrics-address, such as 127.0.0.1:9102, or off",
		}
	}
	return l, nil
}

// Serve answers on a listener until ctx ends.
func Serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) {
	server := &http.Server{
		Handler: h, ReadTimeout: readLimit, ReadHeaderTimeout: readLimit, WriteTimeout: writeLimit, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		if server.Shutdown(limited) != nil {
			_ = server.Close()
		}
	}()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		log.Error("metrics are not served any more", "address", l.Addr().String(), "error", err)
		return
	}
	<-stopped
}
