package source

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/airlock-dag/airlock/sql/merge/row"
)

// objectReader takes the wanted fields out of one JSON object.
type objectReader struct {
	place  map[string]int
	names  []string
	reject bool
	values []row.Value
	seen   map[string]bool
	// inner are the wanted values inside a field, by the field's name: a column
	// that is not a field by its whole name is a path.
	inner map[string][]innerField
	// exact are the wanted names that the object has as such.
	exact map[string]bool
}

type innerField struct {
	at   int
	path []step
	name string
}

func newObjectReader(want Wanted) objectReader {
	o := objectReader{
		place:  map[string]int{},
		names:  want.Names,
		reject: want.RejectUnknown,
		values: make([]row.Value, len(want.Names)),
		seen:   map[string]bool{},
		inner:  map[string][]innerField{},
		exact:  map[string]bool{},
	}
	for i, n := range want.Names {
		o.place[n] = i
		if path := parsePath(n); len(path) > 1 {
			o.inner[path[0].key] = append(o.inner[path[0].key], innerField{at: i, path: path[1:], name: n})
		}
	}
	return o
}

// read gives the values of the wanted fields, Missing for those that the
// object lacks.
func (o *objectReader) read(raw string) ([]row.Value, *row.Fault) {
	if !utf8.ValidString(raw) {
		return nil, fault(row.InvalidUTF8, "", "the line has bytes that are not UTF-8")
	}
	if !json.Valid([]byte(raw)) {
		return nil, explainJSON(raw)
	}
	s := scanner{text: raw}
	s.space()
	if s.text[s.at] != '{' {
		return nil, fault(row.NotAnObject, "", "the line holds %s and not an object", s.kind())
	}
	for i := range o.values {
		o.values[i] = row.Value{}
	}
	clear(o.seen)
	clear(o.exact)
	s.at++
	for {
		s.space()
		if s.text[s.at] == '}' {
			return o.values, nil
		}
		if s.text[s.at] == ',' {
			s.at++
			s.space()
		}
		key, ok := s.str()
		if !ok {
			return nil, fault(row.BadJSON, "", "a key has half of a surrogate pair")
		}
		if o.seen[key] {
			return nil, fault(row.DuplicateKey, key, "the object has the key %q twice", key)
		}
		o.seen[key] = true
		s.space()
		s.at++ // the colon
		s.space()
		v, ok := s.value()
		if !ok {
			return nil, fault(row.BadJSON, key, "the text has half of a surrogate pair")
		}
		paths := o.inner[key]
		if v.Kind == row.JSON && len(paths) > 0 {
			if f := o.takeInner(v.Text, paths); f != nil {
				return nil, f
			}
		}
		if i, wanted := o.place[key]; wanted {
			o.values[i] = v
			if len(o.inner) > 0 {
				o.exact[key] = true
			}
		} else if o.reject && len(paths) == 0 {
			return nil, fault(row.UnknownField, key, "the field %q is not among the step's columns; declare it, or set unknown_fields: ignore", key)
		}
	}
}

// takeInner takes what the step wants of the inside of a field.
func (o *objectReader) takeInner(text string, paths []innerField) *row.Fault {
	for _, in := range paths {
		v, twice, ok := lookup(text, in.path)
		switch {
		case twice != "":
			return fault(row.DuplicateKey, in.name, "an object on the way to %s has the key %q twice", in.name, twice)
		case !ok:
			return fault(row.BadJSON, in.name, "the text has half of a surrogate pair")
		case !o.exact[in.name]:
			o.values[in.at] = v
		}
	}
	return nil
}

// explainJSON says what is wrong with a text that is not valid JSON.
func explainJSON(raw string) *row.Fault {
	dec := json.NewDecoder(strings.NewReader(raw))
	dec.UseNumber()
	var first json.RawMessage
	if err := dec.Decode(&first); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return fault(row.BadJSON, "", "not valid JSON at byte %d: %s", syntax.Offset, syntax.Error())
		}
		return fault(row.BadJSON, "", "not valid JSON: the text ends too early")
	}
	return fault(row.TrailingData, "", "something follows the object at byte %d", dec.InputOffset()+1)
}

// scanner walks over a text that is known to be valid JSON.
type scanner struct {
	text string
	at   int
}

func (s *scanner) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

func (s *scanner) kind() string {
	switch s.text[s.at] {
	case '[':
		return "a list"
	case '"':
		return "a text"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	default:
		return "a number"
	}
}

// str reads the text at s; false for a lone surrogate, which would be replaced.
func (s *scanner) str() (string, bool) {
	from := s.at
	s.at++
	escaped := false
	for s.text[s.at] != '"' {
		if s.text[s.at] == '\\' {
			escaped = true
			s.at++
		}
		s.at++
	}
	s.at++
	if !escaped {
		return s.text[from+1 : s.at-1], true
	}
	if loneSurrogate(s.text[from:s.at]) {
		return "", false
	}
	var out string
	if err := json.Unmarshal([]byte(s.text[from:s.at]), &out); err != nil {
		return "", false
	}
	return out, true
}

// loneSurrogate tells whether a JSON text has a \u escape that is half of a
// pair: encoding/json would put a replacement character there.
func loneSurrogate(text string) bool {
	unit := func(i int) (rune, bool) {
		if i+6 > len(text) || text[i] != '\\' || text[i+1] != 'u' {
			return 0, false
		}
		var r rune
		_, err := fmt.Sscanf(text[i+2:i+6], "%04x", &r)
		return r, err == nil
	}
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		r, ok := unit(i)
		switch {
		case !ok:
			i++
		case r >= 0xD800 && r < 0xDC00:
			low, ok := unit(i + 6)
			if !ok || low < 0xDC00 || low > 0xDFFF {
				return true
			}
			i += 11
		case r >= 0xDC00 && r <= 0xDFFF:
			return true
		default:
			i += 5
		}
	}
	return false
}

// value reads the value at s.
func (s *scanner) value() (row.Value, bool) {
	from := s.at
	switch s.text[s.at] {
	case '"':
		t, ok := s.str()
		return row.Value{Kind: row.Text, Text: t}, ok
	case '{', '[':
		s.nested()
		raw := s.text[from:s.at]
		return row.Value{Kind: row.JSON, Text: raw}, !strings.Contains(raw, `\u`) || !loneSurrogate(raw)
	case 'n':
		s.at += 4
		return row.Value{Kind: row.Null}, true
	case 't':
		s.at += 4
		return row.Value{Kind: row.Bool, Text: "true"}, true
	case 'f':
		s.at += 5
		return row.Value{Kind: row.Bool, Text: "false"}, true
	default:
		for s.at < len(s.text) && strings.IndexByte("+-.0123456789eE", s.text[s.at]) >= 0 {
			s.at++
		}
		return row.Value{Kind: row.Number, Text: s.text[from:s.at]}, true
	}
}

// nested skips an object or a list.
func (s *scanner) nested() {
	depth := 0
	for {
		switch s.text[s.at] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			s.at++
			for s.text[s.at] != '"' {
				if s.text[s.at] == '\\' {
					s.at++
				}
				s.at++
			}
		}
		s.at++
		if depth == 0 {
			return
		}
	}
}
