package dag_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

func TestRunStateIsThatOfItsLeaves(t *testing.T) {
	t.Parallel()
	failHard := func(t *dag.Task) { t.FailDagrunOnFail = true }
	type states = map[string]dag.State
	cases := []struct {
		name   string
		tasks  []dag.Task
		states states
		state  dag.RunState
		reason string
	}{
		{"no tasks", nil, nil, dag.RunSuccess, "success"},
		{"leaf failed", []dag.Task{task("a")}, states{"a": dag.StateFailed}, dag.RunFailed, "task_failure"},
		{"leaf skipped", []dag.Task{task("a")}, states{"a": dag.StateSkipped}, dag.RunSuccess, "success"},
		{"leaf upstream_failed", []dag.Task{task("a"), task("b", after("a"))},
			states{"a": dag.StateFailed, "b": dag.StateUpstreamFailed}, dag.RunFailed, "task_failure"},
		{"one of two leaves failed", []dag.Task{task("a"), task("b")},
			states{"a": dag.StateFailed, "b": dag.StateSuccess}, dag.RunFailed, "task_failure"},
		{"leaf removed", []dag.Task{task("a")}, states{"a": dag.StateRemoved}, dag.RunSuccess, "success"},
		{"clean-up hides the failure", []dag.Task{
			task("prepare"), task("transcode", after("prepare")), task("publish", after("transcode")),
			task("cleanup", after("publish"), rule(dag.AllDone)),
		}, states{
			"prepare": dag.StateSuccess, "transcode": dag.StateFailed, "publish": dag.StateUpstreamFailed, "cleanup": dag.StateSuccess,
		}, dag.RunSuccess, "success"},
		{"a failed teardown is forgiven", []dag.Task{task("a"), task("td", after("a"), teardown)},
			states{"a": dag.StateSuccess, "td": dag.StateFailed}, dag.RunSuccess, "success"},
		{"but not with on_failure_fail_dagrun", []dag.Task{task("a"), task("td", after("a"), teardown, failHard)},
			states{"a": dag.StateSuccess, "td": dag.StateFailed}, dag.RunFailed, "task_failure"},
		{"work above a teardown decides", []dag.Task{task("a"), task("td", after("a"), teardown)},
			states{"a": dag.StateFailed, "td": dag.StateSuccess}, dag.RunFailed, "task_failure"},
		{"only teardowns", []dag.Task{task("t1", teardown), task("t2", teardown, after("t1"))},
			states{"t1": dag.StateSuccess, "t2": dag.StateFailed}, dag.RunFailed, "task_failure"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := newWorld(dagOf(c.tasks...)).set(c.states).step(t)
			require.Empty(t, d.Transitions)
			require.Equal(t, c.state, d.State)
			require.Equal(t, c.reason, d.Reason)
			require.True(t, d.NextAt.IsZero())
		})
	}
}

// TestCleanupLeafFromTheStart drives the run whose clean-up succeeds after the
// work failed, step by step.
func TestCleanupLeafFromTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(dagOf(
		task("prepare"), task("transcode", after("prepare")), task("publish", after("transcode")),
		task("cleanup", after("publish"), rule(dag.AllDone)),
	))
	require.Equal(t, []string{"prepare scheduled"}, changes(w.step(t)))
	w.set(map[string]dag.State{"prepare": dag.StateSuccess})
	require.Equal(t, []string{"transcode scheduled"}, changes(w.step(t)))
	w.set(map[string]dag.State{"transcode": dag.StateFailed})
	require.Equal(t, []string{"cleanup scheduled", "publish upstream_failed"}, changes(w.step(t)))
	w.set(map[string]dag.State{"cleanup": dag.StateSuccess})
	require.Equal(t, dag.RunSuccess, w.step(t).State)
	require.Equal(t, dag.StateFailed, w.ti("transcode", -1).State, "and the failure is still there to be counted")
}

func TestRunEndsWithItsEvents(t *testing.T) {
	t.Parallel()
	d := dagOf(task("a"))
	d.Callbacks = dag.Callbacks{
		OnSuccess: []dag.Callback{{Name: "log"}},
		OnFailure: []dag.Callback{{Name: "webhook", Args: map[string]any{"url": "http://x"}}, {Name: "log"}},
	}
	w := newWorld(d).set(map[string]dag.State{"a": dag.StateFailed})
	got := w.step(t)
	require.Len(t, got.Events, 2)
	e := got.Events[0]
	require.Equal(t, dag.EventFailure, e.Kind)
	require.Equal(t, "webhook", e.Callback.Name)
	require.Equal(t, dag.TaskInstanceKey{DagID: "d", RunID: "scheduled__1", MapIndex: -1}, e.TaskInstanceKey)
	require.Equal(t, noon, e.CreatedAt)
	var c dag.EventContext
	require.NoError(t, json.Unmarshal(e.Context, &c))
	require.Equal(t, "failed", c.State)
	require.Equal(t, "task_failure", c.Reason)
	require.Equal(t, e.DedupKey, c.DedupKey)
	require.NotEqual(t, e.DedupKey, got.Events[1].DedupKey)

	require.Empty(t, w.step(t).Events, "a run that has ended says nothing more")
	require.Equal(t, "task_failure", w.decide().Reason)

	// Cleared and failed again: another event.
	w.snap.Run.State, w.snap.Run.ClearNumber = dag.RunRunning, 1
	again := w.step(t)
	require.NotEqual(t, e.DedupKey, again.Events[0].DedupKey)

	w = newWorld(d).set(map[string]dag.State{"a": dag.StateSuccess})
	got = w.step(t)
	require.Len(t, got.Events, 1)
	require.Equal(t, dag.EventSuccess, got.Events[0].Kind)
}

func TestQueuedRunIsLookedAtAsRunning(t *testing.T) {
	t.Parallel()
	w := newWorld(dagOf(task("a")))
	w.snap.Run.State = dag.RunQueued
	d := w.step(t)
	require.Equal(t, dag.RunRunning, d.State)
	require.Equal(t, []string{"a scheduled"}, changes(d))
}

func TestRunTimeout(t *testing.T) {
	t.Parallel()
	d := dagOf(task("done"), task("failed"), task("none"), task("sched"), task("queued"), task("runs"),
		task("retry"), task("poke"), task("restarting"))
	d.DagrunTimeout = time.Hour
	d.Callbacks.OnFailure = []dag.Callback{{Name: "log"}}
	states := map[string]dag.State{
		"done": dag.StateSuccess, "failed": dag.StateFailed, "sched": dag.StateScheduled, "queued": dag.StateQueued,
		"runs": dag.StateRunning, "retry": dag.StateUpForRetry, "poke": dag.StateUpForReschedule, "restarting": dag.StateRestarting,
	}
	started := func(ago time.Duration) *world {
		w := newWorld(d).set(states)
		s := noon.Add(-ago)
		w.snap.Run.StartDate = &s
		return w
	}
	w := started(time.Hour)
	got := w.step(t)
	require.Equal(t, []string{
		"none skipped", "poke skipped", "queued skipped", "restarting skipped", "retry skipped", "runs skipped", "sched skipped",
	}, changes(got))
	require.Equal(t, dag.RunFailed, got.State)
	require.Equal(t, "timed_out", got.Reason)
	require.Len(t, got.Events, 1)
	require.True(t, got.NextAt.IsZero())

	w = started(time.Hour - time.Second)
	later := noon.Add(time.Minute)
	w.ti("retry", -1).NextTryAt, w.ti("poke", -1).NextTryAt = &later, &later
	got = w.step(t)
	require.Equal(t, dag.RunRunning, got.State)
	require.Equal(t, noon.Add(time.Second), got.NextAt, "looked at when the limit passes")

	w = started(time.Hour)
	w.snap.Run.StartDate = nil
	require.Equal(t, dag.RunRunning, w.step(t).State, "a run that has not started has no limit yet")
}

func TestLateLookAtAFinishedRunIsNoTimeout(t *testing.T) {
	t.Parallel()
	d := dagOf(task("a"))
	d.DagrunTimeout = time.Second
	got := newWorld(d).set(map[string]dag.State{"a": dag.StateSuccess}).step(t)
	require.Equal(t, dag.RunSuccess, got.State)
}

func TestDeadlock(t *testing.T) {
	t.Parallel()
	w := newWorld(dagOf(task("a"), task("b", after("a")), task("c")))
	w.snap.Instances = w.snap.Instances[1:] // a's instance is gone: b waits for ever
	w.set(map[string]dag.State{"c": dag.StateRunning})
	require.Equal(t, dag.RunRunning, w.step(t).State, "c still moves")
	w.set(map[string]dag.State{"c": dag.StateSuccess})
	d := w.step(t)
	require.Equal(t, dag.RunFailed, d.State)
	require.Equal(t, "all_tasks_deadlocked", d.Reason)

	w = newWorld(dagOf(task("a", after("b")), task("b", after("a"))))
	require.Equal(t, "all_tasks_deadlocked", w.step(t).Reason, "a cycle ends too")
}

func TestFailFast(t *testing.T) {
	t.Parallel()
	d := dagOf(
		task("s", setup),
		task("bad", after("s")),
		task("below", after("bad")),
		task("ready", after("s")), task("queued", after("s")), task("runs", after("s")),
		task("retries", after("s")), task("waits", after("runs")),
		task("td", after("below", "s"), teardown),
	)
	d.FailFast = true
	w := newWorld(d).set(map[string]dag.State{
		"s": dag.StateSuccess, "bad": dag.StateFailed, "queued": dag.StateQueued, "runs": dag.StateRunning,
		"retries": dag.StateUpForRetry, "ready": dag.StateScheduled,
	})
	require.Equal(t, []string{
		"below upstream_failed", "queued skipped", "ready skipped", "retries skipped", "td scheduled", "waits skipped",
	}, changes(w.step(t)))
	w.set(map[string]dag.State{"runs": dag.StateSuccess, "td": dag.StateSuccess})
	require.Equal(t, dag.RunFailed, w.step(t).State)

	// A teardown that may fail stops nothing.
	d = dagOf(task("a"), task("td", after("a"), teardown), task("b"))
	d.FailFast = true
	w = newWorld(d).set(map[string]dag.State{"a": dag.StateSuccess, "td": dag.StateFailed})
	require.Equal(t, []string{"b scheduled"}, changes(w.step(t)))
}
