package load

import "sort"

// layers lays what a DAG inherits under its own keys. Strongest first, that is
// the DAG, the defaults.yml files of its folder and those above, the file's
// default block, and last the policies.yml files. For default_args the block
// comes before the files. It is nil when a layer cannot be read.
func (l *loader) layers(src *source, id string, body *node) *node {
	rep := src.rep
	block := src.root.get("default")
	if block.null() {
		block = nil
	}
	if block != nil && block.kind != mapNode {
		rep.err(block, "default", codeWrongType, "default must be a mapping, not "+describe(block), "")
		return nil
	}
	files, ok := l.settings(src, l.defaults)
	if !ok {
		return nil
	}
	policies, ok := l.settings(src, l.policies)
	if !ok {
		return nil
	}
	parts := []*node{rep.byID(body, id), rep.byID(files, ""), rep.byID(block, "default"), policies}
	out := emptyMap(body)
	for _, p := range parts {
		if p != nil {
			out = rep.overlay(out, p.without("default_args"))
		}
	}
	args := emptyMap(body)
	for _, p := range []*node{body, block, files} {
		if p == nil {
			continue
		}
		a := p.get("default_args")
		if a.null() {
			continue
		}
		if a.kind != mapNode {
			rep.err(a, "default_args", codeWrongType, "default_args must be a mapping, not "+describe(a), "")
			return nil
		}
		args = rep.overlay(args, a)
	}
	if len(args.fields) > 0 {
		key := body.keyOf("default_args")
		out.fields = append(out.fields, field{key: key, name: "default_args", val: args})
	}
	return out
}

// emptyMap is a mapping without keys at another's place.
func emptyMap(at *node) *node {
	return &node{kind: mapNode, file: at.file, line: at.line, col: at.col, size: 1}
}

// settings folds the settings files that hold for a file into one mapping; the
// nearest wins and tags are united. nil without any.
func (l *loader) settings(src *source, in map[string]*inherited) (*node, bool) {
	var out *node
	for _, s := range chain(in, src.path) {
		if s.rep.failed {
			src.rep.inheritsFrom(s.path)
			return nil, false
		}
		if s.root == nil {
			continue
		}
		if out == nil {
			out = s.root
			continue
		}
		tags := unitedTags(out.get("tags"), s.root.get("tags"))
		out = src.rep.overlay(out, s.root)
		if tags != nil {
			out = out.without("tags")
			out.fields = append(out.fields, field{key: tags, name: "tags", val: tags})
		}
	}
	return out, true
}

// unitedTags joins two lists of tags, sorted; nil when one is missing.
func unitedTags(a, b *node) *node {
	if a == nil || b == nil || a.kind != listNode || b.kind != listNode {
		return nil
	}
	out := *a
	out.items = nil
	seen := map[string]bool{}
	for _, item := range append(append([]*node(nil), a.items...), b.items...) {
		if item.kind == scalarNode && !seen[item.text] {
			seen[item.text] = true
			out.items = append(out.items, item)
		}
	}
	sort.SliceStable(out.items, func(i, j int) bool { return out.items[i].text < out.items[j].text })
	return &out
}

// overlay lays a mapping under another: mappings merge deep, lists and scalars
// of the upper one stay.
func (r *report) overlay(high, low *node) *node {
	out := *high
	out.fields = append([]field(nil), high.fields...)
	at := make(map[string]int, len(out.fields))
	for i, f := range out.fields {
		at[f.name] = i
	}
	for _, f := range low.fields {
		i, there := at[f.name]
		if !there {
			out.fields = append(out.fields, f)
			out.size += f.val.size
			continue
		}
		upper := out.fields[i].val
		if upper.kind == mapNode && f.val.kind == mapNode && upper != f.val && mergeable(upper, f.val) {
			r.tellMergedType(upper, f.val)
			out.fields[i].val = r.overlay(upper, f.val)
		}
	}
	return &out
}

// mergeable is false for two callbacks or two objects of different classes:
// their keys have nothing to do with each other.
func mergeable(high, low *node) bool {
	for _, key := range []string{"callback", "__type__"} {
		a, b := high.get(key), low.get(key)
		if (a == nil) != (b == nil) || a != nil && (a.kind != scalarNode || b.kind != scalarNode || a.text != b.text) {
			return false
		}
	}
	return true
}

// tellMergedType warns where an inherited object adds to the DAG's own: 5
// minutes over 300 seconds are 10 minutes.
func (r *report) tellMergedType(high, low *node) {
	if high.get("__type__") == nil {
		return
	}
	for _, f := range low.fields {
		if high.get(f.name) == nil {
			r.warn(high, "", codeMergedType,
				"the inherited value adds "+f.name+" to this "+className(high.get("__type__").text)+" ("+f.key.place(high.file)+")",
				"write "+f.name+" here too, or use a short form as 5m")
		}
	}
}

// byID turns tasks and task_groups in list form into the mapping form, so that
// layers merge by id.
func (r *report) byID(n *node, path string) *node {
	if n == nil {
		return nil
	}
	out := n
	for _, k := range []struct{ key, id string }{{"tasks", "task_id"}, {"task_groups", "group_name"}} {
		list := n.get(k.key)
		if list == nil || list.kind != listNode {
			continue
		}
		m := r.listByID(list, join(path, k.key), k.id)
		c := *out
		c.fields = append([]field(nil), out.fields...)
		for i := range c.fields {
			if c.fields[i].name == k.key {
				c.fields[i].val = m
			}
		}
		out = &c
	}
	return out
}

func (r *report) listByID(list *node, path, idKey string) *node {
	out := emptyMap(list)
	out.items = list.items // tells a list of broken items from no items
	seen := map[string]*node{}
	for i, item := range list.items {
		p := index(path, i)
		if item.kind != mapNode {
			r.err(item, p, codeWrongType, "a mapping with "+idKey+" must stand here, not "+describe(item), "")
			continue
		}
		id := item.get(idKey)
		if id.null() || id.kind != scalarNode {
			r.err(item, p, codeMissingKey, idKey+" is missing", "each item of the list names itself")
			continue
		}
		if first := seen[id.text]; first != nil {
			r.err(id, p, codeDuplicateID, quote(id.text)+" stands here on line "+lineNo(id)+" and already on line "+lineNo(first), "rename one of the two")
			continue
		}
		seen[id.text] = id
		body := item.without(idKey)
		out.fields = append(out.fields, field{key: id, name: id.text, val: body})
		out.size += body.size
	}
	return out
}
