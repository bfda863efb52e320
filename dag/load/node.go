package load

import (
	"fmt"
	"strconv"
)

// kind of a node.
type kind uint8

const (
	scalarNode kind = iota
	listNode
	mapNode
)

// node is one value of a YAML file with its place. Aliases are resolved by
// sharing: a node may have several parents and is never changed once made.
type node struct {
	kind kind
	file string
	line int
	col  int

	// text of a scalar as written; plain when it has no quotes, so that its
	// type is still open.
	text  string
	plain bool
	// condition marks a text that __and__ or __or__ made.
	condition bool

	items  []*node
	fields []field
	flow   bool // written with brackets or braces

	// size counts the nodes below this one with aliases written out.
	size int
}

// field is one key of a mapping.
type field struct {
	key  *node // a scalar
	name string
	val  *node
}

// get finds a key's value; nil when it is not there.
func (n *node) get(name string) *node {
	if n == nil || n.kind != mapNode {
		return nil
	}
	for i := range n.fields {
		if n.fields[i].name == name {
			return n.fields[i].val
		}
	}
	return nil
}

// keyOf finds the node of a key, for its place; the mapping's own node when
// the key is not there.
func (n *node) keyOf(name string) *node {
	if n == nil {
		return nil
	}
	for i := range n.fields {
		if n.fields[i].name == name {
			return n.fields[i].key
		}
	}
	return n
}

// null tells whether the value says nothing: null, ~ or an empty value.
func (n *node) null() bool {
	if n == nil {
		return true
	}
	return n.kind == scalarNode && n.plain && isNullText(n.text)
}

// isText tells whether the value is a text for every reader of YAML.
func (n *node) isText() bool {
	if n.kind != scalarNode {
		return false
	}
	s := n.text
	return !n.plain || !isNullText(s) && ambiguous(s) == "" && !bool12.MatchString(s) && !intBoth.MatchString(s) && !hexBoth.MatchString(s) &&
		!floatBoth.MatchString(s) && !infNaN.MatchString(s)
}

func isNullText(s string) bool {
	switch s {
	case "", "~", "null", "Null", "NULL":
		return true
	default:
		return false
	}
}

// without is the mapping less some keys.
func (n *node) without(names ...string) *node {
	out := *n
	out.fields = nil
	for _, f := range n.fields {
		drop := false
		for _, name := range names {
			drop = drop || f.name == name
		}
		if !drop {
			out.fields = append(out.fields, f)
		}
	}
	return &out
}

// describe says what a value is, for messages.
func describe(n *node) string {
	switch {
	case n.null():
		return "nothing"
	case n.kind == listNode:
		return "a list"
	case n.kind == mapNode:
		return "a mapping"
	default:
		return quote(n.text)
	}
}

// quote shows a text in a message: quoted, and cut when it is long.
func quote(s string) string {
	const most = 60
	r := []rune(s)
	if len(r) > most {
		s = string(r[:most]) + "..."
	}
	return strconv.Quote(s)
}

// place is file:line of a node, for messages that point elsewhere.
func (n *node) place(from string) string {
	if n.file == from {
		return fmt.Sprintf("line %d", n.line)
	}
	return fmt.Sprintf("%s:%d", n.file, n.line)
}

// join makes a path of keys.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// index makes the path of a list's item.
func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
