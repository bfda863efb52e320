package cli_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/store"
)

// Who wonders why a task does not start is told that nobody takes from its queue.
func TestStatesTellOfAQueueThatNobodyServes(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"dags/two.yml": `
two:
  schedule: null
  tasks:
    a: {operator: bash, bash_command: "true"}
    b: {operator: bash, bash_command: "true", queue: gpu}
`})
	h.ok("dags", "trigger", "two", "-r", "one")
	states := func() string {
		r := h.ok("tasks", "states-for-dag-run", "two", "one", "-o", "json")
		require.Equal(t, r.stderr, h.ok("tasks", "states-for-dag-run", "two", "one").stderr)
		return r.stderr
	}
	require.Empty(t, states(), "nothing is queued")
	st, err := store.Open(t.Context(), "sqlite:///"+filepath.Join(h.path("home"), "airlock.db"), store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = st.Close() })
	run, err := st.Run(t.Context(), "two", "one")
	require.NoError(t, err)
	_, err = st.Schedule(t.Context(), dag.SchedulePass{OnlyRun: run.ID}, func(s *dag.RunSnapshot, now time.Time) (dag.Decision, error) {
		d, err := st.Version(t.Context(), s.Run.VersionID)
		if err != nil {
			return dag.Decision{}, err
		}
		return dag.Evaluate(d, s, now), nil
	})
	require.NoError(t, err)
	require.Equal(t, "1 task waits in the queue default, and no worker runs: start `airlock standalone`, or `airlock worker` beside a scheduler\n"+
		"1 task waits in the queue gpu, and no worker runs: start `airlock standalone`, or `airlock worker` beside a scheduler\n", states())
	require.NoError(t, st.NoteWorker(t.Context(), dag.WorkerNotice{ID: "w", Queues: []string{"default"}, Alive: time.Hour}))
	require.Equal(t, "1 task waits in the queue gpu, and no living worker takes from it: start `airlock worker --queues gpu`, or name another queue in the DAG's file\n", states())
	require.NoError(t, st.NoteWorker(t.Context(), dag.WorkerNotice{ID: "all", Alive: time.Hour}))
	require.Empty(t, states())
}
