package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

// testCleanAsked keeps a run while the task that asked for it may still look at
// it or ask again: tried again it would make the run, and all its effects, anew.
func testCleanAsked(t *testing.T, b *bundle) {
	parent := b.trigger(oneDAG("p", "ask"), "r")
	b.pass()
	asker := b.claimTask("ask")
	child := oneDAG("c", "x")
	asked := b.newRun(child, b.sync(child), "asked")
	asked.Run.AskedBy = asker.ID
	other := b.newRun(child, b.sync(child), "by hand")
	_, err := b.s.CreateRuns(t.Context(), []dag.NewRun{asked, other})
	require.NoError(t, err)
	b.pass()
	for _, c := range b.claim(10) {
		b.apply(b.result(c, dag.StateSuccess))
	}
	b.pass()
	later := b.clock.Now().Add(time.Hour)
	gone, _ := b.clean(dag.CleanRuns, later, 10, false)
	require.Equal(t, 1, gone, "the run that nobody waits for")
	require.Equal(t, 1, b.count("SELECT COUNT(*) FROM dag_run WHERE run_id = 'asked'"), "its asker still runs")

	b.apply(b.result(asker, dag.StateFailed))
	b.pass()
	require.True(t, b.run(parent).State.Finished())
	gone, _ = b.clean(dag.CleanRuns, later, 10, false)
	require.Zero(t, gone, "its asker may be replayed")
	b.sound()

	b.behind("UPDATE dead_letter SET status = 'resolved'")
	gone, _ = b.clean(dag.CleanRuns, later, 10, false)
	require.Equal(t, 2, gone, "nobody asks any more")
	b.sound()
}

// testLostSpans gives the times in which a lost worker may have committed what
// an open letter does not know by its key.
func testLostSpans(t *testing.T, b *bundle) {
	b.trigger(oneDAG("d", "lost", "told"), "r")
	b.pass()
	claims := b.claim(10)
	require.Len(t, claims, 2)
	began := b.clock.Now()
	b.clock.Advance(3 * time.Hour)
	ended := b.clock.Now()
	for _, c := range claims {
		r := b.result(c, dag.StateFailed)
		if c.TaskID == "lost" {
			r.Attempt.ErrorCode = "WORKER_LOST"
		}
		b.apply(r)
	}
	spans, err := b.s.LostSpans(t.Context())
	require.NoError(t, err)
	require.Len(t, spans, 1)
	for at, has := range map[time.Time]bool{
		began: true, ended: true, began.Add(time.Hour): true,
		began.Add(-time.Hour): true, ended.Add(time.Hour): true, // clocks differ
		began.Add(-time.Hour - time.Second): false, ended.Add(time.Hour + time.Second): false,
	} {
		require.Equal(t, has, spans.Has(at), "%s", at)
	}
	b.behind("UPDATE dead_letter SET status = 'dropped' WHERE task_id = 'lost'")
	spans, err = b.s.LostSpans(t.Context())
	require.NoError(t, err)
	require.Empty(t, spans)
}
