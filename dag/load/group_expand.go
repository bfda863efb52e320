package load

import (
	"fmt"
	"regexp"

	"github.com/airlock-dag/airlock/dag"
)

// valueName is what an expanded value of a group can be called: templates read
// it as params.NAME.
var valueName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// readGroupExpands reads expand, expand_kwargs and partial of the groups. It
// comes after the tasks, whose results a group can be expanded over.
func (b *builder) readGroupExpands() {
	for i, g := range b.groups {
		if e := b.readGroupExpand(g); e != nil {
			b.d.Groups[i].Expand = e
			b.checkMappedGroup(g)
		}
	}
}

func (b *builder) readGroupExpand(g *groupDraft) *dag.Expand {
	args, kwargs, partial := g.body.get("expand"), g.body.get("expand_kwargs"), g.body.get("partial")
	if args.null() && kwargs.null() {
		if !partial.null() {
			b.rep.err(g.body.keyOf("partial"), g.sub("partial"), codeExpand, "partial stands without expand", "write the values under the params of the DAG")
		}
		return nil
	}
	if !args.null() && !kwargs.null() {
		b.rep.err(g.body.keyOf("expand_kwargs"), g.sub("expand_kwargs"), codeExpand, "expand and expand_kwargs cannot stand together", "")
	}
	e := &dag.Expand{}
	if !partial.null() {
		b.readGroupPartial(g, e, partial)
	}
	if !kwargs.null() {
		if src, ok := b.expandSource(&g.deps, kwargs, g.sub("expand_kwargs"), nil); ok {
			e.Kwargs = &src
			b.checkGroupKwargs(g, kwargs)
		}
	}
	if !args.null() {
		b.readGroupArgs(g, e, args)
	}
	return e
}

func (g *groupDraft) sub(key string) string { return join(g.path, key) }

func (b *builder) readGroupArgs(g *groupDraft, e *dag.Expand, args *node) {
	path := g.sub("expand")
	if args.kind != mapNode || len(args.fields) == 0 {
		b.rep.err(args, path, codeExpand, "expand must be a mapping of names to what they are expanded over, not "+describe(args), "as in expand: {clip: other_task.output}")
		return
	}
	e.Args = map[string]dag.ExpandSource{}
	product := 1
	for _, f := range args.fields {
		p := join(path, f.name)
		if !b.checkValueName(f, p) {
			continue
		}
		if _, twice := e.Partial[f.name]; twice {
			b.rep.err(f.key, p, codeExpand, f.name+" stands under partial and under expand", "keep one of the two")
			continue
		}
		src, ok := b.expandSource(&g.deps, f.val, p, nil)
		if !ok {
			continue
		}
		e.Names = append(e.Names, f.name)
		e.Args[f.name] = src
		if src.Literal != nil && product <= b.opts.MaxMapLength {
			product *= len(src.Literal)
		}
	}
	if product > b.opts.MaxMapLength {
		b.rep.err(args, path, codeExpand, fmt.Sprintf("expand makes %d instances or more; at most %d are allowed", product, b.opts.MaxMapLength), mapLengthHint)
	}
}

func (b *builder) readGroupPartial(g *groupDraft, e *dag.Expand, partial *node) {
	path := g.sub("partial")
	if partial.kind != mapNode {
		b.rep.err(partial, path, codeWrongType, "partial must be a mapping, not "+describe(partial), "")
		return
	}
	for _, f := range partial.fields {
		p := join(path, f.name)
		if !b.checkValueName(f, p) {
			continue
		}
		if v, ok := b.rep.any(f.val, p); ok {
			if e.Partial == nil {
				e.Partial = map[string]any{}
			}
			e.Partial[f.name] = v
		}
	}
}

func (b *builder) checkGroupKwargs(g *groupDraft, n *node) {
	path := g.sub("expand_kwargs")
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
			b.checkValueName(f, join(p, f.name))
		}
	}
}

func (b *builder) checkValueName(f field, path string) bool {
	if valueName.MatchString(f.name) {
		return true
	}
	b.rep.err(f.key, path, codeExpand, quote(f.name)+" cannot be the name of a value", "templates read it as params.NAME: use letters, digits and _")
	return false
}

// checkMappedGroup refuses what cannot stand in a mapped group, as Airflow does.
func (b *builder) checkMappedGroup(g *groupDraft) {
	for p := g.parent; p != nil; p = p.parent {
		if !p.body.get("expand").null() || !p.body.get("expand_kwargs").null() {
			b.rep.err(g.key, g.path, codeExpand, "a mapped group cannot stand in another one ("+p.name+")",
				"expand the outer group over every combination: several keys under its expand")
			return
		}
	}
	for _, t := range g.all() {
		if t.task.Expand != nil {
			b.rep.err(t.key, t.path, codeExpand, "a mapped task cannot stand in a mapped group ("+g.name+"): its instances would each need instances of their own",
				"take the task out of the group, or expand only one of the two")
		}
		if t.task.TriggerRule == dag.Always {
			b.rep.err(t.at("trigger_rule"), t.sub("trigger_rule"), codeTriggerRule,
				"a task in a mapped group cannot have the trigger rule always", "write all_done")
		}
	}
}
