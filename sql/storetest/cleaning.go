package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

// clean deletes a kind of history in batches of a given size.
func (b *bundle) clean(kind dag.CleanKind, before time.Time, size int, dryRun bool) (deleted, batches int) {
	b.t.Helper()
	batch := dag.CleanBatch{Kind: kind, Before: before, Limit: size, DryRun: dryRun}
	for {
		got, err := b.s.Clean(b.t.Context(), batch)
		require.NoError(b.t, err)
		deleted, batches, batch.After = deleted+got.Deleted, batches+1, got.After
		if !got.More {
			return deleted, batches
		}
	}
}

// testCleanRuns makes one run for each reason to keep one, and some that go.
func testCleanRuns(t *testing.T, b *bundle) {
	d := oneDAG("d", "a")
	d.Tasks[0].DependsOnPast = true
	d.Tasks[0].Callbacks.OnFailure = []dag.Callback{{Name: "log"}}
	ids, err := b.s.SyncDAGs(t.Context(), []dag.DAGUpdate{{DAG: d, Next: minutely(-10)}})
	require.NoError(t, err)
	made := map[string]dag.Run{}
	minute := func(i int, state dag.State) {
		got, err := b.s.CreateRuns(t.Context(), []dag.NewRun{b.scheduled(d, ids[0], *minutely(i - 10), minutely(i-9))})
		require.NoError(t, err)
		name := fmt.Sprint(i)
		made[name] = got[0].Run
		if state == "" {
			return
		}
		b.pass()
		c := b.claimTask("a")
		r := b.result(c, state)
		if state == dag.StateFailed {
			r.Events = dag.TaskEvents(d, &d.Tasks[0], c.TaskInstance, c.Run, dag.EventFailure, nil, nil, "", start)
		}
		b.apply(r)
		b.pass()
	}
	for i := range 5 {
		minute(i, dag.StateSuccess)
	}
	minute(5, dag.StateFailed)
	b.behind("UPDATE callback_event SET status = 'delivered', delivered_at = created_at")
	b.behind("UPDATE task_instance SET state = 'success' WHERE state = 'failed'") // so that the next may start
	minute(6, dag.StateSuccess)
	b.behind("UPDATE task_instance SET state = 'failed' WHERE dag_run_id = ?", made["5"].ID)
	minute(7, "") // unfinished: it looks back at the sixth
	later := b.clock.Now().Add(time.Hour)
	// Some told how far they are, and that goes with them.
	b.behind(`INSERT INTO task_progress (task_instance_id, fence, fraction_ppm, eta_us, text, updated_at)
 SELECT id, fence, 500000, 0, 'half', updated_at FROM task_instance`)

	none, _ := b.clean(dag.CleanRuns, start.Add(-time.Hour), 2, false)
	require.Zero(t, none)
	would, batches := b.clean(dag.CleanRuns, later, 2, true)
	require.Equal(t, 5, would)
	require.Equal(t, 3, batches) // 2, 2, 1
	require.Equal(t, 8, b.count("SELECT COUNT(*) FROM dag_run"))
	gone, _ := b.clean(dag.CleanRuns, later, 2, false)
	require.Equal(t, 5, gone)

	// 5 has an open letter, 6 is what 7 looks back at, 7 is not finished.
	require.Equal(t, 3, b.count("SELECT COUNT(*) FROM dag_run"))
	for _, kept := range []string{"5", "6", "7"} {
		b.run(made[kept])
	}
	require.Equal(t, 3, b.count("SELECT COUNT(*) FROM task_instance"))
	require.Equal(t, 3, b.count("SELECT COUNT(*) FROM task_progress"))
	require.Equal(t, 2, b.count("SELECT COUNT(*) FROM task_attempt"))
	b.sound()

	// The failure's event stays with its failed instance. When the letter is
	// settled the run may go, and its event after it.
	kept, _ := b.clean(dag.CleanEvents, later, 10, false)
	require.Zero(t, kept)
	b.behind("UPDATE dead_letter SET status = 'resolved'")
	gone, _ = b.clean(dag.CleanRuns, later, 10, false)
	require.Equal(t, 1, gone)
	gone, _ = b.clean(dag.CleanEvents, later, 10, false)
	require.Equal(t, 1, gone)
	b.sound()

	// The newest run of the schedule stays: the next is planned from it.
	b.finish(succeed)
	gone, _ = b.clean(dag.CleanRuns, later, 10, false)
	require.Equal(t, 1, gone) // the sixth
	latest, err := b.s.LatestScheduledRun(t.Context(), "d")
	require.NoError(t, err)
	require.Equal(t, made["7"].RunID, latest.RunID)
	b.sound()
}

// testCleanWaits keeps a run whose callback is not delivered yet.
func testCleanWaits(t *testing.T, b *bundle) {
	d := oneDAG("d", "a")
	d.Tasks[0].Callbacks.OnSuccess = []dag.Callback{{Name: "log"}}
	run := b.trigger(d, "r")
	b.pass()
	c := b.claimTask("a")
	r := b.result(c, dag.StateSuccess)
	r.Events = dag.TaskEvents(d, &d.Tasks[0], c.TaskInstance, c.Run, dag.EventSuccess, nil, nil, "", start)
	b.apply(r)
	b.pass()
	later := b.clock.Now().Add(time.Hour)
	gone, _ := b.clean(dag.CleanRuns, later, 10, false)
	require.Zero(t, gone)
	b.run(run)
	gone, _ = b.clean(dag.CleanEvents, later, 10, false)
	require.Zero(t, gone)
	b.behind("UPDATE callback_event SET status = 'delivered', delivered_at = created_at")
	gone, _ = b.clean(dag.CleanEvents, later, 10, false)
	require.Equal(t, 1, gone)
	gone, _ = b.clean(dag.CleanRuns, later, 10, false)
	require.Equal(t, 1, gone)
	require.Zero(t, b.count("SELECT COUNT(*) FROM task_instance"))
}

// testCleanAttempts deletes the tries before the last, but not those behind an
// open letter.
func testCleanAttempts(t *testing.T, b *bundle) {
	b.trigger(oneDAG("d", "good", "bad"), "r")
	for try := 1; try <= 3; try++ {
		b.pass()
		for _, c := range b.claim(10) {
			state := dag.StateUpForRetry
			if try == 3 {
				state = map[string]dag.State{"good": dag.StateSuccess, "bad": dag.StateFailed}[c.TaskID]
			}
			b.apply(b.result(c, state))
		}
		b.clock.Advance(10 * time.Minute)
	}
	later := b.clock.Now().Add(time.Hour)
	gone, _ := b.clean(dag.CleanAttempts, later, 10, false)
	require.Zero(t, gone) // the run is not finished
	b.pass()
	gone, _ = b.clean(dag.CleanAttempts, later, 10, false)
	require.Equal(t, 2, gone)
	require.Equal(t, 4, b.count("SELECT COUNT(*) FROM task_attempt"))
	b.sound()
	var open []dag.TaskInstanceKey
	require.NoError(t, b.s.OpenInstances(t.Context(), func(keys []dag.TaskInstanceKey) error {
		open = append(open, keys...)
		return nil
	}))
	require.Equal(t, []dag.TaskInstanceKey{{DagID: "d", RunID: "r", TaskID: "bad", MapIndex: -1}}, open)
	effects := []string{b.letters(dag.LetterFilter{})[0].IdempotencyKey}
	named, err := b.s.OpenEffects(t.Context(), []string{effects[0], "other"})
	require.NoError(t, err)
	require.Equal(t, map[string]bool{effects[0]: true}, named)
	long, err := b.s.LongEffects(t.Context(), len(effects[0])-1)
	require.NoError(t, err)
	require.Equal(t, effects, long)
	long, err = b.s.LongEffects(t.Context(), len(effects[0]))
	require.NoError(t, err)
	require.Empty(t, long)

	// An effect key goes when its time is over and no open letter names it.
	for key, days := range map[string]int{"old": -1, "new": 1, effects[0]: -1} {
		b.behind(`INSERT INTO effect (idempotency_key, fingerprint, fence, status, rows_read, rows_merged, rows_unchanged, rows_quarantined, committed_at, expires_at)
 VALUES (?, 'f', 1, 'done', 0, 0, 0, 0, '2026-01-01 00:00:00.000000', ?)`, key, b.clock.Now().AddDate(0, 0, days).Format("2006-01-02 15:04:05.000000"))
	}
	would, _ := b.clean(dag.CleanEffects, later, 10, true)
	require.Equal(t, 1, would)
	gone, _ = b.clean(dag.CleanEffects, later, 10, false)
	require.Equal(t, 1, gone)
	require.Equal(t, 2, b.count("SELECT COUNT(*) FROM effect"))
}

// testCleanDesk deletes the edits of settled letters and replays that ended with
// all their letters; what was decided stays.
func testCleanDesk(t *testing.T, b *bundle) {
	ctx := t.Context()
	b.sealed(oneDAG("d", "a"), 3)
	all := b.letters(dag.LetterFilter{})
	for _, l := range all[:2] {
		_, err := b.s.EditLetter(ctx, l.ID, raw(`{"a":1}`), "typo", "cli:ann")
		require.NoError(t, err)
	}
	_, err := b.s.ActOnLetters(ctx, dag.LetterFilter{IDs: []int64{all[0].ID}}, dag.ActResolve, "because", "cli:ann", nil)
	require.NoError(t, err)
	d := b.drain("on", dag.Drain{Filter: dag.LetterFilter{IDs: []int64{all[2].ID}}})
	b.step(d, b.verdicts(d, dag.DecisionReplayed))
	b.drain("open", dag.Drain{})
	later := b.clock.Now().Add(time.Hour)
	gone, _ := b.clean(dag.CleanDesk, b.clock.Now(), 10, false)
	require.Zero(t, gone, "nothing is old enough")
	would, _ := b.clean(dag.CleanDesk, later, 10, true)
	require.Equal(t, 1, would)
	gone, _ = b.clean(dag.CleanDesk, later, 10, false)
	require.Equal(t, 1, gone, "the edit of the settled letter")
	require.Equal(t, 1, b.count("SELECT COUNT(*) FROM dead_letter_edit WHERE dead_letter_id = ?", all[1].ID))
	b.finish(succeed)
	gone, _ = b.clean(dag.CleanDesk, later, 10, false)
	require.Equal(t, 1, gone, "the replay whose letter has ended")
	require.Equal(t, 1, b.count("SELECT COUNT(*) FROM replay_drain WHERE id = 'open'"))
	require.Equal(t, 1, b.count("SELECT COUNT(*) FROM dead_letter_audit WHERE drain_id = 'on'"))
	// The clean counts letters anew, too.
	b.raw("UPDATE dead_letter SET status = 'dropped' WHERE id = ?", all[0].ID)
	b.clean(dag.CleanDesk, later, 10, false)
	b.sound()
}

func testReset(t *testing.T, b *bundle) {
	b.trigger(oneDAG("d", "a"), "r")
	b.behind("CREATE TABLE somebody_elses (id INTEGER)")
	require.NoError(t, b.s.Reset(t.Context()))
	have, want, err := b.s.SchemaVersion(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, have)
	require.Zero(t, b.count("SELECT COUNT(*) FROM dag_run"))
	require.Equal(t, 1, b.count("SELECT COUNT(*) FROM pool WHERE name = 'default_pool'"))
	require.Zero(t, b.count("SELECT COUNT(*) FROM somebody_elses"))
}
