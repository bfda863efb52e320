package storetest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

// testExternalRun: who waits for a run of another DAG finds it by its date, to
// the microsecond, and sees the states of its instances.
func testExternalRun(t *testing.T, b *bundle) {
	d := oneDAG("d", "a", "m", "b<a")
	d.Tasks[1].Expand = &dag.Expand{Args: map[string]dag.ExpandSource{"x": {}}}
	n := b.newRun(d, b.sync(d), "r")
	day := time.Date(2026, 3, 29, 1, 30, 0, 1000, time.UTC)
	n.Run.LogicalDate = &day
	made, err := b.s.CreateRuns(t.Context(), []dag.NewRun{n, b.newRun(d, n.Run.VersionID, "no date")})
	require.NoError(t, err)
	done, err := b.s.ExpandTask(t.Context(), made[0].Run.ID, "m", []json.RawMessage{raw(`{"x":1}`), raw(`{"x":2}`), raw(`{"x":3}`)})
	require.NoError(t, err)
	require.True(t, done)
	b.pass()
	for _, c := range b.claim(100) {
		state := dag.StateSuccess
		if c.TaskID == "m" && c.MapIndex == 1 {
			state = dag.StateFailed
		}
		b.apply(b.result(c, state))
	}

	got, err := b.s.ExternalRun(t.Context(), "d", day.In(time.FixedZone("x", 7200)))
	require.NoError(t, err)
	require.Equal(t, "r", got.Run.RunID)
	require.Equal(t, n.Run.VersionID, got.Run.VersionID)
	require.Equal(t, map[string]map[dag.State]int{
		"a": {dag.StateSuccess: 1}, "m": {dag.StateSuccess: 2, dag.StateFailed: 1}, "b": {dag.StateNone: 1},
	}, got.States)

	for _, miss := range []struct {
		dagID string
		at    time.Time
	}{{"d", day.Add(time.Microsecond)}, {"D", day}, {"other", day}} {
		none, err := b.s.ExternalRun(t.Context(), miss.dagID, miss.at)
		require.NoError(t, err)
		require.Nil(t, none)
	}
}
