package app_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

// TestATriggeredRunIsMadeOncePerIntent: however often the task is tried, it makes
// one run; cleared after a success it is asked for another.
func TestATriggeredRunIsMadeOncePerIntent(t *testing.T) {
	t.Parallel()
	e := newEngine(t, 4, nil, `
parent:
  schedule: null
  tasks:
    ask: {operator: trigger_dag_run, trigger_dag_id: child, wait_for_completion: true, poke_interval: 0.1s}
    named: {operator: trigger_dag_run, trigger_dag_id: child, trigger_run_id: mine, dependencies: [ask]}
child:
  schedule: null
  tasks:
    work: {operator: gauge}
`)
	e.trigger("parent", "r", time.Time{})
	require.Equal(t, dag.RunSuccess, e.ends("parent", "r"))
	require.Equal(t, dag.RunSuccess, e.ends("child", "mine"))
	children := func() int {
		runs, err := e.Store().Runs(t.Context(), dag.RunFilter{DagID: "child"})
		require.NoError(t, err)
		return len(runs)
	}
	require.Equal(t, 2, children())

	cleared, err := e.Store().Clear(t.Context(), dag.ClearRequest{DagID: "parent", RunID: "r", Actor: "test"})
	require.NoError(t, err)
	require.Len(t, cleared, 2)
	require.Equal(t, dag.RunSuccess, e.ends("parent", "r"))
	require.Equal(t, 3, children(), "another for the one, and the same for the one with a name")
	e.sound()
}
