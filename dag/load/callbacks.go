package load

import (
	"slices"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/render"
)

// dagCallbacks reads the receivers of the DAG's own events.
func (b *builder) dagCallbacks() dag.Callbacks {
	find := func(key string) (*node, string) { return b.val(key) }
	return dag.Callbacks{
		OnSuccess: b.readCallbacks("on_success_callback", find, b.eventTemplate(nil)),
		OnFailure: b.readCallbacks("on_failure_callback", find, b.eventTemplate(nil)),
	}
}

// taskCallbacks reads the receivers of a task's events, its own or inherited.
func (b *builder) taskCallbacks(t *taskDraft) dag.Callbacks {
	try := b.eventTemplate(t)
	c := dag.Callbacks{
		OnExecute: b.readCallbacks("on_execute_callback", t.val, try),
		OnSuccess: b.readCallbacks("on_success_callback", t.val, try),
		OnFailure: b.readCallbacks("on_failure_callback", t.val, try),
		OnRetry:   b.readCallbacks("on_retry_callback", t.val, try),
		OnSkipped: b.readCallbacks("on_skipped_callback", t.val, try),
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

// eventTemplate tries the templates of a task's callbacks, or of the DAG's where
// t is nil. Most are inherited: each is tried once.
func (b *builder) eventTemplate(t *taskDraft) func(text string) (dag.Problem, bool) {
	return func(text string) (dag.Problem, bool) {
		if t == nil {
			return b.template(render.CheckEvent(text, b.d, nil, b.opts.CallbackNames), false)
		}
		if len(t.task.Params) > 0 {
			return b.template(render.CheckEvent(text, b.d, &t.task, b.opts.CallbackNames), t.group != nil)
		}
		err, known := b.tried[text]
		if !known {
			if b.tried == nil {
				b.tried = map[string]error{}
			}
			err = render.CheckEvent(text, b.d, &t.task, b.opts.CallbackNames)
			b.tried[text] = err
		}
		return b.template(err, t.group != nil)
	}
}

// readCallbacks reads one key in all its forms. try tries a template, nil for
// where nothing is known of what it will see.
func (b *builder) readCallbacks(key string, find func(string) (*node, string), try func(string) (dag.Problem, bool)) []dag.Callback {
	var out []dag.Callback
	if n, path := find(key); n != nil {
		if n.kind != listNode {
			out = b.appendCallback(out, n, path, try)
		} else {
			for i, item := range n.items {
				out = b.appendCallback(out, item, index(path, i), try)
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
func (b *builder) appendCallback(out []dag.Callback, n *node, path string, try func(string) (dag.Problem, bool)) []dag.Callback {
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
	args, ok := b.callbackArgs(short, n, path)
	if !ok {
		return out
	}
	if try != nil {
		eachText(args, path, func(p, text string) {
			if problem, bad := try(text); bad {
				b.addAt(problem, n, path, p)
			}
		})
	}
	cb := dag.Callback{Name: short}
	if len(args) > 0 {
		cb.Args = args
	}
	return append(out, cb)
}

// callbackArgs reads a receiver's arguments. A mistake in one would otherwise
// show when somebody is to be told.
func (b *builder) callbackArgs(short string, n *node, path string) (map[string]any, bool) {
	spec, described := b.opts.CallbackSpecs[short]
	args, ok := map[string]any{}, true
	if n.kind == mapNode {
		for _, f := range n.without("callback").fields {
			p := join(path, f.name)
			field := specFieldOf(&spec, f.name)
			var v any
			var good bool
			switch {
			case !described, field != nil && field.Type == dag.FieldAny:
				v, good = b.rep.any(f.val, p)
			case field == nil && slices.Contains(spec.Ignored, f.name):
				b.rep.warn(f.key, p, codeIgnoredKey, "Airlock does not act on "+f.name+" of the callback "+short, "")
				continue
			case field == nil:
				b.rep.err(f.key, p, codeUnknownKey, quote(f.name)+" is not an argument of the callback "+short, b.rep.didYouMean(f.name, fieldNames(spec.Fields)))
			case f.val.null():
				continue
			default:
				v, good = b.rep.arg(f.val, p, field, true)
				if field.Type == dag.FieldDuration && good && v == 0.0 {
					b.rep.err(f.val, p, codeBadDuration, f.name+" must be above 0", "")
					good = false
				}
			}
			ok = ok && good
			args[f.name] = v
		}
	}
	for i := range spec.Fields {
		if f := &spec.Fields[i]; f.Required && ok && (args[f.Name] == nil || args[f.Name] == "") {
			b.rep.err(n, path, codeMissingKey, f.Name+" is missing: the callback "+short+" needs it", "")
			ok = false
		}
	}
	if ok && spec.Validate != nil {
		for _, problem := range spec.Validate(args) {
			ok = false
			b.addAt(problem, n, path, join(path, problem.Path))
		}
	}
	return args, ok
}

// addAt reports a problem of a receiver at the argument that a path leads into.
func (b *builder) addAt(p dag.Problem, n *node, path, at string) {
	name, _, _ := strings.Cut(strings.TrimPrefix(at, path+"."), ".")
	name, _, _ = strings.Cut(name, "[")
	if arg := n.get(name); arg != nil {
		n = arg
	}
	p.File, p.Line, p.Column, p.Path = n.file, n.line, n.col, at
	b.rep.add(p)
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
