package load

import (
	"time"
	"unicode/utf8"

	"github.com/airlock-dag/airlock/dag"
)

// maxCircuitName is how long a circuit's name may be, in characters.
const maxCircuitName = 200

// readCircuits reads a mapping of dependencies to the policies of their
// breakers; nil without any.
func (b *builder) readCircuits(n *node, path string) map[string]dag.CircuitPolicy {
	if n.null() {
		return nil
	}
	if n.kind != mapNode {
		b.rep.err(n, path, codeWrongType, "circuits must be a mapping of dependencies to their policy, not "+describe(n),
			"as in packager: {failure_rate: 0.5, minimum_calls: 10, window: 60s, open_for: 30s}")
		return nil
	}
	var out map[string]dag.CircuitPolicy
	for _, f := range n.fields {
		p := join(path, f.name)
		if f.name == "" || utf8.RuneCountInString(f.name) > maxCircuitName {
			b.rep.err(f.key, p, codeBadPolicy, "a circuit's name has 1 to 200 characters", "")
			continue
		}
		if out == nil {
			out = map[string]dag.CircuitPolicy{}
		}
		out[f.name] = b.readCircuit(f.val, p)
	}
	return out
}

// readCircuit reads one policy; what is left out has its default, also all of
// it.
func (b *builder) readCircuit(n *node, path string) dag.CircuitPolicy {
	c := dag.DefaultCircuitPolicy()
	if n.null() {
		return c
	}
	if n.kind != mapNode {
		b.rep.err(n, path, codeWrongType, "a circuit's policy must be a mapping, not "+describe(n), "as in {failure_rate: 0.5, open_for: 30s}")
		return c
	}
	b.rep.checkKeys(n, path, "a circuit's policy", b.l.keys.circuit, nil, nil)
	if v := n.get("failure_rate"); !v.null() {
		p := join(path, "failure_rate")
		if f, ok := b.rep.number(v, p); ok {
			if f <= 0 || f > 1 {
				b.rep.err(v, p, codeBadPolicy, "failure_rate is "+v.text+": it is a share above 0 and up to 1", "write 0.5 for half of the calls")
			}
			c.FailureRate = f
		}
	}
	for _, f := range []struct {
		key string
		to  *int
	}{{"minimum_calls", &c.MinimumCalls}, {"probes", &c.Probes}} {
		if v := n.get(f.key); !v.null() {
			if i, ok := b.rep.integer(v, join(path, f.key), 1); ok {
				*f.to = i
			}
		}
	}
	for _, f := range []struct {
		key string
		to  *time.Duration
	}{{"window", &c.Window}, {"open_for", &c.OpenFor}} {
		v := n.get(f.key)
		if v.null() {
			continue
		}
		if d, ok := b.rep.duration(v, join(path, f.key)); ok {
			if d < time.Second || d > 24*time.Hour {
				b.rep.err(v, join(path, f.key), codeBadPolicy, f.key+" is "+d.String()+": it lies between a second and a day", "")
			}
			*f.to = d
		}
	}
	if n.get("alert") != nil {
		c.Alert = b.readCallbacks("alert", func(key string) (*node, string) {
			v := n.get(key)
			if v.null() {
				return nil, ""
			}
			return v, join(path, key)
		}, nil)
	}
	return c
}

// checkCircuit warns of a task whose circuit has no policy: it may be misspelt,
// and then nothing guards it together with the others.
func (b *builder) checkCircuit(t *taskDraft) {
	name := t.task.Circuit
	if _, known := b.d.Circuits[name]; name == "" || known {
		return
	}
	n, p := t.val("circuit")
	if utf8.RuneCountInString(name) > maxCircuitName {
		b.rep.err(n, p, codeBadValue, "a circuit's name has 1 to 200 characters", "")
		return
	}
	names := make([]string, 0, len(b.d.Circuits))
	for known := range b.d.Circuits {
		names = append(names, known)
	}
	hint := "add it under circuits: in policies.yml"
	if near := dag.Nearest(name, names); near != "" {
		hint = "did you mean " + near + "?"
	}
	b.rep.warn(n, p, codeCircuit, "the circuit "+quote(name)+" has no policy: it opens when half of at least 10 calls in a minute fail", hint)
}
