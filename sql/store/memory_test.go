package store

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

// TestRunsThatNobodyAsksForAgainAreBounded: another process may go on with a run,
// end it or clean it away, and nobody tells this one. What it remembers of such runs
// is bounded in bytes, whatever they hold.
func TestRunsThatNobodyAsksForAgainAreBounded(t *testing.T) {
	t.Parallel()
	m := newRunMemory()
	conf := json.RawMessage(make([]byte, 1<<20))
	for id := range int64(1000) {
		m.put(id, &remembered{run: dag.Run{ID: id, State: dag.RunRunning, Conf: conf}, held: make([]dag.TaskInstance, 1)})
	}
	require.NotEmpty(t, m.runs)
	require.Less(t, len(m.runs), 100, "of a megabyte each, and 120,000 times 800 bytes are 96 MB")
	require.Contains(t, m.runs, int64(999), "the newest")

	m = newRunMemory()
	m.put(1, &remembered{run: dag.Run{ID: 1}})
	require.Positive(t, m.size, "a run weighs something also without instances")
	m.put(1, &remembered{run: dag.Run{ID: 1, Conf: conf}, held: make([]dag.TaskInstance, 3)})
	m.forget([]int64{1})
	require.Zero(t, m.size)
}
