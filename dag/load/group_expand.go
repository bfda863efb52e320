package load

import (
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
	return b.readExpansion(expansion{
		body: g.body, deps: &g.deps, sub: g.sub, what: "names", example: "clip", alone: "write the values under the params of the DAG",
		key:     func(f field, path string) (*dag.Field, bool) { return nil, b.checkValueName(f, path) },
		partial: func(e *dag.Expand, n *node) { b.readGroupPartial(g, e, n) },
		twice:   underPartial,
	})
}

func (g *groupDraft) sub(key string) string { return join(g.path, key) }

func (b *builder) readGroupPartial(g *groupDraft, e *dag.Expand, partial *node) {
	for _, f := range partial.fields {
		p := join(g.sub("partial"), f.name)
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
