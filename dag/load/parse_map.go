package load

import (
	"fmt"
	"strings"

	yaml "go.yaml.in/yaml/v4"
)

// mapping converts a mapping: duplicate keys are reported with both lines,
// merge keys are laid under the mapping's own keys, and the mappings that
// stand for a text or a list become one.
func (c *converter) mapping(y *yaml.Node, n *node, depth int) *node {
	n.kind, n.flow = mapNode, y.Style&yaml.FlowStyle != 0
	c.checkTag(y, n)
	c.busy[y] = true
	defer delete(c.busy, y)
	var merges []*yaml.Node
	keys := make(map[string]*node, len(y.Content)/2)
	for i := 0; i+1 < len(y.Content); i += 2 {
		ky, vy := y.Content[i], y.Content[i+1]
		if ky.Kind == yaml.ScalarNode && ky.Tag == "!!merge" {
			merges = append(merges, ky, vy)
			continue
		}
		key := c.convert(ky, depth+1)
		if key == nil {
			return nil
		}
		if key.kind != scalarNode {
			c.badKey(n, key)
			return nil
		}
		val := c.convert(vy, depth+1)
		if val == nil {
			return nil
		}
		if first := keys[key.text]; first != nil {
			c.rep.err(key, "", codeDuplicateKey,
				fmt.Sprintf("key %s stands here on line %d and already on line %d", quote(key.text), key.line, first.line),
				"keep one of them")
			continue
		}
		keys[key.text] = key
		n.fields = append(n.fields, field{key: key, name: key.text, val: val})
		if !c.grow(n, val) {
			return nil
		}
	}
	for i := 0; i+1 < len(merges); i += 2 {
		if !c.merge(n, keys, merges[i], merges[i+1], depth) {
			return nil
		}
	}
	out := c.special(n)
	if y.Anchor != "" {
		c.done[y] = out
	}
	return out
}

// badKey reports a key that is a list or a mapping; the commonest cause is a
// template without quotes.
func (c *converter) badKey(n, key *node) {
	if n.flow && key.kind == mapNode && key.flow {
		c.fail(n, codeUnquotedTmpl, "a value that begins with {{ is read as a mapping", `put the template in quotes: "{{ ... }}"`)
		return
	}
	c.fail(key, codeSyntax, describe(key)+" cannot be a key", "")
}

// merge lays the mappings of a merge key under n: n's own keys win, and of
// several mappings the first.
func (c *converter) merge(n *node, keys map[string]*node, ky, vy *yaml.Node, depth int) bool {
	key := &node{file: n.file, line: ky.Line, col: ky.Column}
	val := c.convert(vy, depth+1)
	if val == nil {
		return false
	}
	sources := []*node{val}
	if val.kind == listNode {
		sources = val.items
	}
	for _, src := range sources {
		if src.kind != mapNode {
			c.rep.err(key, "", codeMergeKey, "<< takes a mapping or a list of mappings, not "+describe(src), "")
			continue
		}
		for _, f := range src.fields {
			if keys[f.name] != nil {
				continue
			}
			keys[f.name] = f.key
			n.fields = append(n.fields, f)
			if !c.grow(n, f.val) {
				return false
			}
		}
	}
	return true
}

// special replaces __join__, __and__ and __or__ by their text and builtins.list
// by its list.
func (c *converter) special(n *node) *node {
	if parts := n.get("__join__"); parts != nil {
		if len(n.fields) > 1 || parts.kind != listNode {
			c.rep.err(n, "", codeWrongType, "__join__ takes a list of texts and stands alone in its mapping", "")
			return n
		}
		var b strings.Builder
		for _, item := range parts.items {
			if item.kind != scalarNode {
				c.rep.err(item, "", codeWrongType, "__join__ takes texts, not "+describe(item), "")
				return n
			}
			b.WriteString(item.text)
			if b.Len() > maxJoin {
				c.fail(n, codeAliasBomb, fmt.Sprintf("__join__ makes a text of more than %d bytes", maxJoin), "")
				return n
			}
		}
		return &node{kind: scalarNode, file: n.file, line: n.line, col: n.col, text: b.String(), size: 1}
	}
	for _, join := range []struct{ key, between string }{{"__and__", " & "}, {"__or__", " | "}} {
		if parts := n.get(join.key); parts != nil && len(n.fields) == 1 && parts.kind == listNode {
			return c.condition(n, parts.items, join.between)
		}
	}
	if t := n.get("__type__"); t != nil && t.text == "builtins.list" {
		out := *n
		out.kind, out.fields, out.items = listNode, nil, nil
		for _, f := range n.fields {
			switch {
			case f.name == "__type__":
			case (f.name == "items" || f.name == "__args__") && f.val.kind == listNode:
				out.items = append(out.items, f.val.items...)
			default:
				c.rep.err(f.key, "", codeUnknownKey, quote(f.name)+" is not a key of builtins.list, which has items", "")
			}
		}
		return &out
	}
	return n
}

// condition joins texts as dag-factory does: "(a & b)". What is no text, such as
// an asset, it would join by its own means: that stays a mapping, for whoever
// reads the value to report.
func (c *converter) condition(n *node, items []*node, between string) *node {
	texts, size := make([]string, len(items)), 0
	for i, item := range items {
		if !item.isText() {
			return n
		}
		texts[i] = item.text
		if size += len(item.text) + len(between); size > maxJoin {
			c.fail(n, codeAliasBomb, fmt.Sprintf("__and__ and __or__ make a text of more than %d bytes", maxJoin), "")
			return n
		}
	}
	out := &node{kind: scalarNode, file: n.file, line: n.line, col: n.col, condition: true, size: 1}
	switch len(texts) {
	case 0:
		return n
	case 1:
		out.text = texts[0]
	default:
		out.text = "(" + strings.Join(texts, between) + ")"
	}
	return out
}

// maxJoin is the longest text that joining makes, in bytes.
const maxJoin = 1 << 20
