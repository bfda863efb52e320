package dag

import (
	"encoding/json"
	"time"
)

// CircuitEvents are the alerts of one step of a breaker: one for each receiver
// when it opened or closed, else none. A breaker that opens anew from half open
// is still in the same opening and alerts nobody again. Making them again for
// the same step gives the same DedupKeys.
func CircuitEvents(before, after Circuit, at time.Time) []Event {
	var kind EventKind
	alert := after.Policy.Alert
	switch {
	case before.State == CircuitClosed && after.State != CircuitClosed:
		kind = EventCircuitOpen
	case before.State != CircuitClosed && after.State == CircuitClosed:
		kind = EventCircuitClose
		if len(before.Policy.Alert) > 0 {
			alert = before.Policy.Alert
		}
	default:
		return nil
	}
	c := EventContext{
		Event: kind, MapIndex: -1, State: string(after.State), Reason: after.Reason, Circuit: after.Name, Opening: after.Openings,
		AlertKey: CircuitAlertKey(after.Name), At: at,
	}
	// The run's place in the row keeps the events of one circuit in order.
	key := TaskInstanceKey{RunID: "circuit/" + CutText(after.Name, 200), MapIndex: -1}
	var out []Event
	for i, receiver := range alert {
		parts, err := json.Marshal([]any{"circuit", after.Name, after.Openings, kind, i})
		if err != nil { // cannot happen: texts and numbers
			parts = []byte(after.Name)
		}
		c.DedupKey = hashHex(parts)
		body, err := encodeExact(c)
		if err != nil {
			body, _ = encodeExact(map[string]any{"event": kind, "dedup_key": c.DedupKey, "circuit": after.Name})
		}
		out = append(out, Event{DedupKey: c.DedupKey, TaskInstanceKey: key, Kind: kind, Callback: receiver, Context: body, CreatedAt: at})
	}
	return out
}

// CircuitAlertKey names the incident of a breaker: the same for its opening and
// its closing, and for each opening, so that a pager that still has the last
// one open goes on with it.
func CircuitAlertKey(name string) string { return "airlock/circuit/" + name }
