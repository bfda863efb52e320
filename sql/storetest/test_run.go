package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

// testTestRuns holds what becomes of a run whose date a test is given.
func testTestRuns(t *testing.T, b *bundle) {
	ctx := t.Context()
	d := oneDAG("d", "a", "b<a")
	v := b.sync(d)
	make := func(id string, typ dag.RunType) dag.CreatedRun {
		n := b.newRun(d, v, id)
		n.Run.Type, n.Run.LogicalDate = typ, &start
		made, err := b.s.CreateTestRun(ctx, n, "cli:ann")
		require.NoError(t, err)
		return made
	}
	first := make("t1", dag.RunManual)
	require.False(t, first.Existed)
	b.pass()
	claimed := b.claim(1)
	require.Len(t, claimed, 1)
	require.Equal(t, "t1", make("t2", dag.RunManual).Run.RunID, "a worker is at it: nothing is changed")
	require.Equal(t, dag.StateRunning, b.states(first.Run)["a"])
	b.apply(b.result(claimed[0], dag.StateFailed))
	b.finish(func(dag.Claim) dag.State { return dag.StateFailed })
	require.Equal(t, dag.RunFailed, b.run(first.Run).State)

	second := make("t2", dag.RunManual)
	require.False(t, second.Existed)
	require.Equal(t, map[string]dag.State{"a": dag.StateNone, "b": dag.StateNone}, b.states(second.Run))
	old := b.run(first.Run)
	require.Nil(t, old.LogicalDate, "it gave its date up")
	require.Equal(t, dag.RunFailed, old.State)
	require.Equal(t, dag.ReasonTaskFailure, old.Reason)
	require.Equal(t, map[string]dag.State{"a": dag.StateFailed, "b": dag.StateUpstreamFailed}, b.states(first.Run), "history stays")
	letters, err := b.s.Letters(ctx, dag.LetterFilter{})
	require.NoError(t, err)
	require.Len(t, letters, 1)
	require.Equal(t, dag.LetterResolved, letters[0].Status)
	require.Equal(t, 1, b.count("SELECT COUNT(*) FROM dead_letter_audit WHERE reason = 'tested again as t2' AND actor = 'cli:ann'"))
	b.sound()

	// One whose process was killed: its lease ends, and nobody reaps it.
	b.pass()
	require.Len(t, b.claim(1), 1)
	b.clock.Advance(testLease + time.Second)
	third := make("t3", dag.RunManual)
	require.False(t, third.Existed)
	killed := b.run(second.Run)
	require.Equal(t, []any{dag.RunFailed, dag.ReasonReplaced, b.clock.Now()}, []any{killed.State, killed.Reason, *killed.EndDate})
	require.Equal(t, map[string]dag.State{"a": dag.StateSkipped, "b": dag.StateSkipped}, b.states(second.Run))
	b.sound()
	b.finish(func(dag.Claim) dag.State { return dag.StateSuccess })
	require.Equal(t, dag.RunSuccess, b.run(third.Run).State)

	// What the schedule made stays where it is.
	other := start.Add(time.Hour)
	n := b.newRun(d, v, "s")
	n.Run.Type, n.Run.LogicalDate = dag.RunScheduled, &other
	_, err = b.s.CreateRuns(ctx, []dag.NewRun{n})
	require.NoError(t, err)
	n = b.newRun(d, v, "t4")
	n.Run.LogicalDate = &other
	made, err := b.s.CreateTestRun(ctx, n, "cli:ann")
	require.NoError(t, err)
	require.True(t, made.Existed)
	require.Equal(t, "s", made.Run.RunID)
	require.Equal(t, dag.RunQueued, b.run(made.Run).State)
}
