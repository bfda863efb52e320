package sqltext

import (
	"fmt"
	"sort"
	"strings"
)

// Bind turns :name and %(name)s parameters into question marks and gives their values in
// order. A parameter without a value is an *Error. Names that are never used
// are reported in unused, sorted.
func (f Flavour) Bind(source string, values map[string]any) (sql string, args []any, unused []string, err error) {
	tokens, err := f.Tokens(source)
	if err != nil {
		return "", nil, nil, err
	}
	used := map[string]bool{}
	var b strings.Builder
	at := 0
	for i, t := range tokens {
		name, end := t.Name(), t.Pos+len(t.Text)
		if t.Kind != Param {
			if name, end = pyformat(tokens[i:]); name == "" {
				continue
			}
		}
		v, ok := values[name]
		if !ok {
			return "", nil, nil, At(source, t.Pos, "the parameter :%s has no value", name)
		}
		used[name] = true
		b.WriteString(source[at:t.Pos])
		if list, isList := v.([]any); isList {
			if len(list) == 0 {
				return "", nil, nil, At(source, t.Pos, "the parameter :%s is an empty list", t.Name())
			}
			b.WriteString(strings.TrimSuffix(strings.Repeat("?,", len(list)), ","))
			args = append(args, list...)
		} else {
			b.WriteByte('?')
			args = append(args, v)
		}
		at = end
	}
	b.WriteString(source[at:])
	for name := range values {
		if !used[name] {
			unused = append(unused, name)
		}
	}
	sort.Strings(unused)
	return b.String(), args, unused, nil
}

// pyformat reads %(name)s, as Python's drivers write a parameter, at the front
// of tokens; the empty name when it is something else.
func pyformat(tokens []Token) (name string, end int) {
	if len(tokens) < 5 || tokens[0].Text != "%" || tokens[1].Text != "(" || tokens[2].Kind != Word || tokens[3].Text != ")" || tokens[4].Text != "s" {
		return "", 0
	}
	for i := range 4 {
		if tokens[i+1].Pos != tokens[i].Pos+len(tokens[i].Text) {
			return "", 0
		}
	}
	return tokens[2].Text, tokens[4].Pos + 1
}

// BindList turns the values of a list into the arguments of a source with that
// many question marks or %s marks (as Python's drivers write them).
func (f Flavour) BindList(source string, values []any) (string, []any, error) {
	tokens, err := f.Tokens(source)
	if err != nil {
		return "", nil, err
	}
	var b strings.Builder
	at, n := 0, 0
	for i, t := range tokens {
		marks := 0
		switch {
		case t.Kind == Punct && t.Text == "?":
			marks = 1
		case t.Kind == Punct && t.Text == "%" && i+1 < len(tokens) && tokens[i+1].Text == "s" && tokens[i+1].Pos == t.Pos+1:
			marks = 2
		default:
			continue
		}
		b.WriteString(source[at:t.Pos])
		b.WriteByte('?')
		at = t.Pos + marks
		n++
	}
	b.WriteString(source[at:])
	if n != len(values) {
		return "", nil, fmt.Errorf("the statement has %d marks for parameters, %d values are given", n, len(values))
	}
	return b.String(), values, nil
}

// Params lists the names of the parameters in a source.
func (f Flavour) Params(source string) ([]string, error) {
	tokens, err := f.Tokens(source)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, t := range tokens {
		if t.Kind == Param {
			out = append(out, t.Name())
		}
	}
	return out, nil
}
