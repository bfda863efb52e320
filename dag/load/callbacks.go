package load

import (
	"maps"
	"slices"
	"strings"

	"github.com/airlock-dag/airlock/dag"
)

// dagCallbacks reads the receivers of the DAG's own events.
func (b *builder) dagCallbacks() dag.Callbacks {
	find := func(key string) (*node, string) { return b.val(key) }
	return dag.Callbacks{
		OnSuccess: b.readCallbacks("on_success_callback", find),
		OnFailure: b.readCallbacks("on_failure_callback", find),
	}
}

// taskCallbacks reads the receivers of a task's events, its own or inherited.
func (b *builder) taskCallbacks(t *taskDraft) dag.Callbacks {
	c := dag.Callbacks{
		OnExecute: b.readCallbacks("on_execute_callback", t.val),
		OnSuccess: b.readCallbacks("on_success_callback", t.val),
		OnFailure: b.readCallbacks("on_failure_callback", t.val),
		OnRetry:   b.readCallbacks("on_retry_callback", t.val),
		OnSkipped: b.readCallbacks("on_skipped_callback", t.val),
	}
	b.addEmails(t, &c)
	return c
}

// addEmails turns Airflow's email keys into receivers: with an address, a
// failure and a retry are told unless email_on_failure or email_on_retry is
// false.
func (b *builder) addEmails(t *taskDraft, c *dag.Callbacks) {
	on := map[string]bool{"email_on_failure": true, "email_on_retry": true}
	for key := range on {
		if n, p := t.val(key); n != nil {
			if v, ok := b.rep.boolean(n, p); ok {
				on[key] = v
			}
		}
	}
	n, path := t.val("email")
	if n == nil {
		return
	}
	list, ok := b.rep.texts(n, path)
	if !ok {
		return
	}
	to := []any{}
	for _, text := range list {
		for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == ';' }) {
			if part = strings.TrimSpace(part); part != "" {
				to = append(to, part)
			}
		}
	}
	if len(to) == 0 {
		return
	}
	if b.opts.Callbacks != nil && !slices.Contains(b.opts.Callbacks, "email") {
		b.dropped(n, path, "an e-mail")
		return
	}
	receiver := dag.Callback{Name: "email", Args: map[string]any{"to": to}}
	if on["email_on_failure"] {
		c.OnFailure = append(c.OnFailure, receiver)
	}
	if on["email_on_retry"] {
		c.OnRetry = append(c.OnRetry, receiver)
	}
}

// readCallbacks reads one key in all its forms.
func (b *builder) readCallbacks(key string, find func(string) (*node, string)) []dag.Callback {
	var out []dag.Callback
	if n, path := find(key); n != nil {
		if n.kind != listNode {
			out = b.appendCallback(out, n, path)
		} else {
			for i, item := range n.items {
				out = b.appendCallback(out, item, index(path, i))
			}
		}
	}
	name, path := find(key + "_name")
	file, filePath := find(key + "_file")
	switch {
	case name != nil:
		b.dropped(name, path, "the Python function "+quote(name.text))
	case file != nil:
		b.dropped(file, filePath, "the Python file "+quote(file.text))
	}
	return out
}

// appendCallback reads one receiver: a name, or a mapping with its arguments.
func (b *builder) appendCallback(out []dag.Callback, n *node, path string) []dag.Callback {
	name := n
	if n.kind == mapNode {
		if name = n.get("callback"); name.null() {
			if n.get("__type__") != nil {
				b.dropped(n, path, "an object of "+quote(n.get("__type__").text))
				return out
			}
			b.rep.err(n, path, codeMissingKey, "callback is missing", `as in {callback: webhook, url: "http://..."}`)
			return out
		}
	}
	if name.kind != scalarNode || name.null() {
		b.rep.err(n, path, codeWrongType, "a callback must be a name or a mapping with callback, not "+describe(n), `as in {callback: webhook, url: "http://..."}`)
		return out
	}
	short := b.callbackName(name, path)
	if short == "" {
		return out
	}
	cb := dag.Callback{Name: short}
	if n.kind == mapNode {
		args := map[string]any{}
		ok := true
		for _, f := range n.without("callback").fields {
			v, good := b.rep.any(f.val, join(path, f.name))
			ok = ok && good && b.checkCallbackArg(short, f, path)
			args[f.name] = v
		}
		if !ok {
			return out
		}
		if len(args) > 0 {
			cb.Args = args
		}
	}
	return append(out, cb)
}

// checkCallbackArg reports an argument that its notifier does not know, or cannot
// read: a mistake that would otherwise show when somebody is to be told.
func (b *builder) checkCallbackArg(short string, f field, path string) bool {
	known := b.opts.CallbackArgs[short]
	if known == nil {
		return true
	}
	path = join(path, f.name)
	kind, there := known[f.name]
	if !there {
		names := slices.Sorted(maps.Keys(known))
		b.rep.err(f.key, path, codeUnknownKey, quote(f.name)+" is not an argument of the callback "+short, b.rep.didYouMean(f.name, names))
		return false
	}
	switch {
	case f.val.null() || f.val.kind == scalarNode && templated(f.val.text):
		return true
	case kind == dag.FieldDuration:
		_, ok := b.rep.duration(f.val, path)
		return ok
	case kind == dag.FieldMap && f.val.kind != mapNode:
		b.rep.err(f.val, path, codeWrongType, f.name+" must be a mapping, not "+describe(f.val), "")
		return false
	case kind == dag.FieldString && f.val.kind != scalarNode:
		b.rep.err(f.val, path, codeWrongType, f.name+" must be a text, not "+describe(f.val), "")
		return false
	}
	return true
}

// callbackName finds the notifier that a text names; "" when there is none,
// which is reported.
func (b *builder) callbackName(n *node, path string) string {
	text := strings.TrimSpace(n.text)
	known := b.opts.Callbacks
	if !strings.Contains(text, ".") {
		if known == nil || slices.Contains(known, text) {
			return text
		}
		b.rep.err(n, path, codeUnknownCB, "there is no callback "+quote(text), b.rep.didYouMean(text, known))
		return ""
	}
	if like := likeNotifier(text); like != "" && (known == nil || slices.Contains(known, like)) {
		return like
	}
	b.dropped(n, path, "the Python callback "+quote(text))
	return ""
}

// likeNotifier gives the short name of the notifier that does what a class or
// function of Airflow does.
func likeNotifier(path string) string {
	switch class := className(path); {
	case !strings.HasPrefix(path, "airflow."):
		return ""
	case strings.Contains(path, ".slack.") && (strings.HasSuffix(class, "Notifier") || strings.HasPrefix(class, "send_")):
		return "slack"
	case strings.Contains(path, ".smtp.") && (strings.HasSuffix(class, "Notifier") || strings.HasPrefix(class, "send_")):
		return "email"
	case strings.Contains(path, ".pagerduty.") && (strings.HasSuffix(class, "Notifier") || strings.HasPrefix(class, "send_")):
		return "pagerduty"
	case strings.Contains(path, ".http.") && strings.HasSuffix(class, "Notifier"):
		return "webhook"
	default:
		return ""
	}
}

// dropped warns of a receiver that Airlock cannot call. Never silently: the
// author counts on being told.
func (b *builder) dropped(n *node, path, what string) {
	hint := "use callback: webhook or callback: command"
	if len(b.opts.Callbacks) > 0 {
		hint = "use one of: " + strings.Join(b.opts.Callbacks, ", ")
	}
	b.rep.warn(n, path, codeCallback, what+" is not called: Airlock runs no Python for callbacks", hint)
}
