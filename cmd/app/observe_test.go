package app_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/app"
	"github.com/airlock-dag/airlock/cmd/config"
	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
)

const oneFailing = `
watched:
  schedule: none
  tasks:
    t: {operator: gauge, queue: io}
`

// freeAddress is an address that nobody listened on a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	port, err := dagtest.FreePort()
	require.NoError(t, err)
	return fmt.Sprintf("127.0.0.1:%d", port)
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

func TestStandaloneServesMetricsAndHealth(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	e := newEngine(t, 4, nil, oneFailing, func(c *config.Config) { c.Metrics.Address = address })
	require.Eventually(t, func() bool {
		code, body := get(t, "http://"+address+"/health")
		return code == http.StatusOK && strings.Contains(body, `"metadatabase":{"status":"healthy"}`) && strings.Contains(body, "latest_scheduler_heartbeat")
	}, patience, 20*time.Millisecond)

	e.trigger("watched", "r", time.Date(2026, 6, 10, 0, 0, 0, 0, time.UTC))
	require.Equal(t, dag.RunSuccess, e.ends("watched", "r"))
	require.Eventually(t, func() bool {
		code, body := get(t, "http://"+address+"/metrics")
		return code == http.StatusOK && strings.Contains(body, "\nairflow_ti_successes 1\n") &&
			strings.Contains(body, "\ndlq_depth{queue=\"default\"} 0\n") && strings.Contains(body, "\nairlock_database_up 1\n") &&
			strings.Contains(body, "airflow_dagrun_duration_success_count 1\n") && strings.Contains(body, "go_goroutines")
	}, patience, 100*time.Millisecond)
	code, _ := get(t, "http://"+address+"/")
	require.Equal(t, http.StatusNotFound, code)
	require.NotContains(t, func() string { _, b := get(t, "http://"+address+"/metrics"); return b }(), "watched", "no ids in labels")
}

func TestATakenMetricsAddressIsAnError(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	cfg := config.Default(t.TempDir())
	cfg.Metrics.Address = l.Addr().String()
	a, err := app.New(t.Context(), app.Options{Config: cfg})
	require.NoError(t, err)
	defer a.Close()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	err = a.RunWorker(ctx, nil, 1)
	require.Equal(t, dag.ErrInvalid, dag.CodeOf(err))
	require.ErrorContains(t, err, "--metrics-address")
}

func TestWorkersServeNothingUnlessTold(t *testing.T) {
	t.Parallel()
	cfg := config.Default(t.TempDir())
	log := &syncBuffer{}
	a, err := app.New(t.Context(), app.Options{Config: cfg, Log: slog.New(slog.NewTextHandler(log, nil)), ServeMetrics: true})
	require.NoError(t, err)
	defer a.Close()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.RunWorker(ctx, nil, 1) }()
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "airlock is up") }, patience, 10*time.Millisecond)
	stop()
	require.NoError(t, <-done)
	require.NotContains(t, log.String(), "/metrics")
	require.Contains(t, log.String(), "worker=true queues=all concurrency=1")
}
