package executor

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
	"github.com/airlock-dag/airlock/executor/operator"
)

// The log gets a line for each tenth, and one after a while; not one for each
// report. The attempt keeps the last.
func TestProgressIsTold(t *testing.T) {
	t.Parallel()
	clock := dagtest.NewClock(time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC))
	var log bytes.Buffer
	tell := &teller{clock: clock, log: &log}
	require.Nil(t, tell.now(dag.Lease{}))
	require.JSONEq(t, `{"a":1}`, string(tell.detail(json.RawMessage(`{"a":1}`))))
	for i := range 101 {
		tell.report(operator.Progress{Fraction: float64(i) / 100, ETA: time.Duration(100-i) * time.Second, Text: "1.5x"})
		clock.Advance(100 * time.Millisecond)
	}
	require.Equal(t, 10, strings.Count(log.String(), "\n"), log.String())
	require.Contains(t, log.String(), "airlock: 50 %, 50s left, 1.5x\n")
	clock.Advance(time.Minute)
	tell.report(operator.Progress{Fraction: -1, Text: "joining the pieces"})
	require.True(t, strings.HasSuffix(log.String(), "airlock: joining the pieces\n"), log.String())

	require.JSONEq(t, `{"a":1,"progress":{"fraction":null,"text":"joining the pieces"}}`, string(tell.detail(json.RawMessage(`{"a":1}`))))
	require.JSONEq(t, `{"progress":{"fraction":null,"text":"joining the pieces"}}`, string(tell.detail(nil)))
	for _, own := range []string{`[1]`, `{"progress":"mine"}`, `7`} {
		require.JSONEq(t, own, string(tell.detail(json.RawMessage(own))))
	}
	l := dag.Lease{TaskInstanceID: 3, Fence: 2}
	require.Equal(t, &dag.TaskProgress{Lease: l, Fraction: -1, Text: "joining the pieces"}, tell.now(l))
}
