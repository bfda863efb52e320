package load

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/airlock-dag/airlock/dag"
)

const mapLengthHint = "the setting core.max_map_length allows more"

var (
	outputRef = regexp.MustCompile(`^([\p{L}\p{N}_.-]+)\.output(?:\[\s*['"]([^'"]+)['"]\s*\])?$`)
	xcomRef   = regexp.MustCompile(`^[Xx][Cc]om[Aa]rg\(\s*['"]?([\p{L}\p{N}_.-]+)['"]?\s*\)$`)
	plusRef   = regexp.MustCompile(`^\+([\p{L}\p{N}_.-]+)(?:\[\s*['"]([^'"]+)['"]\s*\])?$`)
)

const expandForms = `allowed: a list, a mapping, other_task.output, XcomArg(other_task), {xcom: other_task} or {glob: "dir/*.csv"}`

// expansion is what can be expanded: a task, or a group.
type expansion struct {
	body *node
	deps *[]dep
	sub  func(key string) string
	// what names the keys of expand, and example shows one.
	what, example string
	// alone is the hint for partial without expand.
	alone string
	// key checks a name that values are given to, and gives the operator's key for
	// it, nil where there is none.
	key func(f field, path string) (*dag.Field, bool)
	// partial reads the fixed values.
	partial func(e *dag.Expand, n *node)
	// twice tells where else a name has a value, "" for nowhere.
	twice func(e *dag.Expand, name string) string
}

// readExpand reads expand, expand_kwargs and partial of a task.
func (b *builder) readExpand(t *taskDraft) {
	t.task.Expand = b.readExpansion(expansion{
		body: t.body, deps: &t.deps, sub: t.sub, what: "the task's keys", example: "path", alone: "write its keys on the task itself",
		key: func(f field, path string) (*dag.Field, bool) {
			spec := b.mappable(t, f, path)
			return spec, spec != nil || t.spec == nil
		},
		partial: func(e *dag.Expand, n *node) { b.readPartial(t, e, n) },
		twice: func(e *dag.Expand, name string) string {
			if !t.body.get(name).null() {
				return "on the task"
			}
			return underPartial(e, name)
		},
	})
	e := t.task.Expand
	if e == nil {
		return
	}
	for _, name := range e.Names {
		delete(t.task.Args, name) // an inherited default gives way
	}
	b.checkMapped(t, e)
}

func underPartial(e *dag.Expand, name string) string {
	if _, fixed := e.Partial[name]; fixed {
		return "under partial"
	}
	return ""
}

// readExpansion reads how something is expanded; nil when it is not.
func (b *builder) readExpansion(x expansion) *dag.Expand {
	args, kwargs, partial := x.body.get("expand"), x.body.get("expand_kwargs"), x.body.get("partial")
	if args.null() && kwargs.null() {
		if !partial.null() {
			b.rep.err(x.body.keyOf("partial"), x.sub("partial"), codeExpand, "partial stands without expand", x.alone)
		}
		return nil
	}
	if !args.null() && !kwargs.null() {
		b.rep.err(x.body.keyOf("expand_kwargs"), x.sub("expand_kwargs"), codeExpand, "expand and expand_kwargs cannot stand together", "")
	}
	e := &dag.Expand{}
	switch {
	case partial.null():
	case partial.kind != mapNode:
		b.rep.err(partial, x.sub("partial"), codeWrongType, "partial must be a mapping, not "+describe(partial), "")
	default:
		x.partial(e, partial)
	}
	if !kwargs.null() {
		if src, ok := b.expandSource(x.deps, kwargs, x.sub("expand_kwargs"), nil); ok {
			e.Kwargs = &src
			b.checkKwargs(x, kwargs)
		}
	}
	if !args.null() {
		b.readExpandArgs(x, e, args)
	}
	return e
}

func (b *builder) readExpandArgs(x expansion, e *dag.Expand, args *node) {
	path := x.sub("expand")
	if args.kind != mapNode || len(args.fields) == 0 {
		found := describe(args)
		if args.kind == mapNode {
			found = "an empty one"
		}
		b.rep.err(args, path, codeExpand, "expand must be a mapping of "+x.what+" to what they are expanded over, not "+found,
			"as in expand: {"+x.example+": other_task.output}")
		return
	}
	e.Args = map[string]dag.ExpandSource{}
	product := 1
	for _, f := range args.fields {
		p := join(path, f.name)
		spec, ok := x.key(f, p)
		if !ok {
			continue
		}
		if place := x.twice(e, f.name); place != "" {
			b.rep.err(f.key, p, codeExpand, f.name+" stands "+place+" and under expand", "keep one of the two")
			continue
		}
		src, ok := b.expandSource(x.deps, f.val, p, spec)
		if !ok {
			continue
		}
		e.Names = append(e.Names, f.name)
		e.Args[f.name] = src
		if src.Literal != nil && product <= b.opts.MaxMapLength {
			product *= len(src.Literal)
		}
	}
	if limit := b.opts.MaxMapLength; product > limit {
		b.rep.err(args, path, codeExpand, fmt.Sprintf("expand makes %d instances or more; at most %d are allowed", product, limit), mapLengthHint)
	}
}

// checkKwargs checks the keys of a literal expand_kwargs.
func (b *builder) checkKwargs(x expansion, n *node) {
	path := x.sub("expand_kwargs")
	if n.kind == mapNode && n.get("glob") != nil {
		b.rep.err(n, path, codeExpand, "expand_kwargs takes a list of mappings, and glob gives paths", "use expand")
		return
	}
	if n.kind != listNode {
		return
	}
	for i, item := range n.items {
		p := index(path, i)
		if item.kind != mapNode {
			b.rep.err(item, p, codeExpand, "each item of expand_kwargs must be a mapping, not "+describe(item), "")
			continue
		}
		for _, f := range item.fields {
			if spec, _ := x.key(f, join(p, f.name)); spec != nil && !f.val.null() {
				b.rep.arg(f.val, join(p, f.name), spec, true)
			}
		}
	}
}

// mappable finds the operator's key that is expanded; nil, and a problem, when
// there is none or it cannot be.
func (b *builder) mappable(t *taskDraft, f field, path string) *dag.Field {
	if t.spec == nil {
		return nil
	}
	var names []string
	for i := range t.spec.Fields {
		if t.spec.Fields[i].Mappable {
			names = append(names, t.spec.Fields[i].Name)
		}
	}
	spec := specField(t.spec, f.name)
	switch {
	case spec != nil && spec.Mappable:
		return spec
	case spec != nil || b.l.keys.task[f.name].kind != noKey:
		b.rep.err(f.key, path, codeNotMappable, f.name+" cannot be expanded over", "it is the same for all instances: write it on the task itself")
	default:
		b.rep.err(f.key, path, codeUnknownKey, quote(f.name)+" is not a key of "+t.spec.Name+" that can be expanded", b.rep.didYouMean(f.name, names))
	}
	return nil
}

// expandSource reads where the values come from.
func (b *builder) expandSource(deps *[]dep, n *node, path string, f *dag.Field) (dag.ExpandSource, bool) {
	switch n.kind {
	case listNode:
		return b.literalList(n, path, f)
	case mapNode:
		if n.get("xcom") != nil && len(n.without("xcom", "key").fields) == 0 {
			return b.xcomSource(deps, n, path)
		}
		if n.get("glob") != nil && len(n.fields) == 1 {
			text, ok := b.rep.text(n.get("glob"), join(path, "glob"))
			return dag.ExpandSource{Glob: text}, ok
		}
		if name := n.get("__type__"); name != nil {
			if args := n.get("__args__"); (className(name.text) == "XComArg" || className(name.text) == "PlainXComArg") && args != nil && args.kind == listNode && len(args.items) == 1 {
				return b.taskSource(deps, args.items[0], path, args.items[0].text, "")
			}
			b.rep.err(n, path, codeExpand, "objects of "+quote(name.text)+" cannot be expanded over", expandForms)
			return dag.ExpandSource{}, false
		}
		return b.literalMap(n, path)
	}
	if n.null() {
		b.rep.err(n, path, codeExpand, "nothing cannot be expanded over", expandForms)
		return dag.ExpandSource{}, false
	}
	for _, re := range []*regexp.Regexp{outputRef, xcomRef, plusRef} {
		if m := re.FindStringSubmatch(n.text); m != nil {
			key := ""
			if len(m) > 2 {
				key = m[2]
			}
			return b.taskSource(deps, n, path, m[1], key)
		}
	}
	b.rep.err(n, path, codeExpand, quote(n.text)+" cannot be expanded over", expandForms)
	return dag.ExpandSource{}, false
}

func (b *builder) xcomSource(deps *[]dep, n *node, path string) (dag.ExpandSource, bool) {
	name, ok := b.rep.text(n.get("xcom"), join(path, "xcom"))
	if !ok {
		return dag.ExpandSource{}, false
	}
	key := ""
	if m := outputRef.FindStringSubmatch(name); m != nil {
		name, key = m[1], m[2]
	}
	if v := n.get("key"); !v.null() {
		if key, ok = b.rep.text(v, join(path, "key")); !ok {
			return dag.ExpandSource{}, false
		}
	}
	return b.taskSource(deps, n.get("xcom"), join(path, "xcom"), name, key)
}

// taskSource points at another task's XCom, which makes that task an upstream
// one.
func (b *builder) taskSource(deps *[]dep, n *node, path, name, key string) (dag.ExpandSource, bool) {
	source := b.byID[name]
	if source == nil {
		b.rep.err(n, path, codeUnknownDep, "there is no task "+quote(name)+" to expand over", b.rep.didYouMeanOf(name, b.taskNames))
		return dag.ExpandSource{}, false
	}
	*deps = append(*deps, dep{at: n, path: path, name: name})
	if key == dag.XComReturnValue {
		key = ""
	}
	return dag.ExpandSource{XCom: source.task.ID, Key: key}, true
}

func (b *builder) literalList(n *node, path string, f *dag.Field) (dag.ExpandSource, bool) {
	src := dag.ExpandSource{Literal: make([]any, 0, len(n.items))}
	if limit := b.opts.MaxMapLength; len(n.items) > limit {
		b.rep.err(n, path, codeExpand, fmt.Sprintf("the list has %d items; at most %d instances are allowed", len(n.items), limit), mapLengthHint)
		return src, false
	}
	ok := true
	for i, item := range n.items {
		var v any
		var good bool
		if f != nil && !item.null() {
			v, good = b.rep.arg(item, index(path, i), f, true)
		} else {
			v, good = b.rep.any(item, index(path, i))
		}
		ok = ok && good
		src.Literal = append(src.Literal, v)
	}
	return src, ok
}

// literalMap is expanded over as its pairs of key and value.
func (b *builder) literalMap(n *node, path string) (dag.ExpandSource, bool) {
	src := dag.ExpandSource{Literal: make([]any, 0, len(n.fields))}
	ok := true
	for _, f := range n.fields {
		v, good := b.rep.any(f.val, join(path, f.name))
		ok = ok && good
		src.Literal = append(src.Literal, []any{f.name, v})
	}
	return src, ok
}

// taskKeysOfPartial moves the task's own keys that stand under partial to the
// task: in Airflow both are arguments of the operator.
func (b *builder) taskKeysOfPartial(t *taskDraft) {
	partial := t.body.get("partial")
	if partial.null() || partial.kind != mapNode || t.spec == nil {
		return
	}
	var moved []field
	var names []string
	for _, f := range partial.fields {
		if b.l.keys.defaultArgs[f.name].kind != noKey && f.name != "timezone" && specField(t.spec, f.name) == nil && t.body.get(f.name) == nil {
			moved, names = append(moved, f), append(names, f.name)
		}
	}
	if len(moved) == 0 {
		return
	}
	body := *t.body
	body.fields = append(slices.Clone(body.fields), moved...)
	for i := range body.fields {
		if body.fields[i].name == "partial" {
			body.fields[i].val = partial.without(names...)
		}
	}
	t.body = &body
}

// readPartial merges the fixed arguments into the task's own.
func (b *builder) readPartial(t *taskDraft, e *dag.Expand, partial *node) {
	path := t.sub("partial")
	e.Partial = map[string]any{}
	for _, f := range partial.fields {
		p := join(path, f.name)
		if n := t.body.get(f.name); !n.null() {
			b.rep.err(f.key, p, codeExpand, f.name+" stands on the task and under partial", "keep one of the two")
			continue
		}
		var v any
		ok := false
		switch spec := specFieldOf(t.spec, f.name); {
		case spec != nil:
			v, ok = b.rep.arg(f.val, p, spec, spec.Templated)
		case t.spec == nil:
			v, ok = b.rep.any(f.val, p)
		case b.l.keys.task[f.name].kind != noKey:
			b.rep.err(f.key, p, codeMisplacedKey, f.name+" is a key of the task, not of its operator", "write it on the task itself")
		default:
			b.rep.err(f.key, p, codeUnknownKey, quote(f.name)+" is not a key of "+t.spec.Name, b.rep.didYouMean(f.name, fieldNames(t.spec.Fields)))
		}
		if ok {
			e.Partial[f.name], t.task.Args[f.name] = v, v
		}
	}
	if len(e.Partial) == 0 {
		e.Partial = nil
	}
}

func specFieldOf(s *dag.OperatorSpec, name string) *dag.Field {
	if s == nil {
		return nil
	}
	return specField(s, name)
}

// checkMapped refuses the trigger rule always where the values come from
// upstream: the task would start before they are there.
func (b *builder) checkMapped(t *taskDraft, e *dag.Expand) {
	dynamic := e.Kwargs != nil && e.Kwargs.Literal == nil
	for _, src := range e.Args {
		dynamic = dynamic || src.Literal == nil
	}
	if dynamic && t.task.TriggerRule == dag.Always {
		b.rep.err(t.at("trigger_rule"), t.sub("trigger_rule"), codeTriggerRule,
			"a task that is expanded over the output of others cannot have the trigger rule always", "write all_done")
	}
}
