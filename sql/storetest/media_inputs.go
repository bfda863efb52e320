package storetest

import (
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

// openInput opens an input for a claimed attempt, from another process.
func (b *bundle) openInput(c dag.Claim, hash string) dag.MediaInput {
	b.t.Helper()
	m, err := b.open().OpenInput(b.t.Context(), dag.Lease{TaskInstanceID: c.ID, Fence: c.Fence}, hash)
	require.NoError(b.t, err)
	return m
}

// Failures are counted by content, whatever task of whatever DAG met them, and
// only a release sets them back.
func testMediaInputs(t *testing.T, b *bundle) {
	ctx := t.Context()
	bad, other := strings.Repeat("ba", 32), strings.Repeat("0c", 32)
	b.trigger(oneDAG("d1", "a", "b"), "r1")
	b.trigger(oneDAG("d2", "a", "b"), "r2")
	b.pass()
	claims := b.claim(10)
	require.Len(t, claims, 4)
	require.Zero(t, b.openInput(claims[0], bad).Failures)

	var results []dag.Result
	for i, c := range claims[:3] {
		b.openInput(c, bad)
		r := b.result(c, dag.StateFailed)
		r.Letter = &dag.DeadLetter{AssetSHA256: bad}
		r.Attempt.ErrorCode, r.FailedInput = "STALLED", bad
		if i == 2 {
			r.Attempt.ErrorCode, r.FailedInput = "EXIT_CODE", "" // not the input's fault
		}
		results = append(results, r)
	}
	b.apply(results...)
	b.apply(results...) // once more: a lost answer counts nothing twice
	letterOf := func(dagID, taskID, hash string) int64 {
		id, err := b.s.OpenLetterOf(ctx, dagID, taskID, hash)
		require.NoError(t, err)
		return id
	}
	key := claims[0].TaskInstanceKey
	letters, err := b.s.Letters(ctx, dag.LetterFilter{DagID: key.DagID, TaskID: key.TaskID})
	require.NoError(t, err)
	require.Len(t, letters, 1)
	require.Equal(t, letters[0].ID, letterOf(key.DagID, key.TaskID, bad))
	require.Zero(t, letterOf(key.DagID, key.TaskID, other))
	require.Zero(t, letterOf(key.DagID, "other", bad))
	require.Zero(t, letterOf("other", key.TaskID, bad))
	_, err = b.s.ActOnLetters(ctx, dag.LetterFilter{IDs: []int64{letters[0].ID}}, dag.ActQuarantine, "because", "cli:ann", nil)
	require.NoError(t, err)
	require.Equal(t, letters[0].ID, letterOf(key.DagID, key.TaskID, bad))
	_, err = b.s.ActOnLetters(ctx, dag.LetterFilter{IDs: []int64{letters[0].ID}}, dag.ActResolve, "because", "cli:ann", nil)
	require.NoError(t, err)
	require.Zero(t, letterOf(key.DagID, key.TaskID, bad), "it does not stand open")

	got := b.openInput(claims[3], bad)
	require.Equal(t, 2, got.Failures)
	require.Equal(t, "STALLED", got.LastErrorCode)
	require.True(t, got.Poisoned(2))
	require.False(t, got.Poisoned(3))
	require.False(t, got.Poisoned(0), "no limit")

	// The worker of the fourth dies with the input open: the reaper counts it,
	// and does not know the hash.
	b.clock.Advance(time.Minute)
	r := b.result(claims[3], dag.StateUpForRetry)
	r.Reaped, r.CountInput, r.Spent = true, true, dag.BudgetCrashes
	r.Attempt.ErrorCode = "WORKER_LOST"
	b.apply(r)
	list, err := b.s.MediaInputs(ctx, dag.MediaInputFilter{})
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, 3, list[0].Failures)
	require.Equal(t, "WORKER_LOST", list[0].LastErrorCode)
	require.Equal(t, claims[3].TaskInstanceKey.String(), list[0].LastJobID)

	require.Equal(t, dag.ErrNotFound, dag.CodeOf(b.s.ReleaseInput(ctx, other, "me", "")))
	require.NoError(t, b.s.ReleaseInput(ctx, bad, "me", "decoder mended"))
	list, err = b.s.MediaInputs(ctx, dag.MediaInputFilter{Hashes: []string{bad, other}})
	require.NoError(t, err)
	require.Zero(t, list[0].Failures)
	require.Equal(t, 3, list[0].TotalFailures)
	require.Equal(t, "me", list[0].ReleasedBy)
	audit, err := b.s.Audit(ctx, dag.AuditFilter{Action: "release_input"})
	require.NoError(t, err)
	require.Len(t, audit, 1)
	require.Equal(t, bad, audit[0].Subject)
	list, err = b.s.MediaInputs(ctx, dag.MediaInputFilter{MinFailures: 1})
	require.NoError(t, err)
	require.Empty(t, list)

	_, err = b.s.OpenInput(ctx, dag.Lease{}, "../x")
	require.Equal(t, dag.ErrInvalid, dag.CodeOf(err))
	b.sound()
}

// A failure long after the last begins the count anew, and workers that write
// at once lose none.
func testMediaInputWindow(t *testing.T, b *bundle) {
	hash := strings.Repeat("ab", 32)
	b.trigger(wide("d", 12), "r")
	b.pass()
	claims := b.claim(20)
	require.Len(t, claims, 12)
	fail := func(c dag.Claim) dag.Result {
		r := b.result(c, dag.StateFailed)
		r.Letter, r.FailedInput = &dag.DeadLetter{}, hash
		return r
	}
	var wg sync.WaitGroup
	for i := range 5 {
		s := b.open()
		wg.Go(func() {
			_, err := s.Apply(t.Context(), []dag.Result{fail(claims[2*i]), fail(claims[2*i+1])})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 10, b.openInput(claims[11], hash).Failures)
	b.clock.Advance(dag.MediaInputWindow + time.Second)
	require.True(t, b.openInput(claims[11], hash).Poisoned(10), "what is sealed stays sealed")
	b.apply(fail(claims[10]))
	m := b.openInput(claims[11], hash)
	require.Equal(t, 1, m.Failures)
	require.Equal(t, 11, m.TotalFailures)
	require.Equal(t, b.clock.Now(), m.FirstFailedAt)
}

// Progress is that of the attempt that runs, and of no other.
func testProgress(t *testing.T, b *bundle) {
	ctx := t.Context()
	run := b.trigger(oneDAG("d", "a", "b"), "r")
	b.pass()
	claims := b.claim(10)
	require.NoError(t, b.s.SetProgress(ctx, nil))
	measured := map[string]float64{"fps": 25.5, "speed": 1.02}
	set := func(c dag.Claim, fence int64, fraction float64, text string) {
		require.NoError(t, b.s.SetProgress(ctx, []dag.TaskProgress{{
			Lease: dag.Lease{TaskInstanceID: c.ID, Fence: fence}, Fraction: fraction, ETA: 90 * time.Second, Text: text, Measures: measured,
		}}))
	}
	set(claims[0], claims[0].Fence, 0.25, "slow")
	set(claims[0], claims[0].Fence, 0.5, "quick"+strings.Repeat("é", 500))
	set(claims[1], claims[1].Fence-1, 0.5, "of an attempt that is over")
	got, err := b.s.Progress(ctx, "d", run.RunID)
	require.NoError(t, err)
	require.Len(t, got, 1)
	p := got[claims[0].ID]
	require.InDelta(t, 0.5, p.Fraction, 1e-6)
	require.Equal(t, 90*time.Second, p.ETA)
	require.True(t, strings.HasPrefix(p.Text, "quick"))
	require.Equal(t, measured, p.Measures)
	measured = nil
	require.Equal(t, b.clock.Now(), p.UpdatedAt)
	set(claims[0], claims[0].Fence, -1, "joining")
	got, err = b.s.Progress(ctx, "d", run.RunID)
	require.NoError(t, err)
	require.InDelta(t, -1, got[claims[0].ID].Fraction, 0)
	require.Empty(t, got[claims[0].ID].Measures)
	measured = map[string]float64{"odd": math.NaN()}
	set(claims[0], claims[0].Fence, -1, "a number that JSON has not")
	got, err = b.s.Progress(ctx, "d", run.RunID)
	require.NoError(t, err)
	require.Empty(t, got[claims[0].ID].Measures)
	b.apply(b.result(claims[0], dag.StateSuccess))
	got, err = b.s.Progress(ctx, "d", run.RunID)
	require.NoError(t, err)
	require.Empty(t, got)
}
