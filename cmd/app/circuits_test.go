package app_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/config"
	"github.com/airlock-dag/airlock/dag"
)

// packager is a service that fails until it is healed, and counts its calls.
type packager struct {
	*httptest.Server
	healed atomic.Bool
	calls  atomic.Int64
	header atomic.Bool // a header named Circuit came
}

func newPackager(t *testing.T) *packager {
	t.Helper()
	p := &packager{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.calls.Add(1)
		if r.Header.Get("Circuit") != "" {
			p.header.Store(true)
		}
		if !p.healed.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(p.Close)
	return p
}

const packaged = `
default:
  circuits:
    packager: {failure_rate: 0.5, minimum_calls: 4, window: 5m, open_for: 1s, probes: 1}
packaged:
  schedule: none
  max_active_tasks: 64
  tasks:
    put:
      operator: http
      GUARD
      endpoint: "URL/put/{{ ti.map_index }}"
      retries: 30
      retry_delay: 1
      expand: {data: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]}
    other: {operator: gauge}
`

// triesOf is the sum of the tries that a run's tasks spent.
func (e *engine) triesOf(runID string) (sum int64) {
	for _, ti := range e.instances("packaged", runID, "put") {
		sum += int64(ti.TryNumber)
	}
	return sum
}

func (e *engine) circuit(name string) dag.Circuit {
	e.t.Helper()
	list, err := e.Store().Circuits(e.t.Context(), true)
	require.NoError(e.t, err)
	for _, c := range list {
		if c.Name == name {
			return c
		}
	}
	return dag.Circuit{}
}

func TestTasksWaitForAnOpenCircuitAndSpendNothing(t *testing.T) {
	t.Parallel()
	for name, guard := range map[string]string{"of the step": "circuit: packager", "of the connection": "conn_id: packager"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPackager(t)
			text := strings.NewReplacer("GUARD", guard, "URL", p.URL).Replace(packaged)
			e := newEngine(t, 2, nil, text, func(c *config.Config) { c.FernetKey = "cw_0x689RpI-jtRR7oE8h_eQsKImvJapLeSbXpwF4e4=" })
			require.NoError(t, e.Store().SetConnection(t.Context(), dag.Connection{
				ID: "packager", Type: "http", Host: p.URL, Extra: map[string]any{"circuit": "packager"},
			}))
			e.trigger("packaged", "r", time.Time{})
			require.Eventually(t, func() bool { return e.circuit("packager").State == dag.CircuitOpen }, patience, 10*time.Millisecond)
			require.Eventually(t, func() bool {
				for _, ti := range e.instances("packaged", "r", "other") {
					if ti.State == dag.StateSuccess {
						return true
					}
				}
				return false
			}, patience, 20*time.Millisecond, "what does not need the packager goes on")
			p.healed.Store(true)
			require.Equal(t, dag.RunSuccess, e.ends("packaged", "r"))

			require.Equal(t, p.calls.Load(), e.triesOf("r"), "a try is a call: who waited for the circuit spent none")
			require.False(t, p.header.Load(), "the circuit's name is not sent")
			require.Eventually(t, func() bool { return e.circuit("packager").State == dag.CircuitClosed }, patience, 10*time.Millisecond)
			require.Equal(t, 1, e.circuit("packager").Openings)
			require.Eventually(t, func() bool { return strings.Count(e.log.String(), `msg="circuit packager is closed again"`) == 1 }, patience, 20*time.Millisecond)
			require.Equal(t, 1, strings.Count(e.log.String(), `msg="circuit packager is open"`), "one alert for one opening")
			require.Contains(t, e.log.String(), "alert_key=airlock/circuit/packager")
			e.sound()
		})
	}
}
