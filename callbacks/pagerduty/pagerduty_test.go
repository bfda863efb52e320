package pagerduty_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/callbacks"
	"github.com/airlock-dag/airlock/callbacks/notifytest"
	"github.com/airlock-dag/airlock/callbacks/pagerduty"
	"github.com/airlock-dag/airlock/dag"
)

func TestServersThatMisbehave(t *testing.T) {
	t.Parallel()
	n := pagerduty.New()
	notifytest.Misbehaviours(t, func(t *testing.T, address, timeout string) error {
		return n.Notify(t.Context(), notifytest.Delivery(t, notifytest.Failed(), callbacks.Args{"timeout": timeout},
			dag.Connection{Host: address, Password: notifytest.Secret}))
	})
}

// pager keeps incidents as PagerDuty does: by key, open until resolved.
type pager struct {
	*httptest.Server
	mu     sync.Mutex
	events []map[string]any
	open   map[string]int // events of each open incident
	ever   map[string]bool
	size   int
}

func newPager(t *testing.T) *pager {
	t.Helper()
	p := &pager{open: map[string]int{}, ever: map[string]bool{}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		var e map[string]any
		if r.URL.Path != "/v2/enqueue" || json.NewDecoder(r.Body).Decode(&e) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		p.size = int(r.ContentLength)
		p.events = append(p.events, e)
		key := e["dedup_key"].(string)
		switch e["event_action"] {
		case "trigger":
			p.open[key]++
			p.ever[key] = true
		case "resolve":
			delete(p.open, key)
		}
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write([]byte(`{"status": "success"}`))
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *pager) notify(t *testing.T, c dag.EventContext, args callbacks.Args) error {
	t.Helper()
	return pagerduty.New().Notify(t.Context(), notifytest.Delivery(t, c, args, dag.Connection{Host: p.URL, Password: "R0UTING"}))
}

func TestLettersOfOneCauseAreOneIncident(t *testing.T) {
	t.Parallel()
	p := newPager(t)
	n := pagerduty.New()
	for i := range 3000 {
		c := notifytest.Failed()
		c.MapIndex = i
		require.NoError(t, n.Notify(t.Context(), notifytest.Delivery(t, c, nil, dag.Connection{Host: p.URL, Password: "R0UTING"})))
	}
	require.Equal(t, map[string]int{"f1ngerpr1nt": 3000}, p.open)
	e := p.events[0]
	require.Equal(t, "R0UTING", e["routing_key"])
	load := e["payload"].(map[string]any)
	require.Equal(t, "media.transcode[0] in r1: failed: EXIT_CODE: it's <broken> & over", load["summary"])
	require.Equal(t, []any{"media", "error", "transcode", "media", "EXIT_CODE", "2026-03-01T12:00:00Z"},
		[]any{load["source"], load["severity"], load["component"], load["group"], load["class"], load["timestamp"]})
	require.Equal(t, "key1", load["custom_details"].(map[string]any)["dedup_key"])
}

func TestACircuitTriggersAndResolves(t *testing.T) {
	t.Parallel()
	p := newPager(t)
	require.NoError(t, p.notify(t, notifytest.Circuit(dag.EventCircuitOpen), nil))
	require.Equal(t, map[string]int{"airlock/circuit/packager": 1}, p.open)
	require.Equal(t, "critical", p.events[0]["payload"].(map[string]any)["severity"])
	require.NoError(t, p.notify(t, notifytest.Circuit(dag.EventCircuitClose), nil))
	require.Empty(t, p.open)
	require.NotContains(t, p.events[1], "payload")
}

func TestASuccessSaysWhichIncidentIsOver(t *testing.T) {
	t.Parallel()
	p := newPager(t)
	good := notifytest.Failed()
	good.Event, good.AlertKey, good.State, good.Exception = dag.EventSuccess, "", "success", ""
	err := p.notify(t, good, nil)
	require.True(t, notifytest.AsFailure(t, err).Permanent)
	require.ErrorContains(t, err, "dedup_key is missing")

	require.NoError(t, p.notify(t, notifytest.Failed(), callbacks.Args{"dedup_key": "media/transcode"}))
	require.Len(t, p.open, 1)
	require.NoError(t, p.notify(t, good, callbacks.Args{"dedup_key": "media/transcode"}))
	require.Empty(t, p.open)
}

func TestLimitsOfTheAPI(t *testing.T) {
	t.Parallel()
	p := newPager(t)
	c := notifytest.Failed()
	c.ErrorMessage, c.Exception = strings.Repeat("x", 600_000), strings.Repeat("y", 5000)
	require.NoError(t, p.notify(t, c, callbacks.Args{"dedup_key": strings.Repeat("k", 300)}))
	load := p.events[0]["payload"].(map[string]any)
	require.Less(t, p.size, 512_000, "the details are left out")
	require.LessOrEqual(t, len(load["summary"].(string)), 1024)
	require.Len(t, p.events[0]["dedup_key"], len("sha256:")+64)
	for _, args := range []callbacks.Args{{"action": "page"}, {"severity": "high"}, {"key": "x"}, {"summary": 7}} {
		require.True(t, notifytest.AsFailure(t, p.notify(t, notifytest.Failed(), args)).Permanent, "%v", args)
	}
}
