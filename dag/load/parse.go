package load

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v4"

	"github.com/airlock-dag/airlock/dag"
)

// Limits of one file. With its aliases written out a file may have maxNodes
// values, or twice as many as it has without: aliases may save writing, not
// blow up.
const (
	maxNodes = 300_000
	maxDepth = 64
)

// parse turns a file's bytes into nodes. It is nil when the file has no
// mapping to give; the report then says why.
func parse(data []byte, lookupEnv func(string) (string, bool), rep *report) *node {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if !checkText(data, rep) {
		return nil
	}
	doc, ok := compose(data, rep)
	if !ok {
		return nil
	}
	if doc == nil || len(doc.Content) == 0 {
		rep.add(dag.Problem{Severity: dag.SeverityWarning, Code: codeEmptyFile, Message: "the file is empty: it defines no DAG"})
		return nil
	}
	c := &converter{rep: rep, lookupEnv: lookupEnv, done: map[*yaml.Node]*node{}, busy: map[*yaml.Node]bool{}}
	c.limit = max(maxNodes, 2*written(doc))
	root := c.convert(doc.Content[0], 0)
	if root == nil || c.stop {
		return nil
	}
	if root.null() {
		rep.add(dag.Problem{Severity: dag.SeverityWarning, Code: codeEmptyFile, Message: "the file is empty: it defines no DAG"})
		return nil
	}
	if root.kind != mapNode {
		rep.err(root, "", codeNotADAG, "the file holds "+describe(root)+" where a mapping of DAG ids to DAGs must stand", "")
		return nil
	}
	return root
}

// compose parses the one document of a file.
func compose(data []byte, rep *report) (*yaml.Node, bool) {
	l, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithUniqueKeys(false))
	if err != nil {
		rep.add(dag.Problem{Severity: dag.SeverityError, Code: codeSyntax, Message: err.Error()})
		return nil, false
	}
	var doc yaml.Node
	switch err := l.Load(&doc); {
	case errors.Is(err, io.EOF):
		return nil, true
	case err != nil:
		rep.add(syntaxProblem(err, data))
		return nil, false
	}
	var second yaml.Node
	switch err := l.Load(&second); {
	case errors.Is(err, io.EOF):
		return &doc, true
	case err != nil:
		rep.add(syntaxProblem(err, data))
		return nil, false
	}
	rep.add(dag.Problem{
		Line: max(second.Line, 1), Column: max(second.Column, 1), Severity: dag.SeverityError, Code: codeDocuments,
		Message: "a second document begins here; a file holds one",
		Hint:    "take the --- away, or make it a file of its own",
	})
	return nil, false
}

// checkText refuses bytes that are no UTF-8 text.
func checkText(data []byte, rep *report) bool {
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		rep.add(dag.Problem{Line: 1, Column: 1, Severity: dag.SeverityError, Code: codeEncoding,
			Message: "the file is UTF-16", Hint: "save it as UTF-8"})
		return false
	}
	line, col := 1, 1
	for i := 0; i < len(data); {
		r, n := rune(data[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRune(data[i:])
		}
		switch {
		case r == utf8.RuneError && n == 1:
			rep.add(dag.Problem{Line: line, Column: col, Severity: dag.SeverityError, Code: codeEncoding,
				Message: fmt.Sprintf("byte 0x%02x is not UTF-8", data[i]), Hint: "save the file as UTF-8"})
			return false
		case r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f:
			rep.add(dag.Problem{Line: line, Column: col, Severity: dag.SeverityError, Code: codeEncoding,
				Message: fmt.Sprintf("control character 0x%02x", r), Hint: "YAML allows none: take it out, or write \\x in double quotes"})
			return false
		}
		if r == '\n' {
			line, col = line+1, 1
		} else {
			col++
		}
		i += n
	}
	return true
}

// converter makes nodes of the parser's tree.
type converter struct {
	rep       *report
	lookupEnv func(string) (string, bool)
	done      map[*yaml.Node]*node
	busy      map[*yaml.Node]bool
	limit     int  // of values
	stop      bool // the file is hopeless: give up
}

// written counts the values of a tree, aliases as one each.
func written(y *yaml.Node) int {
	n := 1
	for _, c := range y.Content {
		n += written(c)
	}
	return n
}

func (c *converter) convert(y *yaml.Node, depth int) *node {
	if c.stop {
		return nil
	}
	n := &node{file: c.rep.file, line: max(y.Line, 1), col: max(y.Column, 1), size: 1}
	if depth > maxDepth {
		c.fail(n, codeTooDeep, fmt.Sprintf("values stand inside each other more than %d deep", maxDepth), "")
		return nil
	}
	switch y.Kind {
	case yaml.AliasNode:
		return c.alias(y, n, depth)
	case yaml.ScalarNode:
		return c.scalar(y, n)
	case yaml.SequenceNode:
		n.kind, n.flow = listNode, y.Style&yaml.FlowStyle != 0
		c.checkTag(y, n)
		c.busy[y] = true
		defer delete(c.busy, y)
		for _, item := range y.Content {
			child := c.convert(item, depth+1)
			if child == nil {
				return nil
			}
			n.items = append(n.items, child)
			if !c.grow(n, child) {
				return nil
			}
		}
		if y.Anchor != "" {
			c.done[y] = n
		}
		return n
	case yaml.MappingNode:
		return c.mapping(y, n, depth)
	default:
		c.fail(n, codeSyntax, "this cannot be read as a value", "")
		return nil
	}
}

// fail reports an error after which the file is not looked at further.
func (c *converter) fail(n *node, code, msg, hint string) {
	c.stop = true
	c.rep.err(n, "", code, msg, hint)
}

// grow adds a child's size and refuses what aliases have blown up.
func (c *converter) grow(n, child *node) bool {
	n.size += child.size
	if n.size <= c.limit {
		return true
	}
	c.fail(n, codeAliasBomb, fmt.Sprintf("with its aliases written out this has more than %d values", c.limit),
		"use fewer aliases inside aliases")
	return false
}

// alias shares the node of the anchor.
func (c *converter) alias(y *yaml.Node, n *node, depth int) *node {
	target := y.Alias
	if c.busy[target] {
		c.fail(n, codeAliasBomb, "the alias "+quote("*"+y.Value)+" stands inside its own anchor", "")
		return nil
	}
	if done := c.done[target]; done != nil {
		return done
	}
	return c.convert(target, depth)
}

func (c *converter) scalar(y *yaml.Node, n *node) *node {
	n.kind, n.text = scalarNode, y.Value
	quoted := yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	n.plain = y.Style&quoted == 0
	if y.Style&yaml.TaggedStyle != 0 {
		switch y.Tag {
		case "!!str":
			n.plain = false
		case "!!int", "!!float", "!!bool", "!!null", "!!timestamp":
			n.plain = true
		default:
			c.checkTag(y, n)
		}
	}
	if c.lookupEnv != nil && strings.Contains(n.text, "$") {
		expanded := expandEnv(n.text, c.lookupEnv)
		if expanded != n.text {
			return c.expanded(n, expanded)
		}
	}
	if y.Anchor != "" {
		c.done[y] = n
	}
	return n
}

// expanded is a scalar after environment names were replaced. A plain one is
// read again, as it would be had the value stood in the file, so that a list
// in brackets becomes a list; its parts keep the scalar's place.
func (c *converter) expanded(n *node, text string) *node {
	if n.plain && (strings.HasPrefix(text, "[") || strings.HasPrefix(text, "{")) && !strings.HasPrefix(text, "{{") {
		var doc yaml.Node
		if err := yaml.Load([]byte(text), &doc, yaml.WithUniqueKeys(false)); err == nil && len(doc.Content) == 1 {
			inner := &converter{rep: c.rep, limit: c.limit, done: map[*yaml.Node]*node{}, busy: map[*yaml.Node]bool{}}
			if made := inner.convert(doc.Content[0], 1); made != nil {
				return moved(made, n)
			}
		}
	}
	n.text = text
	return n
}

// moved gives a tree the place of another node.
func moved(n, to *node) *node {
	out := *n
	out.file, out.line, out.col = to.file, to.line, to.col
	out.items = make([]*node, len(n.items))
	for i, item := range n.items {
		out.items[i] = moved(item, to)
	}
	out.fields = make([]field, len(n.fields))
	for i, f := range n.fields {
		out.fields[i] = field{key: moved(f.key, to), name: f.name, val: moved(f.val, to)}
	}
	return &out
}

// checkTag refuses tags other than those that say what is there anyway.
func (c *converter) checkTag(y *yaml.Node, n *node) {
	if y.Style&yaml.TaggedStyle == 0 || y.Tag == "!!map" || y.Tag == "!!seq" || y.Tag == "!!str" {
		return
	}
	hint := "take the tag away"
	switch y.Tag {
	case "!join", "!and", "!or":
		hint = "write it as a key: __" + y.Tag[1:] + "__"
	}
	c.rep.err(n, "", codeTag, "the tag "+quote(y.Tag)+" is not supported", hint)
}
