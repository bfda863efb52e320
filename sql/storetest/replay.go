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
