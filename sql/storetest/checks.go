package storetest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/airlock-dag/airlock/dag"
)

func testCheck(t *testing.T, b *bundle) {
	d := oneDAG("d", "a", "b", "c<b")
	d.Tasks[0].Callbacks.OnFailure = []dag.Callback{{Name: "log"}}
	run := b.trigger(d, "r")
	b.pass()
	for _, c := range b.claim(10) {
		state := dag.StateSuccess
		if c.TaskID == "a" {
			state = dag.StateFailed
		}
		r := b.result(c, state)
		r.XComs = map[string]json.RawMessage{"k": raw("1")}
		if state == dag.StateFailed {
			r.Events = dag.TaskEvents(d, &d.Tasks[0], c.TaskInstance, c.Run, dag.EventFailure, nil, nil, "", start)
		}
		b.apply(r)
	}
	b.pass()
	running := b.claimTask("c")
	b.sound()
	failed := b.instance(run, "a")
	b.behind(`INSERT INTO effect (idempotency_key, fingerprint, fence, status, rows_read, rows_merged, rows_unchanged, rows_quarantined, committed_at, expires_at)
 VALUES ('good', 'f', 1, 'done', 10, 7, 2, 1, '2026-01-01 00:00:00.000000', '2026-02-01 00:00:00.000000')`)
	b.sound()

	// Each breach, the rules that find it, and its repair.
	for _, c := range []struct {
		breach, repair string
		rules          []string
	}{
		{
			"UPDATE dead_letter SET task_instance_id = -1", fmt.Sprintf("UPDATE dead_letter SET task_instance_id = %d", failed.ID),
			[]string{"failed-without-letter", "attempt-without-letter"},
		},
		{
			fmt.Sprintf("UPDATE task_instance SET state = 'success' WHERE id = %d", failed.ID), fmt.Sprintf("UPDATE task_instance SET state = 'failed' WHERE id = %d", failed.ID),
			[]string{"letter-without-failure", "failed-without-attempt"},
		},
		{
			fmt.Sprintf("UPDATE task_instance SET replaying = 1 WHERE id = %d", failed.ID), "UPDATE task_instance SET replaying = 0",
			[]string{"replay-without-letter"},
		},
		{
			"UPDATE dead_letter SET status = 'replaying'", "UPDATE dead_letter SET status = 'sealed'", []string{"letter-without-replay"},
		},
		{
			"UPDATE task_attempt SET task_instance_id = -task_instance_id", "UPDATE task_attempt SET task_instance_id = -task_instance_id",
			[]string{"letter-without-attempt", "failed-without-attempt", "failed-without-attempt", "orphan-attempt", "orphan-attempt"},
		},
		{
			fmt.Sprintf("UPDATE task_instance SET lease_until = '2026-01-01 00:00:00.000000' WHERE id = %d", running.ID),
			fmt.Sprintf("UPDATE task_instance SET lease_until = '2030-01-01 00:00:00.000000' WHERE id = %d", running.ID),
			[]string{"running-without-lease"},
		},
		{"UPDATE xcom SET map_index = 5 WHERE task_id = 'a'", "UPDATE xcom SET map_index = -1 WHERE task_id = 'a'", []string{"orphan-xcom"}},
		{"UPDATE effect SET rows_merged = 6", "UPDATE effect SET rows_merged = 7", []string{"effect-accounting"}},
		{"UPDATE callback_event SET task_id = 'x'", "UPDATE callback_event SET task_id = 'a'", []string{"failed-without-event"}},
		{
			"UPDATE dag_run SET state = 'success', end_date = run_after", "UPDATE dag_run SET state = 'running', end_date = NULL",
			[]string{"ended-run-with-live-task"},
		},
		{
			fmt.Sprintf("UPDATE task_instance SET state = 'none' WHERE id = %d", running.ID), fmt.Sprintf("UPDATE task_instance SET state = 'running' WHERE id = %d", running.ID),
			[]string{"run-asleep"},
		},
		{"UPDATE task_instance SET dag_version_id = -dag_version_id", "UPDATE task_instance SET dag_version_id = -dag_version_id", []string{"version-missing"}},
	} {
		b.behind(c.breach)
		got, err := b.s.Check(t.Context())
		require.NoError(t, err)
		var rules []string
		for _, v := range got {
			rules = append(rules, v.Rule)
			require.NotEmpty(t, v.Subject, v.Rule)
			require.NotContains(t, v.Found, "%!", v.Rule)
		}
		require.Equal(t, c.rules, rules, c.breach)
		b.behind(c.repair)
		b.sound()
	}
}

// Random lives: whatever the workers, the reaper and a person do, in whatever
// order, no promise is ever broken, and in the end every run has ended.
func testRandomLives(t *testing.T, b *bundle) {
	ctx := t.Context()
	seq, drains := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		seq++
		d := oneDAG(fmt.Sprint("d", seq), "a", "b<a", "c<a", "d<c")
		run := b.trigger(d, "r")
		var held []dag.Claim
		for range rapid.IntRange(3, 15).Draw(rt, "steps") {
			switch rapid.IntRange(0, 8).Draw(rt, "act") {
			case 0:
				b.pass()
			case 1:
				held = append(held, b.claim(rapid.IntRange(1, 3).Draw(rt, "n"))...)
			case 2:
				var results []dag.Result
				for _, c := range held {
					state := rapid.SampledFrom([]dag.State{dag.StateSuccess, dag.StateFailed, dag.StateSkipped, dag.StateUpForRetry, dag.StateQueued}).Draw(rt, "state")
					results = append(results, b.result(c, state))
				}
				b.apply(results...)
			case 3:
				b.clock.Advance(time.Duration(rapid.IntRange(1, 400).Draw(rt, "seconds")) * time.Second)
			case 4:
				expired, err := b.s.Expired(ctx, 10)
				require.NoError(rt, err)
				for _, c := range expired {
					r := b.result(c, rapid.SampledFrom([]dag.State{dag.StateUpForRetry, dag.StateFailed}).Draw(rt, "reaped"))
					r.Reaped, r.Spent = true, dag.BudgetCrashes
					b.apply(r)
				}
			case 5:
				_, err := b.s.Clear(ctx, dag.ClearRequest{DagID: d.ID, RunID: "r", TaskIDs: []string{rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(rt, "task")}})
				require.NoError(rt, err)
			case 6:
				var leases []dag.Lease
				for _, c := range held {
					leases = append(leases, dag.Lease{TaskInstanceID: c.ID, Fence: c.Fence})
				}
				_, err := b.s.Renew(ctx, leases, testLease)
				require.NoError(rt, err)
			case 7:
				drains++
				drain := b.drain(fmt.Sprint("drain", drains), dag.Drain{})
				b.step(drain, b.verdicts(drain, rapid.SampledFrom([]dag.ReplayDecision{
					dag.DecisionReplayed, dag.DecisionQuarantine, dag.DecisionDropDuplicate, dag.DecisionDeferred,
				}).Draw(rt, "decision")))
			case 8:
				act := rapid.SampledFrom([]dag.LetterAct{dag.ActQuarantine, dag.ActRelease, dag.ActResolve, dag.ActExpire}).Draw(rt, "desk")
				_, err := b.s.ActOnLetters(ctx, dag.LetterFilter{DagID: d.ID}, act, "because", "cli:ann", nil)
				require.NoError(rt, err)
			}
			got, err := b.s.Check(ctx)
			require.NoError(rt, err)
			for _, v := range got {
				// Time jumps here, and nobody reaps at once.
				require.Equal(rt, "running-without-lease", v.Rule, "%+v", v)
			}
		}
		for i := 0; ; i++ {
			require.Less(rt, i, 50, "the run does not end: %v", b.states(run))
			b.clock.Advance(10 * time.Minute)
			expired, err := b.s.Expired(ctx, 100)
			require.NoError(rt, err)
			for _, c := range expired {
				r := b.result(c, dag.StateFailed)
				r.Reaped, r.Spent = true, dag.BudgetCrashes
				b.apply(r)
			}
			b.finish(succeed)
			if b.run(run).State.Finished() {
				break
			}
		}
		b.sound()
	})
}
