package storetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

// The running count follows every act; what somebody else wrote is found by the
// check and mended by a count.
func testTally(t *testing.T, b *bundle) {
	ctx := t.Context()
	b.sealed(oneDAG("d", "a"), 4)
	all := b.letters(dag.LetterFilter{})
	for _, act := range []dag.LetterAct{dag.ActQuarantine, dag.ActRelease, dag.ActResolve} {
		_, err := b.s.ActOnLetters(ctx, dag.LetterFilter{IDs: []int64{all[0].ID}}, act, "because", "cli:ann", nil)
		require.NoError(t, err)
		b.sound()
	}
	d := b.drain("x", dag.Drain{Limit: 2})
	require.Equal(t, 2, b.step(d, b.verdicts(d, dag.DecisionReplayed)).Decided.Replayed)
	b.sound()
	stats, err := b.s.Stats(ctx)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"replayed": 2, "quarantine": 1}, stats.Decisions)
	rows := b.count("SELECT COUNT(*) FROM dead_letter_tally")

	b.raw("UPDATE dead_letter SET status = 'dropped' WHERE id = ?", all[3].ID)
	b.raw("UPDATE dead_letter_audit SET decision = 'rejected' WHERE dead_letter_id = ? AND decision = 'released'", all[0].ID)
	got, err := b.s.Check(ctx)
	require.NoError(t, err)
	require.Len(t, got, 3, "%v", got) // the group, and two decisions
	for _, v := range got {
		require.Equal(t, "letter-tally", v.Rule)
		require.NotEmpty(t, v.Subject)
	}
	mended, err := b.s.Recount(ctx)
	require.NoError(t, err)
	require.Equal(t, 3, mended)
	b.sound()
	again, err := b.s.Recount(ctx)
	require.NoError(t, err)
	require.Zero(t, again)
	// One row for the group, one for each of the four decisions that there are, and
	// the empty one.
	require.Equal(t, 6, b.count("SELECT COUNT(*) FROM dead_letter_tally"))
	require.Greater(t, rows, 6)
	b.sound()
}

// Letters are sealed and replayed while two processes count anew and draw the
// tally together: nothing is counted twice and nothing is lost.
func testTallyRace(t *testing.T, b *bundle) {
	ctx := t.Context()
	b.sealed(oneDAG("d", "a"), 16)
	var g sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		s := b.open()
		g.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if mended, err := s.Recount(ctx); err != nil || mended != 0 {
					t.Errorf("%d lines were wrong, %v", mended, err)
					return
				}
			}
		})
	}
	for i := range 6 {
		d := b.drain(fmt.Sprint("x", i), dag.Drain{})
		b.step(d, b.verdicts(d, dag.DecisionReplayed))
		n := 0
		b.finish(func(dag.Claim) dag.State {
			if n++; n%3 == 0 {
				return dag.StateFailed
			}
			return dag.StateSuccess
		})
	}
	close(stop)
	g.Wait()
	b.sound()
	groups, err := b.s.LetterStats(ctx, dag.LetterFilter{})
	require.NoError(t, err)
	require.Len(t, groups, 1)
	require.Equal(t, 16, groups[0].Count)
}

// What the tally tells of groups is what a count of the letters tells, for every
// filter that it answers.
func testTallyGroups(t *testing.T, b *bundle) {
	ctx := t.Context()
	for i, id := range []string{"d", "e"} {
		d := oneDAG(id, "a", "b")
		d.Tasks[1].Queue = "gpu"
		b.sealed(d, 2+i)
		b.clock.Advance(time.Hour)
	}
	all := b.letters(dag.LetterFilter{})
	require.Len(t, all, 10)
	_, err := b.s.ActOnLetters(ctx, dag.LetterFilter{IDs: []int64{all[0].ID, all[5].ID}}, dag.ActQuarantine, "", "cli:ann", nil)
	require.NoError(t, err)
	drain := b.drain("x", dag.Drain{Limit: 3})
	b.step(drain, b.verdicts(drain, dag.DecisionReplayed))
	n := 0
	b.finish(func(dag.Claim) dag.State {
		b.clock.Advance(time.Second)
		if n++; n == 1 {
			return dag.StateSuccess
		}
		return dag.StateFailed
	})
	since := start.Add(-time.Hour) // before all of them: it only keeps the tally from answering
	for _, f := range []dag.LetterFilter{
		{}, {Open: true}, {DagID: "e"}, {TaskID: "b", Open: true}, {Queue: "gpu"}, {ErrorClass: dag.ClassPermanent}, {ErrorCode: "EXIT_CODE"},
		{Status: dag.LetterSealed}, {Status: dag.LetterQuarantined}, {Status: dag.LetterResolved}, {Fingerprint: all[9].Fingerprint},
		{DagID: "nobody"}, {Open: true, Limit: 2},
	} {
		got, err := b.s.LetterStats(ctx, f)
		require.NoError(t, err)
		f.Since = &since
		want, err := b.s.LetterStats(ctx, f)
		require.NoError(t, err)
		require.Equal(t, want, got, "%+v", f)
	}
}

// testDrainUncounted: the tally is for people's eyes; what it does not count (a
// process of an older version sealed it, a person wrote it) is replayed.
func testDrainUncounted(t *testing.T, b *bundle) {
	d := oneDAG("d", "a")
	d.Tasks[0].Queue = "gpu.transcode"
	b.sealed(d, 1)
	_, err := b.s.DB().Writer().ExecContext(t.Context(), "DELETE FROM dead_letter_tally WHERE id > 1")
	require.NoError(t, err)
	page, err := b.s.ReplayPage(t.Context(), dag.LetterFilter{Lane: dag.LaneGPU}, "")
	require.NoError(t, err)
	require.Len(t, page, 1)
	page, err = b.s.ReplayPage(t.Context(), dag.LetterFilter{Lane: dag.LaneOther}, "")
	require.NoError(t, err)
	require.Empty(t, page)
}
