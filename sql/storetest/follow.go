package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

// trade hands in results as a process does that schedules as well, and takes work.
func (b *bundle) trade(n int, results ...dag.Result) ([]dag.ApplyStatus, []dag.Claim, dag.ScheduleReport) {
	b.t.Helper()
	status, claims, report, err := b.s.ExchangeAndSchedule(b.t.Context(), results, dag.ClaimParams{WorkerID: "w1", Hostname: "h1", N: n, Lease: testLease}, b.decide)
	require.NoError(b.t, err)
	return status, claims, report
}

// testFollow: what follows from a result is queued and taken in its transaction.
func testFollow(t *testing.T, b *bundle) {
	d := oneDAG("d", "a", "b<a", "c<a", "e<b")
	d.Tasks[3].Upstream = []string{"b", "c"}
	run := b.trigger(d, "r")
	require.Equal(t, 1, b.pass().Queued)

	status, claims, report := b.trade(5, b.result(b.claimTask("a"), dag.StateSuccess))
	require.Equal(t, []dag.ApplyStatus{dag.Applied}, status)
	require.Len(t, claims, 2, "b and c followed")
	require.Equal(t, run.RunID, claims[0].Run.RunID)
	require.Equal(t, 2, report.Queued)
	require.False(t, report.Left)
	require.Empty(t, b.pass().Runs, "nothing is left to look at")

	// From memory: first one of the two that e waits for, then the other.
	_, none, report := b.trade(5, b.result(claims[0], dag.StateSuccess))
	require.Empty(t, none)
	require.Len(t, report.Runs, 1)
	_, last, _ := b.trade(5, b.result(claims[1], dag.StateSuccess))
	require.Len(t, last, 1)
	require.Equal(t, "e", last[0].TaskID)

	// The same result again is answered, and nothing follows from it twice.
	status, none, report = b.trade(5, b.result(claims[1], dag.StateSuccess))
	require.Equal(t, []dag.ApplyStatus{dag.Applied}, status)
	require.Empty(t, none)
	require.Empty(t, report.Runs)
	_, _, report = b.trade(5, b.result(last[0], dag.StateSuccess))
	require.Equal(t, dag.RunSuccess, report.Runs[0].Decision.State)
	require.Equal(t, dag.RunSuccess, b.run(run).State)
	b.sound()
}

// testFollowForgets: what others did to a run since it was looked at last is
// seen, whatever this process remembers of it.
func testFollowForgets(t *testing.T, b *bundle) {
	d := oneDAG("d", "a", "b", "c", "e")
	d.Tasks[3].Upstream = []string{"a", "b", "c"}
	b.trigger(d, "r")
	b.pass()
	claims := b.claim(3)
	require.Len(t, claims, 3)
	b.trade(1, b.result(claims[0], dag.StateSuccess)) // remembered from here on
	other := b.open()
	status, err := other.Apply(t.Context(), []dag.Result{b.result(claims[1], dag.StateSuccess)})
	require.NoError(t, err)
	require.Equal(t, []dag.ApplyStatus{dag.Applied}, status)
	_, next, _ := b.trade(1, b.result(claims[2], dag.StateSuccess))
	require.Len(t, next, 1, "the last of three was another's to end")
	require.Equal(t, "e", next[0].TaskID)

	// A clear in between, too: the task runs again before what follows it.
	run := b.trigger(d, "again")
	b.pass()
	claims = b.claim(3)
	b.trade(1, b.result(claims[0], dag.StateSuccess))
	b.trade(1, b.result(claims[1], dag.StateSuccess))
	_, err = other.Clear(t.Context(), dag.ClearRequest{DagID: run.DagID, RunID: run.RunID, TaskIDs: []string{"a"}})
	require.NoError(t, err)
	_, next, report := b.trade(1, b.result(claims[2], dag.StateSuccess))
	require.Len(t, next, 1)
	require.Equal(t, "a", next[0].TaskID)
	require.Len(t, report.Runs, 1)
	b.sound()
}

// testFollowLeaves: paused DAGs, expansions and retries are for the scheduler.
func testFollowLeaves(t *testing.T, b *bundle) {
	pause := func(paused bool) {
		_, err := b.s.SetPaused(t.Context(), "d", paused)
		require.NoError(t, err)
	}
	run := b.trigger(oneDAG("d", "a", "b<a"), "r")
	b.pass()
	pause(true)
	_, claims, report := b.trade(1, b.result(b.claimTask("a"), dag.StateSuccess))
	require.Empty(t, claims)
	require.Empty(t, report.Runs)
	require.True(t, report.Left)
	require.Equal(t, dag.StateNone, b.instance(run, "b").State)
	pause(false)
	require.Equal(t, 1, b.pass().Queued)

	// A retry is looked at when it is due, and the scheduler is told of the instant.
	retry := b.result(b.claimTask("b"), dag.StateUpForRetry)
	_, claims, report = b.trade(1, retry)
	require.Empty(t, claims)
	require.True(t, report.Left)
	require.Empty(t, b.pass().Runs)
	b.clock.Advance(5 * time.Minute)
	require.Equal(t, 1, b.pass().Queued)
	b.sound()
}

// testFollowTellsOfCleared: a result of a cleared attempt has nothing that
// follows from it, but its task may run again.
func testFollowTellsOfCleared(t *testing.T, b *bundle) {
	b.trigger(oneDAG("d", "a"), "r")
	b.pass()
	claims := b.claim(1)
	_, err := b.s.Clear(t.Context(), dag.ClearRequest{DagID: "d", RunID: "r"})
	require.NoError(t, err)
	b.pass()
	_, next, report := b.trade(1, b.result(claims[0], dag.StateSuccess))
	require.Empty(t, next)
	require.True(t, report.Left, "the scheduler has to look")
	require.Equal(t, 1, b.pass().Queued)
	b.sound()
}
