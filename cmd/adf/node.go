package adf

import (
	"encoding/json"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"
)

// node is a value of the input with its place; the zero node is one that is not
// there, and so is everything inside it.
type node struct{ n *yaml.Node }

func (v node) get(key string) node {
	if v.n == nil || v.n.Kind != yaml.MappingNode {
		return node{}
	}
	for i := 0; i+1 < len(v.n.Content); i += 2 {
		if v.n.Content[i].Value == key {
			return node{v.n.Content[i+1]}
		}
	}
	return node{}
}

func (v node) keys() (out []node) {
	if v.n == nil || v.n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i < len(v.n.Content); i += 2 {
		out = append(out, node{v.n.Content[i]})
	}
	return out
}

func (v node) items() (out []node) {
	if v.n == nil || v.n.Kind != yaml.SequenceNode {
		return nil
	}
	for _, n := range v.n.Content {
		out = append(out, node{n})
	}
	return out
}

// text is a scalar's text, "" for null and for what is no scalar.
func (v node) text() string {
	if v.n == nil || v.n.Kind != yaml.ScalarNode || v.n.Tag == "!!null" {
		return ""
	}
	return v.n.Value
}

// json is the value as JSON, which is YAML too.
func (v node) json() string {
	if v.n == nil {
		return "null"
	}
	var x any
	if err := v.n.Decode(&x); err != nil {
		return "null"
	}
	out, err := json.Marshal(x)
	if err != nil {
		return "null"
	}
	return string(out)
}

// writer writes a DAG file line by line.
type writer struct{ b strings.Builder }

func (w *writer) line(depth int, format string, args ...any) {
	w.b.WriteString(strings.Repeat("  ", depth))
	fmt.Fprintf(&w.b, format, args...)
	w.b.WriteByte('\n')
}

// pair writes a key with a text; one of several lines as a block.
func (w *writer) pair(depth int, key, text string) {
	if !strings.Contains(text, "\n") || strings.HasPrefix(text, " ") || strings.ContainsAny(text, "\r\t") {
		w.line(depth, "%s: %s", key, quoted(text))
		return
	}
	w.line(depth, "%s: |-", key)
	for l := range strings.Lines(text) {
		w.line(depth+1, "%s", strings.TrimSuffix(l, "\n"))
	}
}

func (w *writer) String() string { return w.b.String() }

// quoted is a text as YAML takes it without doubt.
func quoted(s string) string {
	plain := s != ""
	for i, r := range s {
		letter := r == '_' || (r|0x20 >= 'a' && r|0x20 <= 'z')
		plain = plain && (letter || (i > 0 && (r == '.' || r == '-' || (r >= '0' && r <= '9'))))
	}
	switch strings.ToLower(s) {
	case "true", "false", "yes", "no", "on", "off", "y", "n", "null":
		plain = false
	}
	if plain {
		return s
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(s) != nil {
		return `""`
	}
	return strings.TrimSuffix(b.String(), "\n")
}
