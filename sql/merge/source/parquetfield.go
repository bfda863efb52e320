package source

import (
	"encoding/json"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/airlock-dag/airlock/sql/merge/row"
)

// parquetField is a node of the file's schema.
type parquetField struct {
	name       string
	children   []*parquetField
	leaf       int // the first leaf at or below
	leaves     int // how many
	optional   bool
	repeated   bool
	define     int // definition level from which there is a value
	repeat     int // repetition level of a further element
	list, dict bool
	text       func(parquet.Value) row.Value // of a leaf
}

func newParquetField(node parquet.Field, leaf *int, define, repeat int) *parquetField {
	f := &parquetField{name: node.Name(), leaf: *leaf, optional: node.Optional(), repeated: node.Repeated()}
	if f.optional || f.repeated {
		define++
	}
	if f.repeated {
		repeat++
	}
	f.define, f.repeat = define, repeat
	if node.Leaf() {
		*leaf++
		f.leaves, f.text = 1, parquetText(node.Type())
		return f
	}
	for _, child := range node.Fields() {
		f.children = append(f.children, newParquetField(child, leaf, define, repeat))
	}
	f.leaves = *leaf - f.leaf
	logical := ""
	if t := node.Type(); t != nil && t.LogicalType() != nil {
		logical = t.LogicalType().String()
	}
	inner := len(f.children) == 1 && f.children[0].repeated
	f.list = inner && (strings.HasPrefix(logical, "LIST") || f.children[0].name == "list" || f.children[0].name == "bag")
	f.dict = inner && !f.list && len(f.children[0].children) == 2 && (strings.HasPrefix(logical, "MAP") || f.children[0].name == "key_value")
	return f
}

// value is the field of a row.
func (f *parquetField) value(leaves [][]parquet.Value) row.Value {
	if f.text != nil && !f.repeated {
		if v := leaves[f.leaf]; len(v) > 0 && !v[0].IsNull() {
			return f.text(v[0])
		}
		return row.Value{Kind: row.Null}
	}
	text := string(f.appendJSON(nil, leaves))
	if text == "null" {
		return row.Value{Kind: row.Null}
	}
	return row.Value{Kind: row.JSON, Text: text}
}

// appendJSON writes the field as JSON. leaves has, by leaf, the values that
// belong to this one occurrence of the field's parent.
func (f *parquetField) appendJSON(b []byte, leaves [][]parquet.Value) []byte {
	if !f.repeated {
		return f.appendOne(b, leaves)
	}
	b = append(b, '[')
	for i, element := range f.elements(leaves) {
		if i > 0 {
			b = append(b, ',')
		}
		b = f.appendOne(b, element)
	}
	return append(b, ']')
}

// elements parts the values of a repeated field.
func (f *parquetField) elements(leaves [][]parquet.Value) [][][]parquet.Value {
	var out [][][]parquet.Value
	for l := f.leaf; l < f.leaf+f.leaves; l++ {
		at := -1
		for i, v := range leaves[l] {
			if v.DefinitionLevel() < f.define {
				continue // the list is empty or null
			}
			if i == 0 || v.RepetitionLevel() <= f.repeat {
				if at++; at == len(out) {
					out = append(out, make([][]parquet.Value, len(leaves)))
				}
			}
			out[at][l] = append(out[at][l], v)
		}
	}
	return out
}

func (f *parquetField) appendOne(b []byte, leaves [][]parquet.Value) []byte {
	first := leaves[f.leaf]
	if len(first) == 0 || (f.optional && first[0].DefinitionLevel() < f.define) {
		return append(b, "null"...)
	}
	switch {
	case f.text != nil:
		if first[0].IsNull() {
			return append(b, "null"...)
		}
		return appendValue(b, f.text(first[0]))
	case f.list:
		return f.appendList(b, leaves)
	case f.dict:
		return f.appendMap(b, leaves)
	}
	b = append(b, '{')
	for i, c := range f.children {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, jsonText(c.name)...), ':')
		b = c.appendJSON(b, leaves)
	}
	return append(b, '}')
}

// appendList writes a list without the two groups that Parquet has around its
// elements.
func (f *parquetField) appendList(b []byte, leaves [][]parquet.Value) []byte {
	group := f.children[0]
	b = append(b, '[')
	for i, element := range group.elements(leaves) {
		if i > 0 {
			b = append(b, ',')
		}
		if len(group.children) == 1 {
			b = group.children[0].appendJSON(b, element)
		} else {
			b = group.appendOne(b, element)
		}
	}
	return append(b, ']')
}

// appendMap writes a map as an object; keys that are no texts are written as
// such.
func (f *parquetField) appendMap(b []byte, leaves [][]parquet.Value) []byte {
	group := f.children[0]
	key, value := group.children[0], group.children[1]
	b = append(b, '{')
	for i, element := range group.elements(leaves) {
		if i > 0 {
			b = append(b, ',')
		}
		name := key.appendJSON(nil, element)
		if name[0] != '"' || !json.Valid(name) {
			name = jsonText(string(name))
		}
		b = append(append(b, name...), ':')
		b = value.appendJSON(b, element)
	}
	return append(b, '}')
}
