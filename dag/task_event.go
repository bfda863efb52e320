package dag

import (
	"encoding/json"
	"maps"
	"strings"
	"time"
)

// maxException is the longest one-line error of an event, in bytes.
const maxException = 1 << 10

// TaskEvents makes the callback events of one thing that happened to a task
// instance: one for each receiver that the task has for this kind. ti is the
// instance as the attempt held it, with its try number and fence; e is the
// error of a failure or retry, nextTry when the retry is due, and logPath the
// attempt's log. Making them again for the same attempt gives the same
// DedupKeys.
func TaskEvents(
	d *DAG, t *Task, ti TaskInstance, run Run, kind EventKind, e *TaskError, nextTry *time.Time, logPath string, at time.Time,
) []Event {
	if d == nil || t == nil || len(t.Callbacks.For(kind)) == 0 {
		return nil
	}
	c := EventContext{
		Event: kind, DagID: ti.DagID, RunID: ti.RunID, TaskID: ti.TaskID, MapIndex: ti.MapIndex,
		TryNumber: ti.TryNumber, MaxTries: ti.MaxTries, State: string(stateAfter(kind, ti.State)),
		NextTryAt: nextTry, LogPath: logPath, At: at,
	}
	c.ofRun(run, d.Params, t.Params)
	c.ofGroup(d, t, ti)
	if e != nil {
		c.Exception = CutText(strings.Join(strings.Fields(e.Error()), " "), maxException)
		c.ErrorClass, c.ErrorCode = e.Class, e.Code
		c.ErrorMessage = CutText(e.Message, MaxErrorMessage)
	}
	if kind == EventFailure && e != nil { // that of the letter
		class, code, message := sealedError(e, nil)
		c.AlertKey = Fingerprint(class, code, message, ti.DagID, ti.TaskID)
	}
	return events(t.Callbacks.For(kind), c, ti.TaskInstanceKey, run.ID, ti.Fence)
}

// RunEvents makes the DAG-level callback events of a run that ends in a state
// for a reason: one for each receiver.
func RunEvents(d *DAG, run Run, state RunState, reason string, at time.Time) []Event {
	if d == nil {
		return nil
	}
	kind := EventSuccess
	if state == RunFailed {
		kind = EventFailure
	}
	if len(d.Callbacks.For(kind)) == 0 {
		return nil
	}
	key := TaskInstanceKey{DagID: run.DagID, RunID: run.RunID, MapIndex: -1}
	c := EventContext{
		Event: kind, DagID: run.DagID, RunID: run.RunID, MapIndex: -1, State: string(state), Reason: reason, At: at,
		AlertKey: "airlock/dag/" + run.DagID, // a success after failures is the end of their incident
	}
	c.ofRun(run, d.Params)
	return events(d.Callbacks.For(kind), c, key, run.ID, int64(run.ClearNumber))
}

// ofRun fills in what the run says. The params come weakest first; the run's
// conf, when it is an object, lies over them.
func (c *EventContext) ofRun(run Run, params ...map[string]any) {
	c.LogicalDate, c.RunType = run.LogicalDate, run.Type
	c.DataIntervalStart, c.DataIntervalEnd = run.DataIntervalStart, run.DataIntervalEnd
	merged := map[string]any{}
	for _, p := range params {
		maps.Copy(merged, p)
	}
	if conf, err := decodeExact(run.Conf); err == nil {
		if m, ok := conf.(map[string]any); ok {
			maps.Copy(merged, m)
		}
	}
	if len(merged) > 0 {
		c.Params, _ = MaskValues(merged).(map[string]any)
	}
}

// ofGroup lays the values of a mapped group over the params.
func (c *EventContext) ofGroup(d *DAG, t *Task, ti TaskInstance) {
	if len(ti.Payload) == 0 || d.MappedGroup(t) == nil {
		return
	}
	values, err := decodeExact(ti.Payload)
	m, ok := values.(map[string]any)
	if err != nil || !ok {
		return
	}
	if m, ok = MaskValues(m).(map[string]any); !ok {
		return
	}
	if c.Params == nil {
		c.Params = map[string]any{}
	}
	maps.Copy(c.Params, m)
}

// stateAfter is the instance's state after an event of a kind: the events are
// made before the change is written.
func stateAfter(kind EventKind, present State) State {
	switch kind {
	case EventExecute:
		return StateRunning
	case EventSuccess:
		return StateSuccess
	case EventFailure:
		return StateFailed
	case EventRetry:
		return StateUpForRetry
	case EventSkipped:
		return StateSkipped
	default:
		return present
	}
}

// events makes one event for each receiver. turn tells apart what may happen
// again to one instance (the fence) or run (the clear number).
func events(receivers []Callback, c EventContext, key TaskInstanceKey, runID, turn int64) []Event {
	var out []Event
	for i, receiver := range receivers {
		c.DedupKey = dedupKey(key, runID, c.TryNumber, turn, c.Event, i)
		body, err := encodeExact(c)
		if err != nil { // an instant that JSON cannot write: keep who and what
			body, _ = encodeExact(map[string]any{
				"event": c.Event, "dedup_key": c.DedupKey, "dag_id": c.DagID, "run_id": c.RunID,
				"task_id": c.TaskID, "map_index": c.MapIndex, "state": c.State,
			})
		}
		out = append(out, Event{
			DedupKey: c.DedupKey, TaskInstanceKey: key, TryNumber: c.TryNumber, Kind: c.Event,
			Callback: receiver, Context: body, CreatedAt: c.At,
		})
	}
	return out
}

// dedupKey names an event: 64 hexadecimal digits. The parts stand in a JSON
// list, so that no two lists of parts look the same.
func dedupKey(key TaskInstanceKey, runID int64, try int, turn int64, kind EventKind, receiver int) string {
	parts, err := json.Marshal([]any{key.DagID, key.RunID, key.TaskID, key.MapIndex, runID, try, turn, kind, receiver})
	if err != nil { // cannot happen: texts and numbers
		parts = []byte(key.String())
	}
	return hashHex(parts)
}
