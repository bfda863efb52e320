package storetest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// Storing the letter fails: the job stays unfinished, and after the repair the
// letter is there once.
func testLetterFails(t *testing.T, b *bundle) {
	ctx := t.Context()
	b.trigger(oneDAG("d", "a", "b"), "r")
	b.pass()
	claims := b.claim(10)
	bad, good := b.result(claims[0], dag.StateFailed), b.result(claims[1], dag.StateSuccess)
	bad.XComs = map[string]json.RawMessage{"k": raw("1")}
	b.behind("ALTER TABLE dead_letter RENAME TO dead_letter_away")
	_, err := b.s.Apply(ctx, []dag.Result{bad, good})
	require.Error(t, err)
	require.Equal(t, map[string]dag.State{"a": dag.StateRunning, "b": dag.StateRunning}, b.states(claims[0].Run))
	for _, table := range []string{"task_attempt", "xcom", "callback_event"} {
		require.Zero(t, b.count("SELECT COUNT(*) FROM "+table), table)
	}
	b.behind("ALTER TABLE dead_letter_away RENAME TO dead_letter")
	b.sound()
	require.Equal(t, []dag.ApplyStatus{dag.Applied, dag.Applied}, b.apply(bad, good))
	require.Equal(t, 1, b.count("SELECT COUNT(*) FROM dead_letter"))
	b.sound()
}

func testOddLetters(t *testing.T, b *bundle) {
	ctx := t.Context()
	d := wide("d", 5)
	b.trigger(d, "r")
	b.pass()
	claims := b.claim(10)
	letters := []dag.DeadLetter{
		{}, // nothing at all
		{ErrorClass: dag.ClassTransient, ErrorCode: strings.Repeat("É", 500), ErrorMessage: "bad \xff\x00 bytes", Payload: raw("not json"), AssetSHA256: "short"},
		{ErrorClass: "nonsense", Status: "nonsense", ErrorMessage: strings.Repeat("m", 1<<20), StackTrace: strings.Repeat("ü", 1<<20)},
		{Payload: raw(`"` + strings.Repeat("p", 5<<20) + `"`), AttemptCount: -3, IdempotencyKey: strings.Repeat("k", 5000), AssetSHA256: strings.Repeat("ab", 32)},
		{Payload: raw(strings.Repeat("[", 200) + strings.Repeat("]", 200)), FirstFailedAt: start.Add(24 * time.Hour)},
	}
	var results []dag.Result
	for i, c := range claims {
		r := b.result(c, dag.StateFailed)
		r.Letter = &letters[i]
		results = append(results, r)
	}
	for _, st := range b.apply(results...) {
		require.Equal(t, dag.Applied, st)
	}
	list, err := b.s.Letters(ctx, dag.LetterFilter{DagID: "d", RunID: "r"})
	require.NoError(t, err)
	require.Len(t, list, 5)
	for i, l := range list {
		full, err := b.s.Letter(ctx, l.ID)
		require.NoError(t, err)
		require.Equal(t, claims[i].TaskInstanceKey, l.TaskInstanceKey)
		require.Equal(t, claims[i].TaskInstanceKey.String(), l.JobID)
		require.Equal(t, dag.LetterSealed, l.Status)
		require.GreaterOrEqual(t, l.AttemptCount, 1)
		require.NotEmpty(t, l.Fingerprint)
		require.Len(t, l.OriginalPayloadHash, 64)
		require.Equal(t, b.clock.Now(), l.EnqueuedAt)
		require.Equal(t, b.clock.Now().Add(dag.LetterTTL), l.ExpiresAt)
		require.False(t, l.FirstFailedAt.After(l.EnqueuedAt))
		require.True(t, json.Valid(full.Payload), "letter %d", i)
		require.LessOrEqual(t, len(full.ErrorMessage), dag.MaxErrorMessage)
		require.LessOrEqual(t, len(full.StackTrace), dag.MaxStackTrace)
	}
	require.Equal(t, []dag.ErrorClass{dag.ClassPermanent, dag.ClassExhausted, dag.ClassPermanent, dag.ClassPermanent, dag.ClassPermanent},
		[]dag.ErrorClass{list[0].ErrorClass, list[1].ErrorClass, list[2].ErrorClass, list[3].ErrorClass, list[4].ErrorClass})
	require.Empty(t, list[1].AssetSHA256)
	require.Equal(t, strings.Repeat("ab", 32), list[3].AssetSHA256)
	_, err = b.s.Letter(ctx, 4711)
	require.Equal(t, dag.ErrNotFound, dag.CodeOf(err))
	b.sound()
}

// A value over the server's max_allowed_packet: the others are applied, and
// that one is answered as refused and stays with its worker.
func testRefused(t *testing.T, b *bundle) {
	if b.s.DB().IsSQLite() {
		t.Skip("a SQLite file takes a gigabyte")
	}
	b.trigger(oneDAG("d", "a", "b"), "r")
	b.pass()
	claims := b.claim(10)
	var limit int
	require.NoError(t, b.s.DB().Reader().Get(&limit, "SELECT @@max_allowed_packet"))
	huge, good := b.result(claims[0], dag.StateSuccess), b.result(claims[1], dag.StateSuccess)
	huge.XComs = map[string]json.RawMessage{"v": raw(`"` + strings.Repeat("x", limit) + `"`)}
	require.Equal(t, []dag.ApplyStatus{dag.Refused, dag.Applied}, b.apply(huge, good))
	require.Equal(t, map[string]dag.State{"a": dag.StateRunning, "b": dag.StateSuccess}, b.states(claims[0].Run))
	instead := b.result(claims[0], dag.StateFailed)
	require.Equal(t, []dag.ApplyStatus{dag.Applied}, b.apply(instead))
	b.sound()
}

func testWrongResults(t *testing.T, b *bundle) {
	b.trigger(oneDAG("d", "a"), "r")
	b.pass()
	c := b.claim(1)[0]
	noLetter, letter, none, restarting := b.result(c, dag.StateFailed), b.result(c, dag.StateSuccess), b.result(c, dag.StateNone), b.result(c, dag.StateRestarting)
	noLetter.Letter = nil
	l := b.letter(c, "x")
	letter.Letter = &l
	for _, r := range []dag.Result{noLetter, letter, none, restarting} {
		_, err := b.s.Apply(t.Context(), []dag.Result{r})
		require.Equal(t, dag.ErrInvalid, dag.CodeOf(err))
	}
	st, err := b.s.Apply(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, st)
	require.Equal(t, dag.StateRunning, b.states(c.Run)["a"])
}

func testLetters(t *testing.T, b *bundle) {
	ctx := t.Context()
	d := wide("d", 4)
	d.Tasks[3].Queue = "gpu"
	b.trigger(d, "r")
	b.pass()
	claims := b.claim(10)
	for i, c := range claims {
		b.clock.Advance(time.Minute)
		r := b.result(c, dag.StateFailed)
		message := "disk full"
		if i == 3 {
			message = "no encoder"
		}
		l := b.letter(c, message)
		// One failure that hit three instances.
		l.Fingerprint = dag.Fingerprint(l.ErrorClass, l.ErrorCode, message, "d", "*")
		r.Letter = &l
		b.apply(r)
	}
	all, err := b.s.Letters(ctx, dag.LetterFilter{})
	require.NoError(t, err)
	require.Len(t, all, 4)
	require.Empty(t, all[0].Payload)
	full, err := b.s.Letter(ctx, all[0].ID)
	require.NoError(t, err)
	require.Equal(t, raw("{}"), full.Payload)
	require.Equal(t, dag.PayloadHash(full.Payload), full.OriginalPayloadHash)
	require.Equal(t, dag.LetterSchemaVersion, full.SchemaVersion)
	for name, c := range map[string]struct {
		f dag.LetterFilter
		n int
	}{
		"dag": {dag.LetterFilter{DagID: "d"}, 4}, "other dag": {dag.LetterFilter{DagID: "D"}, 0}, "task": {dag.LetterFilter{TaskID: "t0001"}, 1},
		"queue": {dag.LetterFilter{Queue: "gpu"}, 1}, "class": {dag.LetterFilter{ErrorClass: dag.ClassPermanent}, 4},
		"code": {dag.LetterFilter{ErrorCode: "EXIT_CODE"}, 4}, "fingerprint": {dag.LetterFilter{Fingerprint: all[3].Fingerprint}, 1},
		"status": {dag.LetterFilter{Status: dag.LetterResolved}, 0}, "since": {dag.LetterFilter{Since: &all[2].EnqueuedAt}, 2},
		"until": {dag.LetterFilter{Until: &all[2].EnqueuedAt}, 2}, "ids": {dag.LetterFilter{IDs: []int64{all[0].ID, all[3].ID}}, 2},
		"after": {dag.LetterFilter{After: all[0].ID}, 3}, "limit": {dag.LetterFilter{Limit: 2}, 2}, "run": {dag.LetterFilter{RunID: "r", DagID: "d"}, 4},
	} {
		got, err := b.s.Letters(ctx, c.f)
		require.NoError(t, err, name)
		require.Len(t, got, c.n, name)
	}
	groups, err := b.s.LetterStats(ctx, dag.LetterFilter{})
	require.NoError(t, err)
	require.Equal(t, []dag.LetterGroup{
		{
			Fingerprint: all[0].Fingerprint, ErrorClass: dag.ClassPermanent, ErrorCode: "EXIT_CODE", DagID: "d", TaskID: "t0002", Queue: "default",
			Message: "disk full", Count: 3, First: start.Add(time.Minute), Last: start.Add(3 * time.Minute), LastID: all[2].ID,
			Statuses: map[dag.LetterStatus]int{dag.LetterSealed: 3},
		},
		{
			Fingerprint: all[3].Fingerprint, ErrorClass: dag.ClassPermanent, ErrorCode: "EXIT_CODE", DagID: "d", TaskID: "t0003", Queue: "gpu",
			Message: "no encoder", Count: 1, First: start.Add(4 * time.Minute), Last: start.Add(4 * time.Minute), LastID: all[3].ID,
			Statuses: map[dag.LetterStatus]int{dag.LetterSealed: 1},
		},
	}, groups)
	// The database repeats the rules.
	for _, bad := range []string{
		"UPDATE dead_letter SET attempt_count = 0", "UPDATE dead_letter SET error_class = 'transient'", "UPDATE dead_letter SET status = 'open'",
		"UPDATE task_instance SET state = 'done'", "UPDATE task_instance SET state = 'running', lease_until = NULL", "UPDATE dag_run SET state = 'success', end_date = NULL",
	} {
		_, err := b.s.DB().Writer().ExecContext(ctx, bad)
		require.Equal(t, dialect.ClassData, dialect.ClassOf(err), "%s: %v", bad, err)
	}
}
