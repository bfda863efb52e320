package storetest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

func testSlots(t *testing.T, b *bundle) {
	ctx := t.Context()
	require.NoError(t, b.s.SetPool(ctx, dag.Pool{Name: "gpu", Slots: 3}))
	d := oneDAG("d", "low", "high", "fat", "one", "other")
	for i, c := range []struct {
		pool          string
		weight, slots int
	}{{"gpu", 1, 1}, {"gpu", 9, 1}, {"gpu", 5, 2}, {dag.DefaultPool, 1, 1}, {dag.DefaultPool, 1, 1}} {
		d.Tasks[i].Pool, d.Tasks[i].PriorityWeight, d.Tasks[i].PoolSlots = c.pool, c.weight, c.slots
	}
	d.Tasks[3].MaxActiveTisPerDag = 1
	d.MaxActiveTasks = 4
	v := b.sync(d)
	var runs []dag.NewRun
	for i := range 2 {
		n := b.newRun(d, v, fmt.Sprint("r", i))
		n.Run.LogicalDate = ptr(start.Add(-time.Duration(i) * time.Hour)) // r1 is the older one
		runs = append(runs, n)
	}
	made, err := b.s.CreateRuns(ctx, runs)
	require.NoError(t, err)
	b.pass()
	// By priority, then date: gpu has 3 slots: high of r1 and r0 take 2, fat (2)
	// does not fit, low of r1 takes the third. one runs once over all runs.
	require.Equal(t, map[string]dag.State{
		"high": dag.StateQueued, "fat": dag.StateScheduled, "low": dag.StateQueued, "one": dag.StateQueued, "other": dag.StateQueued,
	}, b.states(made[1].Run))
	require.Equal(t, map[string]dag.State{
		"high": dag.StateQueued, "fat": dag.StateScheduled, "low": dag.StateScheduled, "one": dag.StateScheduled, "other": dag.StateQueued,
	}, b.states(made[0].Run))
	pools, err := b.s.Pools(ctx)
	require.NoError(t, err)
	require.Equal(t, []dag.Pool{
		{Name: dag.DefaultPool, Slots: 128, Description: "Default pool", Queued: 3, Scheduled: 1},
		{Name: "gpu", Slots: 3, Queued: 3, Scheduled: 5},
		{Name: dag.ReplayPool, Slots: 16, Description: "Replays of dead letters, besides their own pools"},
	}, pools)

	// A larger pool lets those go that wait, up to max_active_tasks of the run.
	require.NoError(t, b.s.SetPool(ctx, dag.Pool{Name: "gpu", Slots: -1}))
	b.pass()
	require.Equal(t, dag.StateScheduled, b.states(made[1].Run)["fat"], "r1 has four already")
	require.Equal(t, dag.StateQueued, b.states(made[0].Run)["fat"])
	require.Equal(t, dag.StateQueued, b.states(made[0].Run)["low"])
	require.Equal(t, dag.StateScheduled, b.states(made[0].Run)["one"])
	b.finish(succeed)
	require.Equal(t, dag.RunSuccess, b.run(made[0].Run).State)
	require.Equal(t, dag.RunSuccess, b.run(made[1].Run).State)
	b.sound()
}

func testPoolMissing(t *testing.T, b *bundle) {
	ctx := t.Context()
	d := oneDAG("d", "a", "b")
	d.Tasks[0].Pool, d.Tasks[1].Pool, d.Tasks[1].PoolSlots = "nowhere", "small", 2
	require.NoError(t, b.s.SetPool(ctx, dag.Pool{Name: "small", Slots: 1}))
	run := b.trigger(d, "r")
	require.ElementsMatch(t, []dag.NeverFit{
		{DagID: "d", TaskID: "a", Pool: "nowhere", PoolSlots: 1, Missing: true}, {DagID: "d", TaskID: "b", Pool: "small", PoolSlots: 2, Slots: 1},
	}, b.pass().NeverFit)
	require.Equal(t, map[string]dag.State{"a": dag.StateScheduled, "b": dag.StateScheduled}, b.states(run))
	require.Empty(t, b.pass().NeverFit, "it is said once")
	require.NoError(t, b.s.SetPool(ctx, dag.Pool{Name: "nowhere", Slots: 1}))
	require.Equal(t, 1, b.pass().Queued)
	require.Equal(t, map[string]dag.State{"a": dag.StateQueued, "b": dag.StateScheduled}, b.states(run))
}

func testFreedSlot(t *testing.T, b *bundle) {
	require.NoError(t, b.s.SetPool(t.Context(), dag.Pool{Name: "one", Slots: 1}))
	var runs []dag.Run
	for i := range 3 {
		d := oneDAG(fmt.Sprint("d", i), "a")
		d.Tasks[0].Pool = "one"
		runs = append(runs, b.trigger(d, "r"))
	}
	b.pass()
	for i := range 3 {
		require.Equal(t, dag.StateQueued, b.states(runs[i])["a"])
		claims := b.claim(10)
		require.Len(t, claims, 1, "one slot, one instance")
		b.apply(b.result(claims[0], dag.StateSuccess))
		b.pass() // only this run is to be looked at; the slot goes to another
	}
	b.sound()
}

func testExpand(t *testing.T, b *bundle) {
	ctx := t.Context()
	d := oneDAG("d", "a", "empty", "z<a")
	for i := range 2 {
		d.Tasks[i].Expand = &dag.Expand{Names: []string{"x"}, Args: map[string]dag.ExpandSource{"x": {Literal: []any{"1"}}}}
	}
	run := b.trigger(d, "r")
	require.ElementsMatch(t, []string{"a", "empty"}, b.pass().Runs[0].Decision.Expand)
	payloads := make([]json.RawMessage, 1203)
	for i := range payloads {
		payloads[i] = raw(fmt.Sprintf(`{"x":%d}`, i))
	}
	did, err := b.s.ExpandTask(ctx, run.ID, "a", payloads)
	require.NoError(t, err)
	require.True(t, did)
	did, err = b.s.ExpandTask(ctx, run.ID, "a", payloads)
	require.NoError(t, err)
	require.False(t, did, "another scheduler was first")
	did, err = b.s.ExpandTask(ctx, run.ID, "empty", nil)
	require.NoError(t, err)
	require.True(t, did)
	list, err := b.s.Instances(ctx, dag.InstanceFilter{DagID: "d", RunID: "r", TaskID: "a", Limit: -1})
	require.NoError(t, err)
	require.Len(t, list, len(payloads))
	for i, ti := range list {
		require.Equal(t, i, ti.MapIndex)
		require.JSONEq(t, string(payloads[i]), string(ti.Payload))
	}
	require.Equal(t, dag.StateSkipped, b.states(run)["empty"])
	require.Equal(t, 16, b.pass().Queued, "max_active_tasks of the run")
	c := b.claim(1)[0]
	require.JSONEq(t, `{"x":0}`, string(c.Payload))
	b.sound()
}

func testFailExpansion(t *testing.T, b *bundle) {
	ctx := t.Context()
	d := oneDAG("d", "a")
	d.Tasks[0].Expand = &dag.Expand{Names: []string{"x"}, Args: map[string]dag.ExpandSource{"x": {XCom: "gone"}}}
	d.Tasks[0].Callbacks.OnFailure = []dag.Callback{{Name: "log"}}
	run := b.trigger(d, "r")
	b.pass()
	taskErr := &dag.TaskError{Class: dag.ClassPermanent, Code: "EXPAND", Message: "no list"}
	seal := func(ti dag.TaskInstance) (dag.DeadLetter, []dag.Event) {
		return dag.Seal(dag.SealInput{TI: ti, Run: run, Err: taskErr, Attempts: ti.TryNumber, At: b.clock.Now()}),
			dag.TaskEvents(d, &d.Tasks[0], ti, run, dag.EventFailure, taskErr, nil, "", b.clock.Now())
	}
	require.NoError(t, b.s.FailExpansion(ctx, run.ID, "a", seal))
	require.NoError(t, b.s.FailExpansion(ctx, run.ID, "a", seal), "again: nothing is there any more")
	require.Equal(t, dag.StateFailed, b.states(run)["a"])
	letters, err := b.s.Letters(ctx, dag.LetterFilter{})
	require.NoError(t, err)
	require.Len(t, letters, 1)
	require.Equal(t, 1, letters[0].AttemptCount)
	require.Equal(t, 1, b.count("SELECT COUNT(*) FROM callback_event"))
	b.pass()
	require.Equal(t, dag.RunFailed, b.run(run).State)

	// Cleared, it fails again: that is a second failure, and is told of again.
	_, err = b.s.Clear(ctx, dag.ClearRequest{DagID: "d", RunID: "r", Actor: "test"})
	require.NoError(t, err)
	b.pass()
	require.NoError(t, b.s.FailExpansion(ctx, run.ID, "a", seal))
	require.Equal(t, 2, b.count("SELECT COUNT(*) FROM callback_event"))
	require.Equal(t, 2, b.count("SELECT attempt_count FROM dead_letter WHERE status = 'sealed'"))
	b.sound()
}
