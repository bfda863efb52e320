package load

import (
	"regexp"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// Defaults of the crash and throttling budgets.
const (
	defaultMaxCrashes      = 3
	defaultMaxThrottleTime = time.Hour
)

// readRetry merges the retry fields: what the task or its groups write beats
// the queue's policy, the policy beats what the DAG and its defaults write, and
// those beat Airflow's defaults.
func (b *builder) readRetry(t *taskDraft) {
	policy, has := b.policies[t.task.Queue]
	if !has && t.task.Queue != dag.DefaultQueue {
		n, p := t.val("queue")
		b.rep.warn(n, p, codeQueuePolicy, "the queue "+quote(t.task.Queue)+" has no policy: its tasks retry as retries and retry_delay say",
			b.policyHint(t.task.Queue))
	}
	r := dag.RetryPolicy{
		Retries: b.opts.Retries, Delay: b.opts.RetryDelay,
		MaxCrashes: defaultMaxCrashes, MaxThrottleTime: defaultMaxThrottleTime,
	}
	ownDelay := false
	for _, key := range []string{"retry_delay", "retry_exponential_backoff", "max_retry_delay"} {
		n, _, lv := t.find(key)
		ownDelay = ownDelay || lv == own && !n.null()
	}
	ownRetries := b.readRetries(t, &r, policy, has)
	b.readDelays(t, &r)
	if has && !ownDelay {
		class := policy.class
		r.Class = &class
		r.ByCode = policy.forTask(r.Retries, ownRetries)
	}
	b.readBudgets(t, &r, policy, has)
	t.task.Retry = r
	t.task.RetryOn = b.readRules(t, "retry_on")
	t.task.FailOn = b.readRules(t, "fail_on")
}

func (b *builder) policyHint(queue string) string {
	var names []string
	for name := range b.policies {
		names = append(names, name)
	}
	if c := dag.Nearest(queue, names); c != "" {
		return "did you mean the queue " + c + "?"
	}
	return "add it to policies.yml, or set the queue's policy under policies: of default:"
}

// forTask gives the policies by error code; one that does not set max_retries
// itself keeps the task's own number.
func (q queuePolicy) forTask(retries int, ownRetries bool) map[string]dag.ClassPolicy {
	if len(q.byCode) == 0 {
		return nil
	}
	out := make(map[string]dag.ClassPolicy, len(q.byCode))
	for code, c := range q.byCode {
		if ownRetries && !q.ownRetries[code] {
			c.MaxRetries = retries
		}
		out[code] = c
	}
	return out
}

// readRetries settles the failures budget and tells whether the task sets it.
func (b *builder) readRetries(t *taskDraft, r *dag.RetryPolicy, policy queuePolicy, has bool) bool {
	n, p, lv := t.find("retries")
	if has && lv != own {
		r.Retries = policy.class.MaxRetries
		return false
	}
	if lv == absent {
		return false
	}
	if n.null() {
		r.Retries = 0
		return lv == own
	}
	if v, ok := b.rep.integer(n, p, 0); ok {
		r.Retries = v
	}
	return lv == own
}

func (b *builder) readDelays(t *taskDraft, r *dag.RetryPolicy) {
	if n, p := t.val("retry_delay"); n != nil {
		if d, ok := b.rep.duration(n, p); ok {
			r.Delay = d
		}
	}
	if n, p := t.val("max_retry_delay"); n != nil {
		r.MaxDelay, _ = b.rep.duration(n, p)
	}
	n, p := t.val("retry_exponential_backoff")
	if n == nil {
		return
	}
	if n.kind == scalarNode && n.plain {
		if v, ok := realNumber(n.text); ok {
			if v < 0 || v > 1000 {
				b.rep.err(n, p, codeBadValue, n.text+" is not allowed: 0 turns it off, and a factor is at most 1000", "")
				return
			}
			r.Exponential = v
			return
		}
	}
	if on, ok := b.rep.boolean(n, p); ok && on {
		r.Exponential = 2
	}
}

// readBudgets reads the crash and throttling budgets.
func (b *builder) readBudgets(t *taskDraft, r *dag.RetryPolicy, policy queuePolicy, has bool) {
	crashes, cp, crashLevel := t.find("max_crashes")
	throttle, tp, throttleLevel := t.find("max_throttle_time")
	if has && policy.maxCrashes != nil && crashLevel != own {
		r.MaxCrashes = *policy.maxCrashes
	} else if !crashes.null() {
		if v, ok := b.rep.integer(crashes, cp, 0); ok {
			r.MaxCrashes = v
		}
	}
	if has && policy.throttle != nil && throttleLevel != own {
		r.MaxThrottleTime = *policy.throttle
	} else if !throttle.null() {
		if d, ok := b.rep.duration(throttle, tp); ok {
			r.MaxThrottleTime = d
		}
	}
}

// readRules reads retry_on or fail_on: a list of rules, or one.
func (b *builder) readRules(t *taskDraft, key string) []dag.ErrorRule {
	n, path := t.val(key)
	if n == nil {
		return nil
	}
	if n.kind == mapNode {
		rule, ok := b.readRule(n, path)
		if !ok {
			return nil
		}
		return []dag.ErrorRule{rule}
	}
	if n.kind != listNode {
		b.rep.err(n, path, codeWrongType, key+" must be a list of rules, not "+describe(n), "as in [{exit_code: [1, 2]}, {stderr: \"(?i)reset\"}]")
		return nil
	}
	var out []dag.ErrorRule
	for i, item := range n.items {
		if rule, ok := b.readRule(item, index(path, i)); ok {
			out = append(out, rule)
		}
	}
	return out
}

func (b *builder) readRule(n *node, path string) (dag.ErrorRule, bool) {
	var r dag.ErrorRule
	if n.kind != mapNode {
		b.rep.err(n, path, codeWrongType, "a rule must be a mapping, not "+describe(n), "as in {exit_code: 3, error_code: BAD_CONFIG}")
		return r, false
	}
	keys := keyTable{}
	keys.add(used, "", "exit_code code stderr error_code")
	b.rep.checkKeys(n, path, "a rule", keys, nil, nil)
	ok := true
	if v := n.get("exit_code"); !v.null() {
		items := []*node{v}
		if v.kind == listNode {
			items = v.items
		}
		for i, item := range items {
			p := join(path, "exit_code")
			if v.kind == listNode {
				p = index(p, i)
			}
			c, good := b.rep.integer(item, p, 0)
			if good && c > 255 {
				b.rep.err(item, p, codeBadValue, "an exit code is at most 255", "")
				good = false
			}
			ok = ok && good
			r.ExitCodes = append(r.ExitCodes, c)
		}
	}
	if v := n.get("code"); !v.null() {
		var good bool
		r.Codes, good = b.rep.texts(v, join(path, "code"))
		ok = ok && good
	}
	if v := n.get("stderr"); !v.null() {
		text, good := b.rep.text(v, join(path, "stderr"))
		if good {
			if _, err := regexp.Compile(text); err != nil {
				b.rep.err(v, join(path, "stderr"), codeBadValue, "not a regular expression: "+err.Error(), "Go's syntax is used: https://pkg.go.dev/regexp/syntax")
				good = false
			}
		}
		r.Stderr, ok = text, ok && good
	}
	if v := n.get("error_code"); !v.null() {
		var good bool
		r.ErrorCode, good = b.rep.text(v, join(path, "error_code"))
		ok = ok && good
	}
	if ok && len(r.ExitCodes) == 0 && len(r.Codes) == 0 && r.Stderr == "" {
		b.rep.err(n, path, codeMissingKey, "the rule matches nothing", "give exit_code, code or stderr")
		ok = false
	}
	return r, ok
}
