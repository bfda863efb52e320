package load_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

func TestEmailKeysAreReceivers(t *testing.T) {
	t.Parallel()
	d := one(t, `
d:
  default_args: {email: "a@x.org, b@x.org"}
  tasks:
    both: {operator: empty}
    failures: {operator: empty, email: [c@x.org], email_on_retry: false, on_failure_callback: {callback: log}}
    none: {operator: empty, email_on_failure: false, email_on_retry: false}
    silent: {operator: empty, email: null}
`)
	to := func(list ...any) dag.Callback { return dag.Callback{Name: "email", Args: map[string]any{"to": list}} }
	require.Equal(t, dag.Callbacks{
		OnFailure: []dag.Callback{to("a@x.org", "b@x.org")}, OnRetry: []dag.Callback{to("a@x.org", "b@x.org")},
	}, d.Task("both").Callbacks)
	require.Equal(t, dag.Callbacks{OnFailure: []dag.Callback{{Name: "log"}, to("c@x.org")}}, d.Task("failures").Callbacks)
	require.Equal(t, dag.Callbacks{}, d.Task("none").Callbacks)
	require.Equal(t, dag.Callbacks{}, d.Task("silent").Callbacks)
}

func TestCircuitPoliciesAreInheritedAndFilledIn(t *testing.T) {
	t.Parallel()
	d := one(t, `
default:
  circuits:
    a: {}
    b: {failure_rate: 0.25, minimum_calls: 40, window: 5m, open_for: 90, probes: 3, alert: [{callback: webhook, url: u}, log]}
d:
  circuits: {b: {probes: 2}, c: {alert: []}}
  tasks:
    t: {operator: empty, circuit: b}
`)
	usual := dag.DefaultCircuitPolicy()
	require.Equal(t, usual, d.Circuits["a"])
	require.Equal(t, dag.CircuitPolicy{
		FailureRate: 0.25, MinimumCalls: 40, Window: 5 * time.Minute, OpenFor: 90 * time.Second, Probes: 2,
		Alert: []dag.Callback{{Name: "webhook", Args: map[string]any{"url": "u"}}, {Name: "log"}},
	}, d.Circuits["b"], "the DAG's own key over the inherited policy")
	require.Empty(t, d.Circuits["c"].Alert, "an empty list is nobody")
	require.Equal(t, "b", d.Tasks[0].Circuit)
}
