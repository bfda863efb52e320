package storetest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

// Letters are put aside, released, closed and expired, each with an audit row;
// what an act does not fit is refused by name and passed over by filter.
func testLetterActs(t *testing.T, b *bundle) {
	ctx := t.Context()
	b.sealed(oneDAG("d", "a"), 4)
	all := b.letters(dag.LetterFilter{})
	ids := func(l []dag.DeadLetter) (out []int64) {
		for i := range l {
			out = append(out, l[i].ID)
		}
		return out
	}
	act := func(f dag.LetterFilter, a dag.LetterAct) []int64 {
		var got []dag.DeadLetter
		n, err := b.s.ActOnLetters(ctx, f, a, "because", "cli:ann", func(some []dag.DeadLetter) { got = append(got, some...) })
		require.NoError(t, err)
		require.Len(t, got, n)
		return ids(got)
	}
	b.behind("UPDATE dead_letter SET return_count = 5")
	require.Equal(t, ids(all[:2]), act(dag.LetterFilter{IDs: ids(all[:2])}, dag.ActQuarantine))
	_, err := b.s.ActOnLetters(ctx, dag.LetterFilter{IDs: ids(all[1:3])}, dag.ActQuarantine, "", "cli:ann", nil)
	require.Equal(t, dag.ErrConflict, dag.CodeOf(err))
	require.Equal(t, dag.LetterSealed, b.letters(dag.LetterFilter{})[2].Status, "nothing was done")
	_, err = b.s.ActOnLetters(ctx, dag.LetterFilter{IDs: []int64{4711}}, dag.ActRelease, "", "cli:ann", nil)
	require.Equal(t, dag.ErrNotFound, dag.CodeOf(err))
	// However many are named, it is all of them or none.
	many := ids(all[2:])
	for i := range int64(600) {
		many = append(many, 1_000_000+i)
	}
	_, err = b.s.ActOnLetters(ctx, dag.LetterFilter{IDs: many}, dag.ActQuarantine, "", "cli:ann", nil)
	require.Equal(t, dag.ErrNotFound, dag.CodeOf(err))
	require.Equal(t, dag.LetterSealed, b.letters(dag.LetterFilter{})[2].Status, "nothing was done")
	_, err = b.s.ActOnLetters(ctx, dag.LetterFilter{IDs: make([]int64, 1)}, dag.ActQuarantine, "", "cli:ann", nil)
	require.Equal(t, dag.ErrNotFound, dag.CodeOf(err))
	for i := range int64(20_000) {
		many = append(many, 2_000_000+i)
	}
	_, err = b.s.ActOnLetters(ctx, dag.LetterFilter{IDs: many}, dag.ActQuarantine, "", "cli:ann", nil)
	require.Equal(t, dag.ErrInvalid, dag.CodeOf(err))
	require.Equal(t, ids(all[:2]), act(dag.LetterFilter{DagID: "d"}, dag.ActRelease))
	require.Equal(t, []int{0, 0, 5, 5}, []int{
		b.letters(dag.LetterFilter{})[0].ReturnCount, b.letters(dag.LetterFilter{})[1].ReturnCount,
		b.letters(dag.LetterFilter{})[2].ReturnCount, b.letters(dag.LetterFilter{})[3].ReturnCount,
	})
	require.Equal(t, ids(all[3:]), act(dag.LetterFilter{IDs: ids(all[3:])}, dag.ActResolve))

	require.Empty(t, act(dag.LetterFilter{}, dag.ActExpire), "nobody's time is over")
	b.clock.Advance(dag.LetterTTL)
	require.Equal(t, ids(all[:3]), act(dag.LetterFilter{}, dag.ActExpire))
	list, err := b.s.LetterDecisions(ctx, all[0].ID)
	require.NoError(t, err)
	var words []dag.ReplayDecision
	for _, d := range list {
		require.Equal(t, []string{"", "because", "cli:ann"}, []string{d.DrainID, d.Reason, d.Actor})
		words = append(words, d.Decision)
	}
	require.Equal(t, []dag.ReplayDecision{dag.DecisionQuarantine, dag.DecisionReleased, dag.DecisionExpired}, words)
	b.sound()
}

// An edit keeps the old payload and the difference, and reaches the step.
func testEditLetter(t *testing.T, b *bundle) {
	ctx := t.Context()
	run := b.sealed(oneDAG("d", "a"), 1)[0]
	id := b.letters(dag.LetterFilter{})[0].ID
	seal := func(payload string) {
		b.behind("UPDATE dead_letter SET payload = ?, original_payload_hash = ? WHERE id = ?", payload, dag.PayloadHash(raw(payload)), id)
	}
	seal(`{"a":1,"b":{"password":"***"},"c":"x"}`)
	edit, err := b.s.EditLetter(ctx, id, raw(`{"b": {"password": "***"}, "a": 2}`), "typo", "cli:ann")
	require.NoError(t, err)
	require.Equal(t, []dag.PayloadChange{{Key: "a", Old: raw("1"), New: raw("2")}, {Key: "c", Old: raw(`"x"`)}}, edit.Diff)
	full, err := b.s.Letter(ctx, id)
	require.NoError(t, err)
	require.JSONEq(t, `{"a":2,"b":{"password":"***"}}`, string(full.Payload))
	require.Equal(t, dag.PayloadHash(full.Payload), full.OriginalPayloadHash)
	kept, err := b.s.LetterEdits(ctx, id)
	require.NoError(t, err)
	require.Len(t, kept, 1)
	require.Equal(t, []any{"cli:ann", "typo", b.clock.Now()}, []any{kept[0].Actor, kept[0].Reason, kept[0].EditedAt})
	require.JSONEq(t, `{"a":1,"b":{"password":"***"},"c":"x"}`, string(kept[0].OldPayload))
	require.Equal(t, dag.PayloadHash(kept[0].OldPayload), kept[0].OldHash)

	for _, bad := range []struct {
		payload string
		code    dag.ErrCode
	}{
		{`[1]`, dag.ErrInvalid}, {`{`, dag.ErrInvalid}, {`null`, dag.ErrInvalid}, {`{"a":2,"b":{"password":"***"}}`, dag.ErrConflict},
		{`{"a":2,"b":{"password":"***","more":1}}`, dag.ErrInvalid},
	} {
		_, err := b.s.EditLetter(ctx, id, raw(bad.payload), "", "cli:ann")
		require.Equal(t, bad.code, dag.CodeOf(err), bad.payload)
	}
	_, err = b.s.EditLetter(ctx, 4711, raw(`{}`), "", "cli:ann")
	require.Equal(t, dag.ErrNotFound, dag.CodeOf(err))

	// The replay hands on what was changed, and nothing else.
	d := b.drain("x", dag.Drain{})
	require.Equal(t, 1, b.step(d, b.verdicts(d, dag.DecisionReplayed)).Decided.Replayed)
	b.pass()
	var got map[string]any
	c := b.claimTask("a")
	require.NoError(t, json.Unmarshal(c.Payload, &got))
	require.Equal(t, map[string]any{"a": 2.0, "c": nil}, got)
	b.apply(b.result(c, dag.StateFailed))
	require.Zero(t, b.count("SELECT COUNT(*) FROM dead_letter WHERE payload_edit IS NOT NULL"), "it is in the payload now")
	// A payload that somebody changed behind the desk's back is not edited.
	b.behind(`UPDATE dead_letter SET payload = '{"a":3}'`)
	_, err = b.s.EditLetter(ctx, id, raw(`{"a":4}`), "", "cli:ann")
	require.ErrorContains(t, err, "tampered")
	_ = run
	b.sound()
}

// Letters go to a file and come back: what expired or was damaged is restored.
func testLetterRecords(t *testing.T, b *bundle) {
	ctx := t.Context()
	b.sealed(oneDAG("d", "a"), 3)
	records, err := b.s.LetterRecords(ctx, dag.LetterFilter{})
	require.NoError(t, err)
	require.Len(t, records, 3)
	bring := func(r dag.LetterRecord) (dag.ImportStatus, error) {
		text, err := json.Marshal(r)
		require.NoError(t, err)
		var back dag.LetterRecord
		require.NoError(t, json.Unmarshal(text, &back))
		return b.s.ImportLetter(ctx, back, "cli:ann")
	}
	status, err := bring(records[0])
	require.NoError(t, err)
	require.Equal(t, dag.ImportThere, status)
	b.clock.Advance(dag.LetterTTL)
	_, err = b.s.ActOnLetters(ctx, dag.LetterFilter{IDs: []int64{records[0].ID}}, dag.ActExpire, "", "cli:ann", nil)
	require.NoError(t, err)
	b.behind(`UPDATE dead_letter SET payload = '{"a":"evil"}' WHERE id = ?`, records[1].ID)
	b.behind("DELETE FROM dead_letter WHERE id = ?", records[2].ID)
	for i, want := range []dag.ImportStatus{dag.ImportRestored, dag.ImportRestored, dag.ImportAdded} {
		status, err := bring(records[i])
		require.NoError(t, err)
		require.Equal(t, want, status)
	}
	again, err := b.s.LetterRecords(ctx, dag.LetterFilter{})
	require.NoError(t, err)
	require.Len(t, again, 3)
	for i, r := range again {
		require.Equal(t, []any{dag.LetterSealed, records[i].JobID, string(records[i].Payload), records[i].OriginalPayloadHash, records[i].Fence, records[i].EnqueuedAt},
			[]any{r.Status, r.JobID, string(r.Payload), r.OriginalPayloadHash, r.Fence, r.EnqueuedAt})
		require.True(t, r.ExpiresAt.After(b.clock.Now()))
	}
	require.Equal(t, 3, b.count("SELECT COUNT(*) FROM dead_letter_audit WHERE decision = 'released' AND reason = 'brought back from a file'"))
	b.sound()

	for _, change := range []func(r *dag.LetterRecord){
		func(r *dag.LetterRecord) { r.DagID = "" }, func(r *dag.LetterRecord) { r.SchemaVersion = 9 },
		func(r *dag.LetterRecord) { r.Payload = raw(`{"a":1}`) }, func(r *dag.LetterRecord) { r.Status = dag.LetterResolved },
		func(r *dag.LetterRecord) { r.RunID = "none" },
	} {
		r := records[0]
		change(&r)
		_, err := bring(r)
		require.Contains(t, []dag.ErrCode{dag.ErrInvalid, dag.ErrNotFound}, dag.CodeOf(err))
	}
}

// Groups say how much of a failure came back, and an unreadable row does not
// hide the others.
func testLetterGroupsComeBack(t *testing.T, b *bundle) {
	ctx := t.Context()
	b.sealed(oneDAG("d", "a"), 4)
	d := b.drain("x", dag.Drain{Limit: 3})
	require.Equal(t, 3, b.step(d, b.verdicts(d, dag.DecisionReplayed)).Decided.Replayed)
	n := 0
	b.finish(func(dag.Claim) dag.State {
		if n++; n == 1 {
			return dag.StateSuccess
		}
		return dag.StateFailed
	})
	groups, err := b.s.LetterStats(ctx, dag.LetterFilter{})
	require.NoError(t, err)
	require.Len(t, groups, 1)
	require.Equal(t, []any{4, 2, 0.5, 3}, []any{groups[0].Count, groups[0].Back, groups[0].BackShare, groups[0].Open()})
	groups, err = b.s.LetterStats(ctx, dag.LetterFilter{Open: true})
	require.NoError(t, err)
	require.Equal(t, []any{3, 2}, []any{groups[0].Count, groups[0].Back})
	if b.s.DB().IsSQLite() {
		b.behind("UPDATE dead_letter SET enqueued_at = 'yesterday', payload = 'x' WHERE id = ?", groups[0].LastID)
		page, err := b.s.ReplayPage(ctx, dag.LetterFilter{}, "")
		require.NoError(t, err)
		require.Len(t, page, 3)
		require.Contains(t, page[2].Unreadable, "enqueued_at")
		require.Len(t, b.letters(dag.LetterFilter{}), 4)
		require.Len(t, b.letters(dag.LetterFilter{Since: ptr(start.Add(-time.Hour)), Until: ptr(start.Add(time.Hour))}), 3)
	}
}
