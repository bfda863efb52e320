package callbacks

import (
	"strconv"

	"github.com/airlock-dag/airlock/dag"
)

// Headline is what happened in one line, for a message whose text the receiver
// does not give.
func Headline(c dag.EventContext) string {
	if c.Circuit != "" {
		what := " is closed again"
		if c.Event == dag.EventCircuitOpen {
			what = " is open"
		}
		return withCause("circuit "+c.Circuit+what, c.Reason)
	}
	if c.TaskID == "" {
		return withCause("run "+c.RunID+" of "+c.DagID+": "+c.State, c.Reason)
	}
	name := c.DagID + "." + c.TaskID
	if c.MapIndex >= 0 {
		name += "[" + strconv.Itoa(c.MapIndex) + "]"
	}
	if c.State == "resolved" { // the incident of a failure, whichever run it was
		return withCause(name+": resolved", c.Reason)
	}
	return withCause(name+" in "+c.RunID+": "+c.State, c.Exception)
}

func withCause(s, cause string) string {
	if cause == "" {
		return s
	}
	return s + ": " + cause
}

// Good tells whether an event is about something that went well or is over.
func Good(k dag.EventKind) bool {
	return k == dag.EventSuccess || k == dag.EventCircuitClose
}

// List is a list of texts: a list, or one text with commas.
func (a Args) List(key string) ([]string, error) {
	switch v := a[key].(type) {
	case nil:
		return nil, nil
	case string:
		return splitList(v), nil
	case []any:
		var out []string
		for _, item := range v {
			s, ok := item.(string)
			if !ok {
				return nil, badType(key, item, "a list of texts")
			}
			out = append(out, splitList(s)...)
		}
		return out, nil
	default:
		return nil, badType(key, v, "a text or a list of texts")
	}
}
