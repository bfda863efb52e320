package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

func testClear(t *testing.T, b *bundle) {
	ctx := t.Context()
	run := b.trigger(oneDAG("d", "a", "b<a", "other"), "r")
	b.finish(func(c dag.Claim) dag.State {
		if c.TaskID == "a" {
			return dag.StateFailed
		}
		return dag.StateSuccess
	})
	require.Equal(t, dag.RunFailed, b.run(run).State)
	require.Equal(t, map[string]dag.State{"a": dag.StateFailed, "b": dag.StateUpstreamFailed, "other": dag.StateSuccess}, b.states(run))
	b.clock.Advance(time.Hour)

	request := dag.ClearRequest{DagID: "d", RunID: "r", OnlyFailed: true, DryRun: true, Actor: "cli:ann"}
	got, err := b.s.Clear(ctx, request)
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, dag.StateFailed, b.states(run)["a"], "a dry run changes nothing")
	request.DryRun = false
	got, err = b.s.Clear(ctx, request)
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, dag.StateFailed, got[0].State, "listed as it was")

	after := b.run(run)
	require.Equal(t, dag.RunQueued, after.State)
	require.Equal(t, 1, after.ClearNumber)
	require.Nil(t, after.StartDate)
	require.Nil(t, after.EndDate)
	require.Empty(t, after.Reason)
	ti := b.instance(run, "a")
	require.Equal(t, dag.StateNone, ti.State)
	require.Equal(t, []int{1, 3, 0}, []int{ti.TryNumber, ti.MaxTries, ti.FailureCount}, "max_tries = tries made + retries")
	require.Nil(t, ti.FirstFailedAt)
	require.Zero(t, ti.Generation, "what failed attempts did is still this intent's")
	letters, err := b.s.Letters(ctx, dag.LetterFilter{})
	require.NoError(t, err)
	require.Len(t, letters, 1)
	require.Equal(t, dag.LetterResolved, letters[0].Status)
	require.Equal(t, 1, b.count("SELECT COUNT(*) FROM dead_letter_audit WHERE dead_letter_id = ? AND decision = 'resolved' AND actor = 'cli:ann'", letters[0].ID))
	log, err := b.s.Audit(ctx, dag.AuditFilter{Action: "clear", Since: &start})
	require.NoError(t, err)
	require.Len(t, log, 1)
	require.Equal(t, "d/r", log[0].Subject)
	require.Equal(t, b.clock.Now(), log[0].At)
	b.sound()

	// It runs again, fails again: a second letter, and the first stays resolved.
	b.finish(func(c dag.Claim) dag.State {
		require.Equal(t, 2, c.TryNumber)
		return dag.StateFailed
	})
	letters, err = b.s.Letters(ctx, dag.LetterFilter{})
	require.NoError(t, err)
	require.Len(t, letters, 2)
	require.Equal(t, []dag.LetterStatus{dag.LetterResolved, dag.LetterSealed}, []dag.LetterStatus{letters[0].Status, letters[1].Status})
	attempts, err := b.s.Attempts(ctx, ti.TaskInstanceKey)
	require.NoError(t, err)
	require.Len(t, attempts, 2, "old attempts stay")
	b.sound()

	_, err = b.s.Clear(ctx, dag.ClearRequest{DagID: "d", RunID: "nope"})
	require.Equal(t, dag.ErrNotFound, dag.CodeOf(err))
	got, err = b.s.Clear(ctx, dag.ClearRequest{DagID: "d", RunID: "r", TaskIDs: []string{"other"}, MapIndexes: []int{3}})
	require.NoError(t, err)
	require.Empty(t, got)
	require.Equal(t, dag.RunFailed, b.run(run).State, "nothing was cleared, the run stays ended")
	got, err = b.s.Clear(ctx, dag.ClearRequest{DagID: "d", RunID: "r", TaskIDs: []string{"other"}})
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Equal(t, 1, b.instance(run, "other").Generation, "to run a success again is another intent")
}

func testClearRunning(t *testing.T, b *bundle) {
	ctx := t.Context()
	run := b.trigger(oneDAG("d", "a", "b"), "r")
	b.pass()
	claims := b.claim(10)
	_, err := b.s.Clear(ctx, dag.ClearRequest{DagID: "d", RunID: "r"})
	require.NoError(t, err)
	require.Equal(t, map[string]dag.State{"a": dag.StateRestarting, "b": dag.StateRestarting}, b.states(run))
	var leases []dag.Lease
	for _, c := range claims {
		leases = append(leases, dag.Lease{TaskInstanceID: c.ID, Fence: c.Fence})
	}
	lost, err := b.s.Renew(ctx, leases, testLease)
	require.NoError(t, err)
	require.Equal(t, leases, lost)
	require.Zero(t, b.pass().Queued, "the old attempt may still run")

	// a's worker says that it has stopped; b's is never heard of again.
	require.Equal(t, []dag.ApplyStatus{dag.StaleFence}, b.apply(b.result(claims[0], dag.StateFailed)))
	require.Equal(t, map[string]dag.State{"a": dag.StateNone, "b": dag.StateRestarting}, b.states(run))
	require.Equal(t, 1, b.pass().Queued)
	b.clock.Advance(testLease + time.Second)
	expired, err := b.s.Expired(ctx, 10)
	require.NoError(t, err)
	require.Empty(t, expired, "it spends no budget")
	require.Equal(t, dag.StateNone, b.states(run)["b"])
	b.finish(succeed)
	require.Equal(t, dag.RunSuccess, b.run(run).State)
	attempts, err := b.s.Attempts(ctx, claims[0].TaskInstanceKey)
	require.NoError(t, err)
	require.Equal(t, []dag.State{dag.StateRestarting, dag.StateSuccess}, []dag.State{attempts[0].State, attempts[1].State})
	require.Zero(t, b.count("SELECT COUNT(*) FROM dead_letter"))
	b.sound()
}
