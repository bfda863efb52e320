package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

// tradeFor is trade of a worker of some queues.
func (b *bundle) tradeFor(queues []string, n int, results ...dag.Result) []dag.Claim {
	b.t.Helper()
	_, claims, _, err := b.s.ExchangeAndSchedule(b.t.Context(), results,
		dag.ClaimParams{WorkerID: "w1", Hostname: "h1", N: n, Lease: testLease, Queues: queues}, b.decide)
	require.NoError(b.t, err)
	return claims
}

func tasksOf(claims []dag.Claim) []string {
	out := []string{}
	for _, c := range claims {
		out = append(out, c.TaskID)
	}
	return out
}

// testStartNow: what becomes ready beside a worker with room starts in the
// transaction of the result, with all that a claim would have written; what is
// another queue's, or finds no room, is queued.
func testStartNow(t *testing.T, b *bundle) {
	d := oneDAG("d", "a", "b<a", "c<a", "gpu<a")
	d.Tasks[3].Queue = "gpu"
	run := b.trigger(d, "r")
	b.pass()
	first := b.result(b.claimTask("a"), dag.StateSuccess)
	b.clock.Advance(time.Second)
	claims := b.tradeFor([]string{dag.DefaultQueue}, 1, first)
	require.Equal(t, []string{"b"}, tasksOf(claims))

	now := b.clock.Now()
	got := b.instance(run, "b")
	require.Equal(t, got, claims[0].TaskInstance, "the worker is told what the table has")
	require.Equal(t, dag.StateRunning, got.State)
	require.EqualValues(t, 1, got.Fence)
	require.Equal(t, 1, got.TryNumber)
	require.Equal(t, "w1", got.WorkerID)
	require.Equal(t, "bash", got.Operator)
	require.Equal(t, 2, got.MaxTries)
	for name, at := range map[string]*time.Time{"scheduled": got.ScheduledAt, "queued": got.QueuedAt, "started": got.StartDate} {
		require.NotNil(t, at, name)
		require.True(t, at.Equal(now), name)
	}
	require.True(t, got.LeaseUntil.Equal(now.Add(testLease)))
	require.Equal(t, run.RunID, claims[0].Run.RunID)
	require.Equal(t, run.ID, claims[0].Run.ID)

	for _, task := range []string{"c", "gpu"} {
		require.Equal(t, dag.StateQueued, b.instance(run, task).State, task)
	}
	_, again, _ := b.trade(5, b.result(claims[0], dag.StateSuccess))
	require.ElementsMatch(t, []string{"c", "gpu"}, tasksOf(again))
	b.trade(0, b.result(again[0], dag.StateSuccess), b.result(again[1], dag.StateSuccess))
	require.Equal(t, dag.RunSuccess, b.run(run).State)
	b.sound()
}

// testStartNowInTurn: nothing starts before what was queued earlier, by whomever.
func testStartNowInTurn(t *testing.T, b *bundle) {
	b.trigger(oneDAG("d", "a", "b<a"), "r")
	b.pass()
	first := b.claimTask("a")
	other := b.open()
	b.trigger(oneDAG("e", "x"), "r")
	report, err := other.Schedule(t.Context(), dag.SchedulePass{}, b.decide)
	require.NoError(t, err)
	require.Equal(t, 1, report.Queued)

	_, claims, _ := b.trade(1, b.result(first, dag.StateSuccess))
	require.Equal(t, []string{"x"}, tasksOf(claims))
	_, claims, _ = b.trade(1, b.result(claims[0], dag.StateSuccess))
	require.Equal(t, []string{"b"}, tasksOf(claims))
	b.sound()
}

// testStartNowOnce: what was cleared, or ended by hand, before it could start is
// seen; and whose fence is not the first one's comes by the queue.
func testStartNowOnce(t *testing.T, b *bundle) {
	run := b.trigger(oneDAG("d", "a", "b<a", "c<b"), "r")
	b.pass()
	_, claims, _ := b.trade(1, b.result(b.claimTask("a"), dag.StateSuccess)) // the run is remembered
	require.Equal(t, []string{"b"}, tasksOf(claims))
	other := b.open()
	_, err := other.SetPaused(t.Context(), "d", true)
	require.NoError(t, err)
	_, none, report := b.trade(1, b.result(claims[0], dag.StateSuccess))
	require.Empty(t, none, "the DAG was paused by another process")
	require.True(t, report.Left)
	require.Equal(t, dag.StateSuccess, b.instance(run, "b").State)
	_, err = other.SetPaused(t.Context(), "d", false)
	require.NoError(t, err)
	require.Equal(t, 1, b.pass().Queued)
	require.Equal(t, []string{"c"}, tasksOf(b.claim(1)))

	// Cleared, the chain runs again, with later fences.
	_, err = b.s.Clear(t.Context(), dag.ClearRequest{DagID: "d", RunID: "r", TaskIDs: []string{"a", "b"}})
	require.NoError(t, err)
	b.pass()
	_, claims, _ = b.trade(1, b.result(b.claimTask("a"), dag.StateSuccess))
	require.Equal(t, []string{"b"}, tasksOf(claims))
	require.EqualValues(t, 3, claims[0].Fence, "claimed, cleared, claimed")
	require.Equal(t, 2, claims[0].TryNumber)
	b.sound()
}

// testPausesAreRead: who pauses need tell nobody, neither the process that remembers
// a run nor by the run: it may have died in between. What the table says counts.
func testPausesAreRead(t *testing.T, b *bundle) {
	pause := func(paused int) {
		b.raw("UPDATE dag SET is_paused = ? WHERE dag_id = 'd'", paused)
	}
	run := b.trigger(oneDAG("d", "a", "b<a", "c<b", "e<c"), "r")
	b.pass()
	_, claims, _ := b.trade(1, b.result(b.claimTask("a"), dag.StateSuccess)) // the run is remembered
	require.Equal(t, []string{"b"}, tasksOf(claims))
	pause(1)
	_, none, report := b.trade(1, b.result(claims[0], dag.StateSuccess))
	require.Empty(t, none)
	require.Empty(t, report.Runs)
	require.Empty(t, b.pass().Runs)
	require.Equal(t, dag.StateSuccess, b.instance(run, "b").State)
	require.Equal(t, dag.StateNone, b.instance(run, "c").State)
	pause(0)
	require.Equal(t, 1, b.pass().Queued)

	// A test goes on, paused or not.
	pause(1)
	c := b.claimTask("c")
	_, claims, _, err := b.s.ExchangeAndSchedule(t.Context(), []dag.Result{b.result(c, dag.StateSuccess)},
		dag.ClaimParams{WorkerID: "w", N: 1, Lease: time.Minute, OnlyRun: run.ID}, b.decide)
	require.NoError(t, err)
	if len(claims) == 0 { // by a pass of its own
		_, err := b.s.Schedule(t.Context(), dag.SchedulePass{OnlyRun: run.ID}, b.decide)
		require.NoError(t, err)
	}
	require.Contains(t, []dag.State{dag.StateQueued, dag.StateRunning}, b.instance(run, "e").State)
	b.sound()
}

// testPoolsChangeAtOnce: however short ago slots were counted, a pool that another
// process has made smaller gives no more than it has.
func testPoolsChangeAtOnce(t *testing.T, b *bundle) {
	d := oneDAG("d", "a", "b<a", "c<a", "e<a", "f<b")
	run := b.trigger(d, "r")
	b.pass()
	_, claims, _ := b.trade(3, b.result(b.claimTask("a"), dag.StateSuccess))
	require.Len(t, claims, 3)
	require.NoError(t, b.open().SetPool(t.Context(), dag.Pool{Name: dag.DefaultPool, Slots: 2}))
	_, none, _ := b.trade(3, b.result(claims[0], dag.StateSuccess))
	require.Empty(t, none)
	require.Equal(t, dag.StateScheduled, b.instance(run, "f").State, "two of two slots are in use")
	require.NoError(t, b.s.SetPool(t.Context(), dag.Pool{Name: dag.DefaultPool, Slots: 3}))
	require.Equal(t, 1, b.pass().Queued)
	b.sound()
}

// testScheduleAndClaim: a pass beside a worker starts what is due, as far as the
// worker has room; what was queued before comes first.
func testScheduleAndClaim(t *testing.T, b *bundle) {
	take := func(n int) ([]dag.Claim, dag.ScheduleReport) {
		t.Helper()
		claims, report, err := b.s.ScheduleAndClaim(t.Context(), dag.SchedulePass{Limit: 100},
			dag.ClaimParams{WorkerID: "w1", Hostname: "h1", N: n, Lease: testLease}, b.decide)
		require.NoError(t, err)
		return claims, report
	}
	run := b.trigger(oneDAG("d", "a", "b", "c"), "r")
	claims, report := take(2)
	require.Equal(t, 3, report.Queued)
	require.Equal(t, []string{"a", "b"}, tasksOf(claims))
	require.Equal(t, dag.RunRunning, claims[0].Run.State)
	require.Equal(t, dag.StateQueued, b.instance(run, "c").State)
	require.Equal(t, claims[1].TaskInstance, b.instance(run, "b"))

	none, report := take(2)
	require.Empty(t, none, "no pass was due: what is queued is for a claim")
	require.Zero(t, report.Queued)
	b.trigger(oneDAG("d", "a", "b", "c"), "again")
	claims, report = take(2)
	require.Equal(t, 3, report.Queued)
	require.Equal(t, []string{"c", "a"}, tasksOf(claims))
	require.Equal(t, []string{"r", "again"}, []string{claims[0].Run.RunID, claims[1].Run.RunID})

	// What was taken is known: its result goes the short way.
	_, _, report = b.trade(1, b.result(claims[0], dag.StateSuccess))
	require.Len(t, report.Runs, 1)
	require.Equal(t, dag.StateSuccess, b.instance(run, "c").State)
	b.sound()
}

// testPauseLeavesWhatWaits: a pause changes the runs that somebody may remember, and
// not the many of a backfill that wait for their turn.
func testPauseLeavesWhatWaits(t *testing.T, b *bundle) {
	d := oneDAG("d", "a")
	d.MaxActiveRuns = 1
	b.trigger(d, "first")
	b.trigger(d, "second")
	b.pass()
	woken := func(state string) int {
		return b.count("SELECT COUNT(*) FROM dag_run WHERE next_eval_at IS NOT NULL AND state = ?", state)
	}
	require.Equal(t, []int{0, 0}, []int{woken("running"), woken("queued")})
	_, err := b.s.SetPaused(t.Context(), "d", true)
	require.NoError(t, err)
	require.Equal(t, []int{1, 0}, []int{woken("running"), woken("queued")})
	_, err = b.s.SetPaused(t.Context(), "d", false)
	require.NoError(t, err)
	require.Equal(t, []int{1, 1}, []int{woken("running"), woken("queued")})
	b.finish(succeed)
	b.finish(succeed) // the end of the first lets the second begin
	require.Equal(t, 2, b.count("SELECT COUNT(*) FROM dag_run WHERE state = 'success'"))
	b.sound()
}
