package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

func testStats(t *testing.T, b *bundle) {
	ctx := t.Context()
	got, err := b.s.Stats(ctx)
	require.NoError(t, err)
	require.Empty(t, got.Letters)
	require.Empty(t, got.Decisions)
	require.Nil(t, got.OldestEvent)

	d := oneDAG("d", "a", "b", "c", "e")
	d.Tasks[0].Queue = "gpu"
	run := b.trigger(d, "r")
	b.pass()
	for _, c := range b.claim(3) {
		r := b.result(c, dag.StateFailed)
		if c.TaskID == "c" {
			r = b.result(c, dag.StateUpForRetry)
		}
		r.Events = []dag.Event{{
			DedupKey: c.TaskID, TaskInstanceKey: c.TaskInstanceKey, Kind: dag.EventFailure, Callback: dag.Callback{Name: "log"},
			Context: raw("{}"), CreatedAt: b.clock.Now(),
		}}
		b.apply(r)
		b.clock.Advance(time.Minute)
	}
	events, err := b.s.ClaimEvents(ctx, "me", 1, time.Minute)
	require.NoError(t, err)
	require.NoError(t, b.missed(events[0].ID, "404", nil))
	b.behind("INSERT INTO dead_letter_audit (drain_id, dead_letter_id, decision, idempotency_key, reason, actor, decided_at) SELECT 'd1', id, 'replayed', '', '', '', enqueued_at FROM dead_letter")
	b.behind("UPDATE dead_letter SET status = 'quarantined' WHERE task_id = 'b'")
	b.clock.Advance(dag.LetterTTL - dag.LetterWarning - 2*time.Minute) // the first expires within 48 hours now, the second in a minute

	got, err = b.s.Stats(ctx)
	require.NoError(t, err)
	require.ElementsMatch(t, []dag.LetterDepth{
		{Status: dag.LetterSealed, Queue: "gpu", Count: 1, Oldest: start, Expiring: 1},
		{Status: dag.LetterQuarantined, Queue: dag.DefaultQueue, Count: 1, Oldest: start.Add(time.Minute)},
	}, got.Letters)
	require.Equal(t, map[string]int{"replayed": 2}, got.Decisions)
	require.Equal(t, map[dag.State]int{dag.StateQueued: 1, dag.StateUpForRetry: 1}, got.Instances)
	require.Equal(t, map[dag.RunState]int{dag.RunRunning: 1}, got.Runs)
	require.Equal(t, dag.RunRunning, b.run(run).State)
	require.Equal(t, []int{2, 1, 1}, []int{got.EventsPending, got.EventsDead, got.DAGs})
	require.Equal(t, start.Add(time.Minute), *got.OldestEvent)
	require.NotEmpty(t, got.Pools)
}
