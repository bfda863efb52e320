package load

import (
	"regexp"
	"strings"

	"github.com/airlock-dag/airlock/dag"
)

var groupName = regexp.MustCompile(`^[\p{L}\p{N}_-]{1,200}$`)

// groupDraft is a task group while its DAG is built.
type groupDraft struct {
	name   string // as written
	id     string // with the parents' prefix
	key    *node
	body   *node
	path   string
	parent *groupDraft
	prefix bool // children get the group's id before theirs
	args   *node
	deps   []dep
	// children in the order of the file
	groups []*groupDraft
	tasks  []*taskDraft
	// last are the tasks that others wait for who wait for the group.
	last []*taskDraft
}

// within tells whether the group is g or stands below it.
func (g *groupDraft) within(outer *groupDraft) bool {
	for p := g; p != nil; p = p.parent {
		if p == outer {
			return true
		}
	}
	return false
}

func (b *builder) readGroups() {
	b.byName, b.groupIDs = map[string]*groupDraft{}, map[string]*groupDraft{}
	n := b.merged.get("task_groups")
	if n.null() {
		return
	}
	path := join(b.path, "task_groups")
	if n.kind != mapNode {
		b.rep.err(n, path, codeWrongType, "task_groups must be a mapping or a list, not "+describe(n), "")
		return
	}
	for _, f := range n.fields {
		g := &groupDraft{name: f.name, key: f.key, body: f.val, path: join(path, f.name), prefix: true}
		if f.val.null() {
			g.body = emptyMap(f.val)
		}
		if g.body.kind != mapNode {
			b.rep.err(f.val, g.path, codeWrongType, "a task group must be a mapping, not "+describe(f.val), "")
			continue
		}
		b.readGroup(g)
		b.groups = append(b.groups, g)
		b.byName[g.name] = g
	}
	for _, g := range b.groups {
		b.nest(g)
	}
	for _, g := range b.groups {
		b.groupIDs[b.nameGroup(g)] = g
		out := dag.Group{ID: g.id}
		if g.parent != nil {
			out.ParentID = g.parent.id
		}
		if t := g.body.get("tooltip"); !t.null() {
			out.Tooltip, _ = b.rep.text(t, join(g.path, "tooltip"))
		}
		b.d.Groups = append(b.d.Groups, out)
	}
}

func (b *builder) readGroup(g *groupDraft) {
	if !groupName.MatchString(g.name) {
		b.rep.err(g.key, g.path, codeBadID, quote(g.name)+" cannot be a group's name", "allowed: letters, digits, _ and -, at most 200 of them")
	}
	b.rep.checkKeys(g.body, g.path, "a task group", b.l.keys.group, nil, nil)
	if v := g.body.get("group_name"); !v.null() && v.text != g.name {
		b.rep.err(v, join(g.path, "group_name"), codeBadValue, "group_name "+quote(v.text)+" is not the key that the group stands under", "take group_name away")
	}
	if v := g.body.get("prefix_group_id"); !v.null() {
		if on, ok := b.rep.boolean(v, join(g.path, "prefix_group_id")); ok {
			g.prefix = on
		}
	}
	if v := g.body.get("default_args"); !v.null() {
		if v.kind != mapNode {
			b.rep.err(v, join(g.path, "default_args"), codeWrongType, "default_args must be a mapping, not "+describe(v), "")
		} else {
			g.args = v
			b.l.checkDefaultArgs(b.rep, v, join(g.path, "default_args"))
		}
	}
	g.deps = b.readDeps(g.body, g.path)
}

// nest links a group to its parent.
func (b *builder) nest(g *groupDraft) {
	v := g.body.get("parent_group_name")
	if v.null() {
		return
	}
	path := join(g.path, "parent_group_name")
	name, ok := b.rep.text(v, path)
	if !ok {
		return
	}
	parent := b.byName[name]
	if parent == nil {
		b.rep.err(v, path, codeUnknownGroup, "there is no task group "+quote(name), b.rep.didYouMeanOf(name, b.groupNames))
		return
	}
	chain := []string{g.name}
	for p := parent; p != nil; p = p.parent {
		chain = append(chain, p.name)
		if p == g {
			b.rep.err(v, path, codeCycle, "groups stand inside each other: "+strings.Join(chain, " in "), "")
			return
		}
	}
	g.parent = parent
	parent.groups = append(parent.groups, g)
}

// nameGroup gives a group its id: the parent's id before its own name, unless
// the parent has no prefix.
func (b *builder) nameGroup(g *groupDraft) string {
	if g.id == "" {
		g.id = g.name
		if g.parent != nil {
			g.id = g.parent.childID(b, g.name)
		}
	}
	return g.id
}

func (g *groupDraft) childID(b *builder, name string) string {
	if !g.prefix {
		return name
	}
	return b.nameGroup(g) + "." + name
}

func (b *builder) groupNames() []string {
	out := make([]string, len(b.groups))
	for i, g := range b.groups {
		out[i] = g.name
	}
	return out
}
