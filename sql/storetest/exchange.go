package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

func testExchange(t *testing.T, b *bundle) {
	ctx := t.Context()
	run := b.trigger(oneDAG("d", "a", "b", "c", "e"), "r")
	require.Equal(t, 4, b.pass().Queued)
	exchange := func(n int, results ...dag.Result) ([]dag.ApplyStatus, []dag.Claim) {
		status, claims, err := b.s.Exchange(ctx, results, dag.ClaimParams{WorkerID: "w1", Hostname: "h1", N: n, Lease: testLease})
		require.NoError(t, err)
		return status, claims
	}
	status, first := exchange(2)
	require.Empty(t, status)
	require.Len(t, first, 2)

	// One result is good, one is stale; both are answered, and work is taken.
	done, stale := b.result(first[0], dag.StateSuccess), b.result(first[1], dag.StateSuccess)
	stale.Fence++
	status, next := exchange(1, done, stale)
	require.Equal(t, []dag.ApplyStatus{dag.Applied, dag.StaleFence}, status)
	require.Len(t, next, 1)
	require.Equal(t, "c", next[0].TaskID)
	require.Equal(t, int64(1), next[0].Fence)
	require.Equal(t, run.RunID, next[0].Run.RunID)
	require.Equal(t, map[string]dag.State{"a": dag.StateSuccess, "b": dag.StateRunning, "c": dag.StateRunning, "e": dag.StateQueued}, b.states(run))

	// The same again, as after a lost answer: applied is applied, and only what is left is taken.
	status, next = exchange(5, done)
	require.Equal(t, []dag.ApplyStatus{dag.Applied}, status)
	require.Len(t, next, 1)
	require.Equal(t, "e", next[0].TaskID)

	// No slot, no work; a result that no right worker makes stops all of it.
	status, next = exchange(0, b.result(first[1], dag.StateSuccess))
	require.Equal(t, []dag.ApplyStatus{dag.Applied}, status)
	require.Empty(t, next)
	bad := b.result(first[0], dag.StateSuccess)
	bad.State = dag.StateQueued + "?"
	_, _, err := b.s.Exchange(ctx, []dag.Result{bad}, dag.ClaimParams{WorkerID: "w1", N: 1, Lease: testLease})
	require.Equal(t, dag.ErrInvalid, dag.CodeOf(err))
	require.Equal(t, 2, b.count("SELECT COUNT(*) FROM task_attempt"))
	b.sound()
}
