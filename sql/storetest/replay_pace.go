package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

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
