package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

// states are the states of a run's instances by task.
func (c *clockwork) states(run dag.Run) map[string]dag.State {
	c.t.Helper()
	list, err := c.store.Instances(c.t.Context(), dag.InstanceFilter{DagID: run.DagID, RunID: run.RunID})
	require.NoError(c.t, err)
	out := map[string]dag.State{}
	for _, ti := range list {
		out[ti.TaskID] = ti.State
	}
	return out
}

const pastDAG = `d:
  schedule: "0 * * * *"
  start_date: 2026-05-01
  catchup: true
  is_paused_upon_creation: false
  tasks:
    load: {operator: bash, bash_command: "true", depends_on_past: true}
    free: {operator: bash, bash_command: "true"}
    below: {operator: bash, bash_command: "true", dependencies: [load]}
`

func TestDependsOnPastAcrossRuns(t *testing.T) {
	t.Parallel()
	begin := date(2026, 5, 1, 0, 30)
	c := newClockwork(t, sqliteFile(t), begin, files{"d.yml": pastDAG})
	broken := 1 // the hour whose load fails, -1 for none
	c.work = c.workerThat(func(cl dag.Claim) dag.State {
		if cl.TaskID == "load" && cl.Run.LogicalDate.Hour() == broken {
			return dag.StateFailed
		}
		return dag.StateSuccess
	})
	c.until(date(2026, 5, 1, 3, 30))
	runs := c.runs("d")
	require.Len(t, runs, 4)
	require.Equal(t, dag.RunSuccess, runs[0].State, "the first has nothing before it")
	require.Equal(t, dag.RunFailed, runs[1].State)
	for _, r := range runs[2:] {
		require.Equal(t, dag.RunRunning, r.State, "held, and no deadlock")
		require.Equal(t, map[string]dag.State{"load": dag.StateNone, "free": dag.StateSuccess, "below": dag.StateNone}, c.states(r))
	}

	// Mended and cleared, all go on, in order.
	broken = -1
	_, err := c.store.Clear(t.Context(), dag.ClearRequest{DagID: "d", RunID: runs[1].RunID, OnlyFailed: true, Actor: "test"})
	require.NoError(t, err)
	c.until(date(2026, 5, 1, 3, 40))
	var last time.Time
	for _, r := range c.runs("d") {
		require.Equal(t, dag.RunSuccess, r.State, r.RunID)
		list, err := c.store.Instances(t.Context(), dag.InstanceFilter{DagID: "d", RunID: r.RunID, TaskID: "load"})
		require.NoError(t, err)
		require.True(t, list[0].StartDate.After(last), "%s before the one before it", r.RunID)
		last = *list[0].EndDate
	}
}

func TestAPausedDAG(t *testing.T) {
	t.Parallel()
	begin := date(2026, 5, 1, 0, 30)
	c := newClockwork(t, sqliteFile(t), begin, files{"d.yml": `d:
  schedule: "0 * * * *"
  start_date: 2026-05-01
  catchup: false
  is_paused_upon_creation: false
  tasks:
    one: {operator: bash, bash_command: "true"}
    two: {operator: bash, bash_command: "true", dependencies: [one]}
`})
	c.look()
	c.clock.Advance(step)
	c.look()
	claims, err := c.store.Claim(t.Context(), dag.ClaimParams{WorkerID: "w", Hostname: "h", N: 10, Lease: 24 * time.Hour})
	require.NoError(t, err)
	require.Len(t, claims, 1)

	_, err = c.store.SetPaused(t.Context(), "d", true)
	require.NoError(t, err)
	status, err := c.store.Apply(t.Context(), []dag.Result{c.ending(claims[0], dag.StateSuccess)})
	require.NoError(t, err)
	require.Equal(t, []dag.ApplyStatus{dag.Applied}, status, "what runs ends as usual")
	c.until(date(2026, 5, 1, 5, 30))
	runs := c.runs("d")
	require.Len(t, runs, 1, "no new runs")
	require.Equal(t, map[string]dag.State{"one": dag.StateSuccess, "two": dag.StateNone}, c.states(runs[0]), "and no new tasks")

	_, err = c.store.SetPaused(t.Context(), "d", false)
	require.NoError(t, err)
	c.work = c.workerThat(func(dag.Claim) dag.State { return dag.StateSuccess })
	c.until(date(2026, 5, 1, 5, 40))
	runs = c.runs("d")
	require.Len(t, runs, 2, "and the latest tick")
	require.Equal(t, date(2026, 5, 1, 5, 0), *runs[1].LogicalDate)
	for _, r := range runs {
		require.Equal(t, dag.RunSuccess, r.State)
	}
}

func TestRunsThatFailPauseTheirDAG(t *testing.T) {
	t.Parallel()
	begin := date(2026, 5, 1, 0, 30)
	c := newClockwork(t, sqliteFile(t), begin, oneFile("bash", `"0 * * * *"`,
		"  start_date: 2026-05-01T01:00:00\n  catchup: true\n  max_active_runs: 1\n  max_consecutive_failed_dag_runs: 3\n"))
	fails := map[int]bool{1: true, 2: true, 4: true, 5: true, 6: true}
	c.work = c.workerThat(func(cl dag.Claim) dag.State {
		if fails[cl.Run.LogicalDate.Hour()] {
			return dag.StateFailed
		}
		return dag.StateSuccess
	})
	c.until(date(2026, 5, 1, 12, 30))
	runs := c.runs("d")
	require.Len(t, runs, 6, "paused after 4, 5 and 6; two failures in a row are not three")
	for i, r := range runs {
		require.Equal(t, fails[i+1], r.State == dag.RunFailed, r.RunID)
	}
	rows, err := c.store.DAGRows(t.Context(), dag.DAGFilter{})
	require.NoError(t, err)
	require.True(t, rows[0].IsPaused)
}

func TestARunThatTakesTooLong(t *testing.T) {
	t.Parallel()
	for _, began := range []bool{true, false} {
		t.Run(fmt.Sprintf("with a task that runs %t", began), func(t *testing.T) {
			t.Parallel()
			begin := date(2026, 5, 1, 0, 30)
			c := newClockwork(t, sqliteFile(t), begin, oneFile("bash", `"0 * * * *"`,
				"  start_date: 2026-05-01T01:00:00\n  catchup: true\n  max_active_runs: 1\n  dagrun_timeout: 600\n"))
			c.until(date(2026, 5, 1, 1, 1))
			var claims []dag.Claim
			if began {
				var err error
				claims, err = c.store.Claim(t.Context(), dag.ClaimParams{WorkerID: "w", Hostname: "h", N: 10, Lease: 24 * time.Hour})
				require.NoError(t, err)
				require.Len(t, claims, 1)
			}
			c.until(date(2026, 5, 1, 1, 30))
			run := c.runs("d")[0]
			require.Equal(t, dag.RunFailed, run.State)
			require.Equal(t, dag.ReasonTimedOut, run.Reason)
			require.Equal(t, date(2026, 5, 1, 1, 10), *run.EndDate, "ten minutes after its start")
			if began {
				status, err := c.store.Apply(t.Context(), []dag.Result{c.ending(claims[0], dag.StateSuccess)})
				require.NoError(t, err)
				require.Equal(t, []dag.ApplyStatus{dag.StaleFence}, status, "its worker has lost the lease")
			}
			// The next run is not held up.
			c.work = c.workerThat(func(dag.Claim) dag.State { return dag.StateSuccess })
			c.until(date(2026, 5, 1, 2, 5))
			require.Equal(t, dag.RunSuccess, c.runs("d")[1].State)
			problems, err := c.store.Check(t.Context())
			require.NoError(t, err)
			require.Empty(t, problems)
		})
	}
}

// With wait_for_downstream the tasks directly below the one before must be well
// too, not those further down.
func TestWaitForDownstreamAcrossRuns(t *testing.T) {
	t.Parallel()
	begin := date(2026, 5, 1, 0, 30)
	c := newClockwork(t, sqliteFile(t), begin, files{"d.yml": `d:
  schedule: "0 * * * *"
  start_date: 2026-05-01
  catchup: true
  is_paused_upon_creation: false
  tasks:
    load: {operator: bash, bash_command: "true", wait_for_downstream: true}
    below: {operator: bash, bash_command: "true", dependencies: [load]}
    further: {operator: bash, bash_command: "true", dependencies: [below]}
`})
	broken := map[string]bool{"further": true}
	c.work = c.workerThat(func(cl dag.Claim) dag.State {
		if broken[cl.TaskID] && cl.Run.LogicalDate.Hour() == 0 {
			return dag.StateFailed
		}
		return dag.StateSuccess
	})
	c.until(date(2026, 5, 1, 1, 30))
	require.Equal(t, dag.RunFailed, c.runs("d")[0].State)
	require.Equal(t, dag.RunSuccess, c.runs("d")[1].State, "what lies further down does not hold it")

	broken["below"] = true
	_, err := c.store.Clear(t.Context(), dag.ClearRequest{DagID: "d", RunID: c.runs("d")[0].RunID, Actor: "test"})
	require.NoError(t, err)
	_, err = c.store.Clear(t.Context(), dag.ClearRequest{DagID: "d", RunID: c.runs("d")[1].RunID, Actor: "test"})
	require.NoError(t, err)
	c.until(date(2026, 5, 1, 1, 50))
	require.Equal(t, map[string]dag.State{"load": dag.StateSuccess, "below": dag.StateFailed, "further": dag.StateUpstreamFailed}, c.states(c.runs("d")[0]))
	require.Equal(t, map[string]dag.State{"load": dag.StateNone, "below": dag.StateNone, "further": dag.StateNone}, c.states(c.runs("d")[1]))
}
