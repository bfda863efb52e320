package dag_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

func eventParts() (*dag.DAG, *dag.Task, dag.TaskInstance, dag.Run) {
	d := dagOf(task("a"))
	d.Tasks[0].Callbacks = dag.Callbacks{
		OnFailure: []dag.Callback{{Name: "webhook", Args: map[string]any{"url": "{{ x }}"}}, {Name: "log"}},
		OnRetry:   []dag.Callback{{Name: "log"}}, OnSuccess: []dag.Callback{{Name: "log"}},
		OnSkipped: []dag.Callback{{Name: "log"}}, OnExecute: []dag.Callback{{Name: "log"}},
	}
	ti := dag.TaskInstance{
		TaskInstanceKey: dag.TaskInstanceKey{DagID: "d", RunID: "r", TaskID: "a", MapIndex: 2},
		State:           dag.StateRunning, TryNumber: 2, MaxTries: 3, Fence: 9,
	}
	return d, &d.Tasks[0], ti, dag.Run{ID: 4, DagID: "d", RunID: "r", LogicalDate: &noon}
}

func TestTaskEvents(t *testing.T) {
	t.Parallel()
	d, tk, ti, run := eventParts()
	next := noon.Add(time.Minute)
	e := &dag.TaskError{Class: dag.ClassTransient, Code: "HTTP_500", Message: "bad\n<day>", Hint: "wait"}
	events := dag.TaskEvents(d, tk, ti, run, dag.EventFailure, e, &next, "d/r/a/2.log", noon)
	require.Len(t, events, 2)
	require.Equal(t, tk.Callbacks.OnFailure[0], events[0].Callback)
	require.Equal(t, "log", events[1].Callback.Name)
	for _, ev := range events {
		require.Equal(t, ti.TaskInstanceKey, ev.TaskInstanceKey)
		require.Equal(t, 2, ev.TryNumber)
		require.Equal(t, noon, ev.CreatedAt)
		require.Len(t, ev.DedupKey, 64)
	}
	var c dag.EventContext
	require.NoError(t, json.Unmarshal(events[0].Context, &c))
	require.Equal(t, dag.EventContext{
		Event: dag.EventFailure, DedupKey: events[0].DedupKey, DagID: "d", RunID: "r", TaskID: "a", MapIndex: 2,
		TryNumber: 2, MaxTries: 3, State: "failed", LogicalDate: &noon,
		Exception: "HTTP_500: bad <day> (wait)", ErrorClass: dag.ClassTransient, ErrorCode: "HTTP_500",
		ErrorMessage: "bad\n<day>", NextTryAt: &next, LogPath: "d/r/a/2.log", At: noon,
		AlertKey: dag.Seal(dag.SealInput{TI: ti, Run: run, Err: e, At: noon}).Fingerprint,
	}, c)
	require.Contains(t, string(events[0].Context), "<day>", "not escaped for HTML")
}

func TestEventsKnowTheRunAndItsParams(t *testing.T) {
	t.Parallel()
	d, tk, ti, run := eventParts()
	d.Params = map[string]any{"a": "dag", "b": "dag", "c": "dag"}
	tk.Params = map[string]any{"b": "task", "c": "task"}
	start := noon.Add(-time.Hour)
	run.Type, run.DataIntervalStart, run.DataIntervalEnd = dag.RunManual, &start, &noon
	run.Conf = json.RawMessage(`{"c": 12345678901234567890, "api_token": "x"}`)
	var c dag.EventContext
	raw := dag.TaskEvents(d, tk, ti, run, dag.EventSuccess, nil, nil, "", noon)[0].Context
	require.NoError(t, json.Unmarshal(raw, &c))
	require.Equal(t, "dag", c.Params["a"])
	require.Equal(t, "task", c.Params["b"])
	require.Contains(t, string(raw), `"c":12345678901234567890`)
	require.Equal(t, "***", c.Params["api_token"])
	require.Equal(t, dag.RunManual, c.RunType)
	require.Equal(t, start, *c.DataIntervalStart)
	require.Equal(t, noon, *c.DataIntervalEnd)

	d.Callbacks.OnSuccess = []dag.Callback{{Name: "log"}}
	run.Conf = json.RawMessage(`[1]`) // no object: left alone
	raw = dag.RunEvents(d, run, dag.RunSuccess, "success", noon)[0].Context
	c = dag.EventContext{}
	require.NoError(t, json.Unmarshal(raw, &c))
	require.Equal(t, map[string]any{"a": "dag", "b": "dag", "c": "dag"}, c.Params)
}

func TestTaskEventStates(t *testing.T) {
	t.Parallel()
	d, tk, ti, run := eventParts()
	for kind, want := range map[dag.EventKind]string{
		dag.EventExecute: "running", dag.EventSuccess: "success", dag.EventFailure: "failed",
		dag.EventRetry: "up_for_retry", dag.EventSkipped: "skipped",
	} {
		events := dag.TaskEvents(d, tk, ti, run, kind, nil, nil, "", noon)
		require.NotEmpty(t, events, kind)
		var c dag.EventContext
		require.NoError(t, json.Unmarshal(events[0].Context, &c))
		require.Equal(t, want, c.State)
	}
	require.Empty(t, dag.TaskEvents(d, tk, ti, run, "on_no_such_thing", nil, nil, "", noon))
	require.Empty(t, dag.TaskEvents(d, nil, ti, run, dag.EventFailure, nil, nil, "", noon))
	require.Empty(t, dag.TaskEvents(nil, tk, ti, run, dag.EventFailure, nil, nil, "", noon))
	require.Empty(t, dag.RunEvents(nil, run, dag.RunFailed, "", noon))
}

func TestDedupKeysAreStableAndDiffer(t *testing.T) {
	t.Parallel()
	d, tk, ti, run := eventParts()
	key := func(change func(*dag.TaskInstance, *dag.Run)) string {
		ti, run := ti, run
		change(&ti, &run)
		return dag.TaskEvents(d, tk, ti, run, dag.EventFailure, nil, nil, "", noon)[0].DedupKey
	}
	same := key(func(*dag.TaskInstance, *dag.Run) {})
	later := dag.TaskEvents(d, tk, ti, run, dag.EventFailure, nil, nil, "elsewhere", noon.Add(time.Hour))
	require.Equal(t, same, later[0].DedupKey, "made again for the same attempt")

	seen := map[string]string{same: "the first"}
	for name, change := range map[string]func(*dag.TaskInstance, *dag.Run){
		"dag":   func(ti *dag.TaskInstance, _ *dag.Run) { ti.DagID = "d2" },
		"run":   func(ti *dag.TaskInstance, _ *dag.Run) { ti.RunID = "r2" },
		"task":  func(ti *dag.TaskInstance, _ *dag.Run) { ti.TaskID = "a2" },
		"index": func(ti *dag.TaskInstance, _ *dag.Run) { ti.MapIndex = 1 },
		"try":   func(ti *dag.TaskInstance, _ *dag.Run) { ti.TryNumber = 3 },
		"fence": func(ti *dag.TaskInstance, _ *dag.Run) { ti.Fence = 10 },
		"row":   func(_ *dag.TaskInstance, run *dag.Run) { run.ID = 5 },
		"moved": func(ti *dag.TaskInstance, _ *dag.Run) { ti.DagID, ti.RunID = "dr", "" },
	} {
		k := key(change)
		require.Empty(t, seen[k], "%s has the key of %s", name, seen[k])
		seen[k] = name
	}
	retry := dag.TaskEvents(d, tk, ti, run, dag.EventRetry, nil, nil, "", noon)[0].DedupKey
	require.NotContains(t, seen, retry)
	require.NotContains(t, seen, later[1].DedupKey)
}

func TestEventWithAnInstantThatJSONCannotWrite(t *testing.T) {
	t.Parallel()
	d, tk, ti, run := eventParts()
	events := dag.TaskEvents(d, tk, ti, run, dag.EventFailure, nil, nil, "", time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC))
	require.Len(t, events, 2)
	require.JSONEq(t, `{"event":"on_failure_callback","dedup_key":"`+events[0].DedupKey+`","dag_id":"d","run_id":"r","task_id":"a","map_index":2,"state":"failed"}`,
		string(events[0].Context))
}
