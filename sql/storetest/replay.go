package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

// sealed makes a DAG with one failing task in each of n runs, and gives the
// runs. The runs have ended.
func (b *bundle) sealed(d *dag.DAG, n int) []dag.Run {
	b.t.Helper()
	version := b.sync(d)
	var runs []dag.NewRun
	for i := range n {
		runs = append(runs, b.newRun(d, version, fmt.Sprintf("r%03d", i)))
	}
	made, err := b.s.CreateRuns(b.t.Context(), runs)
	require.NoError(b.t, err)
	b.finish(func(dag.Claim) dag.State { return dag.StateFailed })
	out := make([]dag.Run, n)
	for i := range made {
		out[i] = b.run(made[i].Run)
		require.Equal(b.t, dag.RunFailed, out[i].State)
	}
	return out
}

// drain makes a drain with some settings.
func (b *bundle) drain(id string, d dag.Drain) dag.Drain {
	b.t.Helper()
	d.ID, d.Actor, d.MaxReturns, d.PauseShare = id, "cli:ann", 3, 1
	got, err := b.s.NewDrain(b.t.Context(), d)
	require.NoError(b.t, err)
	return got
}

// verdicts decides the same about all letters that a drain has left.
func (b *bundle) verdicts(d dag.Drain, decision dag.ReplayDecision) dag.DrainStep {
	b.t.Helper()
	f := d.Filter
	f.After, f.UpTo = d.Cursor, d.MaxID
	page, err := b.s.ReplayPage(b.t.Context(), f, d.ID)
	require.NoError(b.t, err)
	all := dag.DrainStretch{UpTo: d.MaxID, Last: true}
	step := dag.DrainStep{Other: all, GPU: all}
	for _, c := range page {
		v := dag.ReplayVerdict{Case: c, Decision: decision, Reason: "because"}
		if dag.LaneOf(c.Letter.Queue) == dag.LaneGPU {
			step.GPU.Verdicts = append(step.GPU.Verdicts, v)
		} else {
			step.Other.Verdicts = append(step.Other.Verdicts, v)
		}
	}
	return step
}

func (b *bundle) step(d dag.Drain, step dag.DrainStep) dag.DrainStepResult {
	b.t.Helper()
	res, err := b.s.DrainStep(b.t.Context(), d.ID, step, "cli:ann")
	require.NoError(b.t, err)
	return res
}

func (b *bundle) letters(f dag.LetterFilter) []dag.DeadLetter {
	b.t.Helper()
	list, err := b.s.Letters(b.t.Context(), f)
	require.NoError(b.t, err)
	return list
}

// Two tasks of a run have failed, and one is replayed: what the other one holds
// up stays as it was, as it does when a task is cleared.
func testReplayBelow(t *testing.T, b *bundle) {
	run := b.sealed(oneDAG("d", "a", "below<a", "further<below", "z", "other<z"), 1)[0]
	before := b.instance(run, "other")
	d := b.drain("one", dag.Drain{Filter: dag.LetterFilter{TaskID: "a"}})
	b.clock.Advance(time.Hour)
	b.step(d, b.verdicts(d, dag.DecisionReplayed))
	require.Equal(t, map[string]dag.State{
		"a": dag.StateNone, "below": dag.StateNone, "further": dag.StateNone, "z": dag.StateFailed, "other": dag.StateUpstreamFailed,
	}, b.states(run))
	require.Equal(t, before, b.instance(run, "other"))
	b.finish(succeed)
	require.Equal(t, map[string]dag.State{
		"a": dag.StateSuccess, "below": dag.StateSuccess, "further": dag.StateSuccess, "z": dag.StateFailed, "other": dag.StateUpstreamFailed,
	}, b.states(run))
	require.Equal(t, dag.RunFailed, b.run(run).State)
	b.sound()
}

// A letter is replayed: the instance gets its next generation with the same key,
// what waited for it in vain waits again, and its letter is closed or sealed
// again when the attempt ends.
func testReplay(t *testing.T, b *bundle) {
	ctx := t.Context()
	run := b.sealed(oneDAG("d", "a", "b<a"), 1)[0]
	require.Equal(t, dag.StateUpstreamFailed, b.states(run)["b"])
	before := b.instance(run, "a")
	first := b.letters(dag.LetterFilter{})[0]
	b.clock.Advance(time.Hour)
	d := b.drain("one", dag.Drain{})
	require.Equal(t, []any{first.ID, 1, dag.DrainRunning}, []any{d.MaxID, d.Total, d.State})

	step := b.verdicts(d, dag.DecisionReplayed)
	res := b.step(d, step)
	require.Equal(t, dag.DrainCounts{Replayed: 1}, res.Decided)
	require.Equal(t, dag.DrainDone, res.Drain.State)
	l := b.letters(dag.LetterFilter{})[0]
	require.Equal(t, []any{dag.LetterReplaying, 1, b.clock.Now()}, []any{l.Status, l.ReturnCount, l.UpdatedAt})
	ti := b.instance(run, "a")
	require.Equal(t, []any{dag.StateNone, 1, 1, 0, true, before.Fence + 1, 0}, []any{
		ti.State, ti.Generation, ti.Replays, ti.Intent(), ti.Replaying, ti.Fence, ti.FailureCount,
	})
	require.Equal(t, before.TryNumber+2, ti.MaxTries, "fresh budgets: the task's two retries on top of the tries made")
	require.Equal(t, 1-dag.ReplayRank, ti.PriorityWeight)
	require.Equal(t, dag.StateNone, b.states(run)["b"])
	after := b.run(run)
	require.Equal(t, []any{dag.RunQueued, true, 1}, []any{after.State, after.IsReplay, after.ClearNumber})
	require.Equal(t, 1, b.count("SELECT COUNT(*) FROM dead_letter_audit WHERE drain_id = 'one' AND decision = 'replayed' AND actor = 'cli:ann'"))
	b.sound()

	// The same step again does nothing: the drain is done. In another drain the
	// verdict is out of date.
	require.Zero(t, b.step(d, step).Decided)
	other := b.drain("two", dag.Drain{Filter: dag.LetterFilter{IDs: []int64{l.ID}}})
	res = b.step(other, step)
	require.Zero(t, res.Decided)
	require.Equal(t, dag.DrainDone, res.Drain.State)

	// It fails for good once more: the same letter, with the new failure.
	b.pass()
	c := b.claimTask("a")
	require.True(t, c.Replaying)
	require.Equal(t, first.IdempotencyKey, dag.IdempotencyKey(c.TaskInstanceKey, c.Intent()))
	r := b.result(c, dag.StateFailed)
	again := b.letter(c, "another fault")
	r.Letter = &again
	b.apply(r)
	l2 := b.letters(dag.LetterFilter{})
	require.Len(t, l2, 1)
	require.Equal(t, []any{l.ID, dag.LetterSealed, 1, "another fault", first.FirstFailedAt, b.clock.Now()},
		[]any{l2[0].ID, l2[0].Status, l2[0].ReturnCount, l2[0].ErrorMessage, l2[0].FirstFailedAt, l2[0].EnqueuedAt})
	ti = b.instance(run, "a")
	require.Equal(t, []any{dag.StateFailed, false, 1}, []any{ti.State, ti.Replaying, ti.PriorityWeight})
	b.finish(succeed)
	b.sound()
	ends, err := b.s.DrainOutcome(ctx, "one")
	require.NoError(t, err)
	require.Equal(t, dag.DrainOutcome{Back: 1}, ends)

	// And now it succeeds.
	d = b.drain("three", dag.Drain{})
	require.Equal(t, 1, b.step(d, b.verdicts(d, dag.DecisionReplayed)).Decided.Replayed)
	b.finish(succeed)
	// Each drain tells of its own replay.
	for id, want := range map[string]dag.DrainOutcome{"one": {Back: 1}, "three": {Resolved: 1}} {
		ends, err := b.s.DrainOutcome(ctx, id)
		require.NoError(t, err)
		require.Equal(t, want, ends, id)
	}
	l3 := b.letters(dag.LetterFilter{})
	require.Equal(t, []any{dag.LetterResolved, 2}, []any{l3[0].Status, l3[0].ReturnCount})
	require.Equal(t, map[string]dag.State{"a": dag.StateSuccess, "b": dag.StateSuccess}, b.states(run))
	require.Equal(t, dag.RunSuccess, b.run(run).State)
	twice, err := b.s.DoublePublished(ctx, "")
	require.NoError(t, err)
	require.Zero(t, twice)
	b.sound()
	log := b.count("SELECT COUNT(*) FROM dead_letter_audit")
	require.Equal(t, 2, log, "one row for each drain that decided about it")
}

// The other decisions change the letter, or nothing but the audit; what changed
// since its verdict is passed over; the limit ends a drain.
func testDrainDecisions(t *testing.T, b *bundle) {
	b.sealed(oneDAG("d", "a"), 7)
	d := b.drain("x", dag.Drain{Limit: 5})
	step := b.verdicts(d, dag.DecisionReplayed)
	for i, decision := range []dag.ReplayDecision{
		dag.DecisionDropDuplicate, dag.DecisionQuarantine, dag.DecisionDeferred, dag.DecisionReplayed, dag.DecisionRejected, dag.DecisionReplayed,
	} {
		step.Other.Verdicts[i].Decision = decision
	}
	b.behind("UPDATE dead_letter SET return_count = 9 WHERE id = ?", step.Other.Verdicts[3].Case.Letter.ID)
	res := b.step(d, step)
	require.Equal(t, dag.DrainCounts{DropDuplicate: 1, Quarantine: 1, Deferred: 1, Rejected: 1}, res.Decided, "five at most, one of them passed over")
	require.Equal(t, step.Other.Verdicts[4].Case.Letter.ID, res.Drain.Cursor)
	require.Equal(t, dag.DrainRunning, res.Drain.State)
	res = b.step(d, step)
	require.Equal(t, dag.DrainCounts{Replayed: 1}, res.Decided)
	require.Equal(t, []any{5, dag.DrainDone}, []any{res.Drain.Sum(), res.Drain.State})
	var statuses []dag.LetterStatus
	for _, l := range b.letters(dag.LetterFilter{}) {
		statuses = append(statuses, l.Status)
	}
	require.Equal(t, []dag.LetterStatus{
		dag.LetterDropped, dag.LetterQuarantined, dag.LetterSealed, dag.LetterSealed, dag.LetterSealed, dag.LetterReplaying, dag.LetterSealed,
	}, statuses)
	require.Equal(t, 5, b.count("SELECT COUNT(*) FROM dead_letter_audit WHERE drain_id = 'x' AND reason = 'because'"))
	b.sound()
	// The unique key is the last word.
	_, err := b.s.DB().Writer().ExecContext(t.Context(), `INSERT INTO dead_letter_audit (drain_id, dead_letter_id, decision, idempotency_key, reason, actor, decided_at)
 SELECT drain_id, dead_letter_id, decision, idempotency_key, reason, actor, decided_at FROM dead_letter_audit`)
	require.Error(t, err)
}

// The token bucket, a receiver's rest, what is in flight and the canary pace a
// drain. Two processes share all of it.
func testDrainPace(t *testing.T, b *bundle) {
	ctx := t.Context()
	runs := b.sealed(oneDAG("d", "a"), 8)
	other := b.open()
	d := b.drain("rate", dag.Drain{Rate: 50, Burst: 1, Limit: 3})
	step := b.verdicts(d, dag.DecisionReplayed)
	res := b.step(d, step)
	require.Equal(t, []any{1, dag.WaitRate, 20 * time.Millisecond}, []any{res.Decided.Replayed, res.WaitFor, res.Wait})
	res, err := other.DrainStep(ctx, "rate", step, "cli:bob")
	require.NoError(t, err)
	require.Equal(t, []any{0, dag.WaitRate, 20 * time.Millisecond}, []any{res.Decided.Replayed, res.WaitFor, res.Wait})
	b.clock.Advance(19 * time.Millisecond)
	require.Zero(t, b.step(d, step).Decided.Replayed)
	b.clock.Advance(time.Millisecond)
	res, err = other.DrainStep(ctx, "rate", step, "cli:bob")
	require.NoError(t, err)
	require.Equal(t, 1, res.Decided.Replayed)
	b.clock.Advance(time.Second)
	res = b.step(d, step)
	require.Equal(t, []any{1, dag.DrainDone}, []any{res.Decided.Replayed, res.Drain.State}, "no burst is saved up")

	d = b.drain("burst", dag.Drain{Rate: 10, Burst: 3, Limit: 1})
	require.Equal(t, 1, b.step(d, b.verdicts(d, dag.DecisionReplayed)).Decided.Replayed)

	// In flight: one of four on its way, so three more may go.
	d = b.drain("flight", dag.Drain{MaxInFlight: 2})
	step = b.verdicts(d, dag.DecisionReplayed)
	require.Len(t, step.Other.Verdicts, 4)
	res = b.step(d, step)
	require.Equal(t, []any{2, dag.WaitInFlight}, []any{res.Decided.Replayed, res.WaitFor})
	require.Zero(t, b.step(d, step).Decided.Replayed)
	// One of them is throttled by its receiver: the drain rests until then.
	b.pass()
	var throttled dag.Result
	for _, c := range b.claim(100) {
		if c.RunID == step.Other.Verdicts[0].Case.Letter.RunID {
			throttled = b.result(c, dag.StateUpForRetry)
			throttled.Spent, throttled.SpendTry = dag.BudgetThrottling, false
			continue
		}
		b.apply(b.result(c, dag.StateSuccess))
	}
	b.apply(throttled)
	res = b.step(d, step)
	require.Equal(t, []any{0, dag.WaitSlow, 5 * time.Minute}, []any{res.Decided.Replayed, res.WaitFor, res.Wait})
	b.clock.Advance(5 * time.Minute)
	require.Equal(t, 1, b.step(d, step).Decided.Replayed, "one has ended, one is left to end")
	b.sound()
	_ = runs
}

func testDrainCanary(t *testing.T, b *bundle) {
	ctx := t.Context()
	b.sealed(oneDAG("d", "a"), 5)
	for _, c := range []struct {
		id   string
		end  dag.State
		want dag.DrainState
	}{{"bad", dag.StateFailed, dag.DrainPaused}, {"good", dag.StateSuccess, dag.DrainRunning}} {
		d := b.drain(c.id, dag.Drain{Canary: 2})
		step := b.verdicts(d, dag.DecisionReplayed)
		res := b.step(d, step)
		require.Equal(t, []any{2, dag.WaitCanary}, []any{res.Decided.Replayed, res.WaitFor})
		require.Equal(t, dag.WaitCanary, b.step(d, step).WaitFor)
		b.pass()
		for i, claim := range b.claim(10) {
			state := dag.StateSuccess
			if i == 0 {
				state = c.end
			}
			b.apply(b.result(claim, state))
		}
		res = b.step(d, step)
		if c.want == dag.DrainPaused {
			require.Equal(t, dag.DrainPaused, res.Drain.State)
			require.Contains(t, res.Drain.Reason, "1 of 2 canary letters came back")
			// Who makes it run again has judged.
			d, err := b.s.SetDrainState(ctx, c.id, dag.DrainRunning, "")
			require.NoError(t, err)
			require.True(t, d.CanaryPassed)
			d, err = b.s.SetDrainState(ctx, c.id, dag.DrainDone, "")
			require.NoError(t, err)
			require.NotNil(t, d.EndedAt)
			d, err = b.s.SetDrainState(ctx, c.id, dag.DrainRunning, "")
			require.NoError(t, err)
			require.Equal(t, dag.DrainDone, d.State, "what is done stays so")
			continue
		}
		require.Equal(t, []any{2, dag.DrainDone}, []any{res.Decided.Replayed, res.Drain.State})
	}
	list, err := b.s.Drains(ctx, 0)
	require.NoError(t, err)
	require.Len(t, list, 2)
	_, err = b.s.Drain(ctx, "nope")
	require.Equal(t, dag.ErrNotFound, dag.CodeOf(err))
}

// GPU work goes one at a time unless the drain says how many, and holds up only
// its own lane.
func testDrainGPU(t *testing.T, b *bundle) {
	d := oneDAG("d", "a")
	d.Tasks[0].Queue = "gpu.transcode"
	b.sealed(d, 3)
	b.sealed(oneDAG("e", "a"), 3)
	drain := b.drain("gpu", dag.Drain{})
	step := b.verdicts(drain, dag.DecisionReplayed)
	res := b.step(drain, step)
	require.Equal(t, []any{4, dag.WaitInFlight}, []any{res.Decided.Replayed, res.WaitFor}, "one of the three, and all others behind them")
	onTheWay := func(queue string) int {
		return len(b.letters(dag.LetterFilter{Queue: queue, Status: dag.LetterReplaying}))
	}
	require.Equal(t, []int{1, 3}, []int{onTheWay("gpu.transcode"), onTheWay(dag.DefaultQueue)})
	require.Less(t, res.Drain.GPUCursor, res.Drain.Cursor)
	require.Zero(t, b.step(drain, step).Decided.Replayed)
	drains, err := b.s.Drains(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, res.Drain.UpdatedAt, drains[0].UpdatedAt, "a step that waits writes nothing")
	b.finish(succeed)
	require.Equal(t, 1, b.step(drain, step).Decided.Replayed)
	b.finish(succeed)
	res = b.step(drain, step)
	require.Equal(t, []any{1, dag.DrainDone}, []any{res.Decided.Replayed, res.Drain.State})
	b.finish(succeed)
	require.Equal(t, 6, b.count("SELECT COUNT(*) FROM dead_letter_audit WHERE drain_id = 'gpu' AND outcome = 'resolved'"))
	b.sound()

	// A limit for all leaves a place to the other lane, as long as that has letters.
	for _, id := range []string{"d", "e"} {
		_, err := b.s.Clear(t.Context(), dag.ClearRequest{DagID: id, RunID: "r000", Actor: "cli:ann"})
		require.NoError(t, err)
	}
	b.finish(func(dag.Claim) dag.State { return dag.StateFailed })
	wide := b.drain("wide", dag.Drain{MaxInFlight: 9})
	require.Equal(t, 2, b.step(wide, b.verdicts(wide, dag.DecisionReplayed)).Decided.Replayed)
}

// Two lanes share a limit: neither takes the last place from the other.
func testDrainShares(t *testing.T, b *bundle) {
	d := oneDAG("d", "a")
	d.Tasks[0].Queue = "gpu"
	b.sealed(d, 4)
	b.sealed(oneDAG("e", "a"), 2)
	drain := b.drain("x", dag.Drain{MaxInFlight: 3})
	step := b.verdicts(drain, dag.DecisionReplayed)
	require.Equal(t, 3, b.step(drain, step).Decided.Replayed)
	for queue, want := range map[string]int{"gpu": 2, dag.DefaultQueue: 1} {
		require.Len(t, b.letters(dag.LetterFilter{Queue: queue, Status: dag.LetterReplaying}), want, queue)
	}
	// Pages read from the lanes have no letter twice, and none is left out.
	gpu, err := b.s.ReplayPage(t.Context(), dag.LetterFilter{Lane: dag.LaneGPU}, "x")
	require.NoError(t, err)
	other, err := b.s.ReplayPage(t.Context(), dag.LetterFilter{Lane: dag.LaneOther}, "x")
	require.NoError(t, err)
	require.Equal(t, []int{2, 1}, []int{len(gpu), len(other)})
	b.finish(succeed)
	require.Equal(t, 3, b.step(drain, step).Decided.Replayed)
	b.finish(succeed)
	b.sound()
}

// Live work goes before replays, which also need a slot of their own pool, and
// the runs of replays take no room from the schedule's.
func testReplayPriority(t *testing.T, b *bundle) {
	ctx := t.Context()
	d := oneDAG("d", "a")
	d.MaxActiveRuns = 4
	b.sealed(d, 4)
	require.NoError(t, b.s.SetPool(ctx, dag.Pool{Name: dag.ReplayPool, Slots: 2}))
	drain := b.drain("x", dag.Drain{})
	require.Equal(t, 4, b.step(drain, b.verdicts(drain, dag.DecisionReplayed)).Decided.Replayed)
	live := b.trigger(d, "live")
	require.Equal(t, 3, b.pass().Queued, "the live one, and two replays for two slots")
	claims := b.claim(1)
	require.Equal(t, live.RunID, claims[0].RunID, "the live one first")
	pools, err := b.s.Pools(ctx)
	require.NoError(t, err)
	require.Equal(t, dag.Pool{
		Name: dag.ReplayPool, Slots: 2, Queued: 2, Scheduled: 2,
	}, pools[len(pools)-1])
	rows, err := b.s.DAGRows(ctx, dag.DAGFilter{})
	require.NoError(t, err)
	require.Equal(t, 1, rows[0].ActiveRuns)
	b.apply(b.result(claims[0], dag.StateSuccess))
	b.finish(succeed)
	require.Len(t, b.letters(dag.LetterFilter{Status: dag.LetterResolved}), 4)
	b.sound()
}

// A replay runs the step as the DAG's newest version has it; one that has it no
// more, or mapped otherwise, leaves it as it was.
func testReplayVersion(t *testing.T, b *bundle) {
	d := oneDAG("d", "a", "b", "c")
	run := b.sealed(d, 1)[0]
	old := run.VersionID
	repaired := oneDAG("d", "a", "b")
	repaired.Tasks[0].Retry.Retries = 7
	repaired.Tasks[1].Expand = &dag.Expand{}
	newest := b.sync(repaired)
	require.NotEqual(t, old, newest)
	drain := b.drain("x", dag.Drain{})
	require.Equal(t, 3, b.step(drain, b.verdicts(drain, dag.DecisionReplayed)).Decided.Replayed)
	for task, want := range map[string][2]int64{"a": {newest, 7}, "b": {old, 2}, "c": {old, 2}} {
		ti := b.instance(run, task)
		require.Equal(t, want, [2]int64{ti.VersionID, int64(ti.MaxTries - ti.TryNumber)}, task)
	}
	require.Equal(t, old, b.run(run).VersionID)
	b.finish(succeed)
	b.sound()
}

// A cleared replay is no replay any more; a letter of one is closed.
func testClearOfAReplay(t *testing.T, b *bundle) {
	run := b.sealed(oneDAG("d", "a"), 1)[0]
	drain := b.drain("x", dag.Drain{})
	b.step(drain, b.verdicts(drain, dag.DecisionReplayed))
	b.pass()
	_, err := b.s.Clear(t.Context(), dag.ClearRequest{DagID: "d", RunID: run.RunID, Actor: "cli:ann"})
	require.NoError(t, err)
	ti := b.instance(run, "a")
	require.Equal(t, []any{false, 1}, []any{ti.Replaying, ti.PriorityWeight})
	require.Equal(t, dag.LetterResolved, b.letters(dag.LetterFilter{})[0].Status)
	b.sound()
	b.finish(succeed)
	b.sound()
}
