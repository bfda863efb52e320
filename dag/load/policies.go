package load

import (
	"strconv"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

func lineNo(n *node) string { return strconv.Itoa(n.line) }

// queuePolicy is one entry of policies, read.
type queuePolicy struct {
	class      dag.ClassPolicy
	byCode     map[string]dag.ClassPolicy
	ownRetries map[string]bool // codes that set max_retries themselves
	maxCrashes *int
	throttle   *time.Duration
}

// defaultBackoffMax is the ceiling of a policy that sets none.
const defaultBackoffMax = 24 * time.Hour

// readPolicies reads a policies mapping.
func (b *builder) readPolicies(n *node, path string) map[string]queuePolicy {
	out := map[string]queuePolicy{}
	if n.null() {
		return out
	}
	if n.kind != mapNode {
		b.rep.err(n, path, codeWrongType, "policies must be a mapping of queues to their policy, not "+describe(n), "")
		return out
	}
	for _, f := range n.fields {
		p := join(path, f.name)
		if f.val.kind != mapNode {
			b.rep.err(f.val, p, codeWrongType, "a policy must be a mapping, not "+describe(f.val), "")
			continue
		}
		out[f.name] = b.readPolicy(f.val, p)
	}
	return out
}

func (b *builder) readPolicy(n *node, path string) queuePolicy {
	q := queuePolicy{class: dag.ClassPolicy{BackoffMax: defaultBackoffMax, Jitter: dag.JitterFull}}
	b.rep.checkKeys(n, path, "a policy", b.l.keys.policy, nil, nil)
	for _, key := range []string{"max_retries", "backoff_base"} {
		if n.get(key).null() {
			b.rep.err(n, path, codeMissingKey, key+" is missing", "as in {max_retries: 3, backoff_base: 10s, backoff_max: 600s, jitter: full}")
		}
	}
	b.readClass(n, path, &q.class)
	if v := n.get("max_crashes"); !v.null() {
		if c, ok := b.rep.integer(v, join(path, "max_crashes"), 0); ok {
			q.maxCrashes = &c
		}
	}
	if v := n.get("max_throttle_time"); !v.null() {
		if d, ok := b.rep.duration(v, join(path, "max_throttle_time")); ok {
			q.throttle = &d
		}
	}
	on := n.get("on")
	if on.null() {
		return q
	}
	if on.kind != mapNode {
		b.rep.err(on, join(path, "on"), codeWrongType, "on must be a mapping of error codes to policies, not "+describe(on), "")
		return q
	}
	q.byCode, q.ownRetries = map[string]dag.ClassPolicy{}, map[string]bool{}
	narrow := keyTable{}
	narrow.add(used, "", "max_retries backoff_base backoff_max min_delay jitter")
	for _, f := range on.fields {
		p := join(join(path, "on"), f.name)
		if f.val.kind != mapNode {
			b.rep.err(f.val, p, codeWrongType, "a policy must be a mapping, not "+describe(f.val), "")
			continue
		}
		b.rep.checkKeys(f.val, p, "a policy for one error code", narrow, nil, nil)
		c := q.class
		b.readClass(f.val, p, &c)
		q.byCode[f.name] = c
		q.ownRetries[f.name] = !f.val.get("max_retries").null()
	}
	return q
}

// readClass fills in what a mapping says of a class policy.
func (b *builder) readClass(n *node, path string, c *dag.ClassPolicy) {
	good := true
	if v := n.get("max_retries"); !v.null() {
		if x, ok := b.rep.integer(v, join(path, "max_retries"), 0); ok {
			c.MaxRetries = x
		}
	}
	for _, d := range []struct {
		key string
		to  *time.Duration
	}{{"backoff_base", &c.BackoffBase}, {"backoff_max", &c.BackoffMax}, {"min_delay", &c.MinDelay}} {
		if v := n.get(d.key); !v.null() {
			x, ok := b.rep.duration(v, join(path, d.key))
			*d.to, good = x, good && ok
		}
	}
	if v := n.get("jitter"); !v.null() {
		c.Jitter = b.readJitter(v, join(path, "jitter"))
	}
	switch {
	case !good || n.get("backoff_base").null() && c.BackoffBase == 0: // told already
	case c.BackoffBase == 0:
		b.rep.err(n.get("backoff_base"), join(path, "backoff_base"), codeBadPolicy, "backoff_base must be more than 0", "")
	case c.BackoffMax < c.BackoffBase:
		b.rep.err(n.keyOf("backoff_max"), join(path, "backoff_max"), codeBadPolicy,
			"backoff_max ("+c.BackoffMax.String()+") is less than backoff_base ("+c.BackoffBase.String()+")", "")
	case c.MinDelay > c.BackoffBase:
		b.rep.err(n.keyOf("min_delay"), join(path, "min_delay"), codeBadPolicy,
			"min_delay ("+c.MinDelay.String()+") is more than backoff_base ("+c.BackoffBase.String()+")", "")
	}
}

// readJitter reads full, equal, decorrelated or none; true is full and false
// is none.
func (b *builder) readJitter(n *node, path string) dag.Jitter {
	if n.kind == scalarNode && n.plain && (bool11.MatchString(n.text) || bool12.MatchString(n.text)) {
		if on, _ := b.rep.boolean(n, path); on {
			return dag.JitterFull
		}
		return dag.JitterNone
	}
	s, _ := b.rep.oneOf(n, path, []string{string(dag.JitterFull), string(dag.JitterEqual), string(dag.JitterDecorrelated), string(dag.JitterNone)})
	return dag.Jitter(s)
}
