package load

import (
	"slices"
	"strings"

	"github.com/airlock-dag/airlock/dag"
)

// readArgs reads the operator's own keys: those on the task, and of the
// inherited default_args those that the operator has.
func (b *builder) readArgs(t *taskDraft) {
	t.task.Args = map[string]any{}
	if t.spec == nil {
		b.readRawArgs(t)
		return
	}
	for i := range t.spec.Fields {
		f := &t.spec.Fields[i]
		n, p, _ := t.find(f.Name)
		if n.null() {
			if n != nil && f.Type == dag.FieldAny && !f.Required {
				t.task.Args[f.Name] = nil // null means something of its own there
			}
			continue
		}
		if v, ok := b.rep.arg(n, p, f, f.Templated); ok {
			t.task.Args[f.Name] = v
		} else {
			t.badArgs = true
		}
	}
	b.variablesAsArguments(t)
}

// readRawArgs keeps the keys of an operator that is not known.
func (b *builder) readRawArgs(t *taskDraft) {
	if t.task.Operator == "" {
		return
	}
	for _, f := range t.body.fields {
		if b.l.keys.task[f.name].kind == noKey && !f.val.null() {
			if v, ok := b.rep.any(f.val, t.sub(f.name)); ok {
				t.task.Args[f.name] = v
			}
		}
	}
}

// arg reads one value as its field says. A text with a template may stand for
// any type: what it becomes is known only when the task runs.
func (r *report) arg(n *node, path string, f *dag.Field, template bool) (any, bool) {
	if n.kind == scalarNode && templated(n.text) {
		if template || f.Type == dag.FieldString || f.Type == dag.FieldAny || f.Type == dag.FieldStringList {
			return n.text, true
		}
		r.err(n, path, codeWrongType, f.Name+" takes no template", "")
		return nil, false
	}
	if len(f.Enum) > 0 && n.kind == scalarNode && f.Type == dag.FieldString {
		return r.oneOf(n, path, f.Enum)
	}
	switch f.Type {
	case dag.FieldString:
		return r.text(n, path)
	case dag.FieldInt:
		return r.intArg(n, path)
	case dag.FieldFloat:
		return r.number(n, path)
	case dag.FieldBool:
		return r.boolean(n, path)
	case dag.FieldDuration:
		d, ok := r.duration(n, path)
		return d.Seconds(), ok
	case dag.FieldStringList:
		return r.listArg(n, path, f)
	case dag.FieldMap:
		return r.mapArg(n, path, f, template)
	default:
		if f.Ordered && n.kind == mapNode {
			return r.pairs(n, path)
		}
		return r.any(n, path)
	}
}

// pairs reads a mapping whose order means something.
func (r *report) pairs(n *node, path string) (any, bool) {
	out := make([]any, 0, len(n.fields))
	all := true
	for _, item := range n.fields {
		v, ok := r.any(item.val, join(path, item.name))
		all = all && ok
		out = append(out, []any{item.name, v})
	}
	return out, all
}

// intArg reads a whole number of any size that JSON carries exactly.
func (r *report) intArg(n *node, path string) (any, bool) {
	v, ok := r.integer(n, path, -1<<31)
	return float64(v), ok
}

func (r *report) listArg(n *node, path string, f *dag.Field) (any, bool) {
	if n.kind == scalarNode {
		return r.text(n, path)
	}
	list, ok := r.texts(n, path)
	out := make([]any, len(list))
	for i, s := range list {
		if len(f.Enum) > 0 && !slices.Contains(f.Enum, s) && !templated(s) {
			r.err(n.items[i], index(path, i), codeBadValue, quote(s)+" is not one of "+strings.Join(f.Enum, ", "), "")
			ok = false
		}
		out[i] = s
	}
	return out, ok
}

func (r *report) mapArg(n *node, path string, f *dag.Field, template bool) (any, bool) {
	if n.kind != mapNode {
		r.err(n, path, codeWrongType, f.Name+" must be a mapping, not "+describe(n), "")
		return nil, false
	}
	if f.Fields == nil {
		return r.any(n, path)
	}
	out := map[string]any{}
	ok := true
	for _, item := range n.fields {
		p := join(path, item.name)
		var known *dag.Field
		for i := range f.Fields {
			if f.Fields[i].Name == item.name {
				known = &f.Fields[i]
			}
		}
		if known == nil {
			r.err(item.key, p, codeUnknownKey, quote(item.name)+" is not a key of "+f.Name, r.didYouMean(item.name, fieldNames(f.Fields)))
			ok = false
			continue
		}
		if item.val.null() {
			continue
		}
		v, good := r.arg(item.val, p, known, template || known.Templated)
		ok = ok && good
		out[item.name] = v
	}
	for i := range f.Fields {
		if f.Fields[i].Required && n.get(f.Fields[i].Name).null() {
			r.err(n, path, codeMissingKey, f.Fields[i].Name+" is missing", "")
			ok = false
		}
	}
	return out, ok
}

// variablesAsArguments turns the pairs of variable and key into templates: the
// variable's value when the task runs, else what the file writes.
func (b *builder) variablesAsArguments(t *taskDraft) {
	n, path := t.val("variables_as_arguments")
	if n == nil {
		return
	}
	if n.kind != listNode {
		b.rep.err(n, path, codeWrongType, "variables_as_arguments must be a list of {variable: ..., attribute: ...}, not "+describe(n), "")
		return
	}
	for i, item := range n.items {
		p := index(path, i)
		name, attr := item.get("variable"), item.get("attribute")
		if name.null() || attr.null() || name.kind != scalarNode || attr.kind != scalarNode || strings.ContainsAny(name.text, "'\\\n") {
			b.rep.err(item, p, codeWrongType, "each item needs a variable and an attribute", "as in {variable: my_variable, attribute: bash_command}")
			continue
		}
		f := specField(t.spec, attr.text)
		if f == nil || !f.Templated {
			b.rep.err(attr, join(p, "attribute"), codeBadValue, quote(attr.text)+" of "+t.spec.Name+" takes no variable: it has no templates", "")
			continue
		}
		value := "{{ var.value.get('" + name.text + "') }}"
		if text, ok := t.task.Args[attr.text].(string); ok {
			value = "{% if var.value.get('" + name.text + "', '') %}" + value + "{% else %}" + text + "{% endif %}"
		}
		t.task.Args[attr.text] = value
	}
}

// checkArgs checks what must be there, and asks the operator.
func (b *builder) checkArgs(t *taskDraft) {
	if t.spec == nil {
		return
	}
	if t.task.Expand != nil && t.task.Expand.Kwargs != nil {
		return // what the instances get is known only when they are made
	}
	args := map[string]any{}
	mapped := map[string]bool{}
	for k, v := range t.task.Args {
		args[k] = v
	}
	if t.task.Expand != nil {
		for name, src := range t.task.Expand.Args {
			mapped[name] = true
			args[name] = "{{ mapped }}"
			if len(src.Literal) > 0 {
				args[name] = src.Literal[0]
			}
		}
	}
	given := func(name string) bool {
		n, _ := t.val(name)
		_, there := args[name]
		// A value with a mistake in it is there all the same.
		return there || n != nil || t.body.get("expand").get(name) != nil || t.body.get("partial").get(name) != nil
	}
	for i := range t.spec.Fields {
		if f := &t.spec.Fields[i]; f.Required && !given(f.Name) {
			b.rep.err(t.key, t.path, codeMissingKey, f.Name+" is missing", t.spec.Name+" needs it")
		}
	}
	for _, group := range t.spec.OneOf {
		var found []string
		for _, name := range group {
			if given(name) {
				found = append(found, name)
			}
		}
		switch len(found) {
		case 1:
		case 0:
			b.rep.err(t.key, t.path, codeOneOf, "one of "+strings.Join(group, ", ")+" must be given", "")
		default:
			b.rep.err(t.at(found[1]), t.sub(found[1]), codeOneOf, "only one of "+strings.Join(group, ", ")+" can be given, found "+strings.Join(found, " and "), "")
		}
	}
	b.validate(t, args, mapped)
}

// validate asks the operator, and gives its answers their places.
func (b *builder) validate(t *taskDraft, args map[string]any, mapped map[string]bool) {
	var found []dag.Problem
	if t.spec.Validate != nil && !t.badArgs {
		found = t.spec.Validate(args)
	}
	at := b.placeFor(t)
	if t.spec.ValidateAt != nil {
		found = append(found, t.spec.ValidateAt(args, at)...)
	}
	found = append(found, b.templates(t, args, at)...)
	for _, p := range found {
		if p.File != "" { // it stands in a file beside this one
			b.rep.add(p)
			continue
		}
		first, _, _ := strings.Cut(p.Path, ".")
		first, _, _ = strings.Cut(first, "[")
		if mapped[first] {
			continue
		}
		if p.Severity == "" {
			p.Severity = dag.SeverityError
		}
		if p.Code == "" {
			p.Code = codeBadValue
		}
		n := t.placeOf(p.Path)
		p.File, p.Line, p.Column = n.file, n.line, n.col
		if p.Path == "" {
			p.Path = t.path
		} else {
			p.Path = t.sub(p.Path)
		}
		b.rep.add(p)
	}
}

// placeOf finds the node of a path below the task; the nearest one that is
// written when the path itself is not.
func (t *taskDraft) placeOf(path string) *node {
	if path == "" {
		return t.key
	}
	parts := strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' })
	if len(parts) == 0 {
		return t.key
	}
	n, _, _ := t.find(parts[0])
	if n == nil {
		n = t.body.get("partial").get(parts[0])
	}
	if n == nil {
		return t.key
	}
	for _, part := range parts[1:] {
		var next *node
		switch n.kind {
		case mapNode:
			next = n.get(part)
		case listNode:
			for i, item := range n.items {
				if count(i) == part {
					next = item
				}
			}
		}
		if next == nil {
			return n
		}
		n = next
	}
	return n
}
