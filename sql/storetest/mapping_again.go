package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

// testClearUnexpanded clears a mapped task whose values have not come since it
// was cleared the last time: there were none, the task that makes them failed, or
// it is cleared twice at once.
func testClearUnexpanded(t *testing.T, b *bundle) {
	d := oneDAG("d", "make", "each<make", "g.a<make", "g.b<g.a")
	d.Tasks[1].Expand = overMake()
	d.Groups = []dag.Group{{ID: "g", Expand: overMake()}}
	d.Tasks[2].GroupID, d.Tasks[3].GroupID = "g", "g"
	mapped := []string{"each", "g.a", "g.b"}
	run := b.trigger(d, "r")
	clear := func() {
		t.Helper()
		_, err := b.s.Clear(t.Context(), dag.ClearRequest{DagID: "d", RunID: "r", Actor: "test"})
		require.NoError(t, err)
		b.sound()
	}
	ends := func(state dag.RunState, list ...string) {
		t.Helper()
		b.work(run, values(list...), func(c dag.Claim) dag.State {
			if state == dag.RunFailed {
				return dag.StateFailed
			}
			return dag.StateSuccess
		})
		require.Equal(t, state, b.run(run).State)
		b.sound()
	}
	is := func(want map[int]string) {
		t.Helper()
		for _, task := range mapped {
			require.Equal(t, want, b.payloads(run, task), task)
		}
	}
	all := map[int]string{0: `{"x":"1"}`, 1: `{"x":"2"}`, 2: `{"x":"3"}`}
	ends(dag.RunSuccess, "1", "2", "3")
	is(all)

	clear()
	ends(dag.RunSuccess) // no value at all
	for _, task := range mapped {
		require.Equal(t, dag.StateSkipped, b.states(run)[task], task)
	}
	clear()
	ends(dag.RunSuccess, "1", "2", "3")
	is(all)

	clear()
	ends(dag.RunFailed) // make fails
	for _, task := range mapped {
		require.Equal(t, dag.StateUpstreamFailed, b.states(run)[task], task)
	}
	clear()
	clear()
	ends(dag.RunSuccess, "1", "2", "3")
	is(all)
}
