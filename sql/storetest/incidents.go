package storetest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

// A failure opens one incident at each receiver that can close it, and the last
// of its letters that is settled ends it, whoever settled it.
func testIncidents(t *testing.T, b *bundle) {
	ctx := t.Context()
	d := oneDAG("d", "a")
	d.Tasks[0].Callbacks.OnFailure = []dag.Callback{
		{Name: "pagerduty"}, {Name: "webhook", Args: map[string]any{"url": "http://x"}}, {Name: "log"},
		{Name: "pagerduty", Args: map[string]any{"action": "trigger"}}, // what these do is the file's own
		{Name: "pagerduty", Args: map[string]any{"dedup_key": "nightly"}},
	}
	runs := 0
	fail := func(n int) {
		for range n {
			runs++
			b.trigger(d, fmt.Sprintf("r%03d", runs))
		}
		b.pass()
		for _, c := range b.claim(100) {
			r := b.result(c, dag.StateFailed)
			e := &dag.TaskError{Class: dag.ClassPermanent, Code: "EXIT_CODE", Message: "exit code 1"}
			r.Events = dag.TaskEvents(d, &d.Tasks[0], c.TaskInstance, c.Run, dag.EventFailure, e, nil, "", b.clock.Now())
			b.apply(r)
		}
		b.pass()
	}
	settle := func(want int) {
		t.Helper()
		n, err := b.s.SettleIncidents(ctx)
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	resolve := func(f dag.LetterFilter) {
		t.Helper()
		_, err := b.s.ActOnLetters(ctx, f, dag.ActResolve, "because", "cli:ann", nil)
		require.NoError(t, err)
	}
	ends := func() (out []dag.Event) {
		t.Helper()
		events, err := b.s.ClaimEvents(ctx, "me", 100, time.Minute)
		require.NoError(t, err)
		for _, e := range events {
			if e.Kind == dag.EventSuccess {
				out = append(out, e)
			}
			require.NoError(t, b.s.EventDelivered(ctx, e.ID))
		}
		return out
	}
	fail(3)
	letters := b.letters(dag.LetterFilter{})
	require.Equal(t, 2, b.count("SELECT COUNT(*) FROM letter_incident WHERE state = 'open' AND fingerprint = ?", letters[0].Fingerprint))
	settle(0)
	resolve(dag.LetterFilter{IDs: []int64{letters[0].ID}})
	settle(0)
	drain := b.drain("x", dag.Drain{})
	require.Equal(t, 2, b.step(drain, b.verdicts(drain, dag.DecisionReplayed)).Decided.Replayed)
	settle(0)
	require.Empty(t, ends(), "what is on its way is not over")
	b.finish(succeed)
	settle(2)
	settle(0)
	first := ends()
	require.Len(t, first, 2)
	for _, e := range first {
		var c dag.EventContext
		require.NoError(t, json.Unmarshal(e.Context, &c))
		require.Equal(t, []any{letters[0].Fingerprint, "resolved", dag.EventSuccess, e.DedupKey, "d", "a"},
			[]any{c.AlertKey, c.State, c.Event, c.DedupKey, c.DagID, c.TaskID})
		require.Contains(t, []string{"pagerduty", "webhook"}, e.Callback.Name)
		require.NotContains(t, e.Callback.Args, "action")
	}
	b.sound()

	// It fails again: a new turn of the same incident, with its own end.
	b.clock.Advance(time.Minute)
	fail(1)
	settle(0)
	resolve(dag.LetterFilter{DagID: "d"})
	settle(2)
	second := ends()
	require.Len(t, second, 2)
	require.NotContains(t, []string{first[0].DedupKey, first[1].DedupKey}, second[0].DedupKey)

	// A letter that was sealed in the moment in which its incident was resolved
	// brings it back, and its end is told.
	fail(1)
	b.raw("UPDATE letter_incident SET state = 'resolved'")
	settle(0)
	require.Equal(t, 2, b.count("SELECT COUNT(*) FROM letter_incident WHERE state = 'open'"))
	resolve(dag.LetterFilter{DagID: "d"})
	settle(2)
	later := b.clock.Now().Add(time.Hour)
	b.clean(dag.CleanDesk, later, 10, false)
	require.Zero(t, b.count("SELECT COUNT(*) FROM letter_incident"))
	b.sound()
}
