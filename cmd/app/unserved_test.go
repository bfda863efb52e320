package app_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/config"
	"github.com/airlock-dag/airlock/dag"
)

// A worker that runs says from which queues it takes, so that the state database
// knows of one that nobody serves; it serves none of the others' tasks.
func TestAQueueWithoutAWorkerIsKnown(t *testing.T) {
	t.Parallel()
	e := newEngine(t, 2, nil, `
d:
  schedule: null
  tasks:
    here:  {operator: gauge}
    there: {operator: gauge, queue: gpu}
`, func(c *config.Config) { c.Worker.Queues = []string{"default", "io"} })
	e.trigger("d", "r", time.Time{})
	require.Eventually(t, func() bool {
		return e.instances("d", "r", "here")[0].State == dag.StateSuccess
	}, patience, 20*time.Millisecond)
	require.Eventually(t, func() bool { // the notice may come after the first task
		list, err := e.Store().Unserved(t.Context(), 0)
		return err == nil && len(list) == 1 && list[0] == dag.UnservedQueue{Queue: "gpu", Tasks: 1, Workers: 1}
	}, patience, 20*time.Millisecond)
	require.Equal(t, dag.StateQueued, e.instances("d", "r", "there")[0].State)
}
