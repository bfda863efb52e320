package callbacks_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/callbacks"
	"github.com/airlock-dag/airlock/callbacks/webhook"
	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
)

// TestServerThatComesBack: a real server that is overloaded twice gets the event
// when it asked for it, under the same key each time; a server that is gone
// meanwhile disturbs nobody.
func TestServerThatComesBack(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var keys []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, r.Header.Get(webhook.HeaderIdempotencyKey))
		if len(keys) <= 2 {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()

	clock := dagtest.NewClock(noon)
	m := newMemory(clock)
	d := callbacks.New(callbacks.Options{Outbox: m, Clock: clock, Notifiers: []callbacks.Notifier{webhook.New()}})
	hook := func(url string) dag.Callback { return dag.Callback{Name: "webhook", Args: map[string]any{"url": url}} }
	lost := m.put("t", -1, dag.EventFailure, hook(gone.URL+"/x?token=hunter2"))
	id := m.put("t", -1, dag.EventFailure, hook(server.URL+"/{{ ti.task_id }}"))

	for range 2 {
		require.NoError(t, d.Drain(t.Context()))
		require.Equal(t, dag.DeliveryPending, m.row(id).status)
		require.Equal(t, 7*time.Second, m.row(id).next.Sub(clock.Now()))
		clock.Advance(7 * time.Second)
	}
	require.NoError(t, d.Drain(t.Context()))
	require.Equal(t, dag.DeliveryDelivered, m.row(id).status)
	require.Equal(t, []string{"key2", "key2", "key2"}, keys)
	require.Equal(t, dag.DeliveryPending, m.row(lost).status)
	require.Equal(t, 3, m.row(lost).event.Attempts)
	require.NotContains(t, m.row(lost).cause, "hunter2")
}
