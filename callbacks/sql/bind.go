package sql

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/airlock-dag/airlock/dag"
)

// Bind replaces each :name of a statement by a placeholder and lists the values
// in their order. Texts, quoted names and comments are left as they are, and so
// is "::" and a colon that no name follows. A name that has no value is an
// error that tells the nearest one. backslash says that one escapes a quote, as in
// MySQL; in SQLite it is a character like any other.
func Bind(statement string, backslash bool, values map[string]any) (string, []any, error) {
	var out strings.Builder
	var args []any
	for i := 0; i < len(statement); {
		if n := quoted(statement[i:], backslash); n > 0 {
			out.WriteString(statement[i : i+n])
			i += n
			continue
		}
		name := ""
		if statement[i] == ':' && (i == 0 || statement[i-1] != ':') {
			name = identifier(statement[i+1:])
		}
		if name == "" {
			out.WriteByte(statement[i])
			i++
			continue
		}
		v, known := values[name]
		if !known {
			names := slices.Sorted(maps.Keys(values))
			if near := dag.Nearest(name, names); near != "" {
				return "", nil, fmt.Errorf("sql binds :%s, which has no value; did you mean :%s?", name, near)
			}
			return "", nil, fmt.Errorf("sql binds :%s, which has no value; there are: %s", name, strings.Join(names, ", "))
		}
		out.WriteByte('?')
		args = append(args, v)
		i += 1 + len(name)
	}
	return out.String(), args, nil
}

// identifier is the name at the beginning of a text.
func identifier(s string) string {
	n := 0
	for n < len(s) && (s[n] == '_' || s[n] >= 'a' && s[n] <= 'z' || s[n] >= 'A' && s[n] <= 'Z' || n > 0 && s[n] >= '0' && s[n] <= '9') {
		n++
	}
	return s[:n]
}

// quoted is the length of the text, quoted name or comment at the beginning of
// s, 0 for none. One that does not end goes on to the end.
func quoted(s string, backslash bool) int {
	end := func(from int, mark string) int {
		if i := strings.Index(s[from:], mark); i >= 0 {
			return from + i + len(mark)
		}
		return len(s)
	}
	switch {
	case strings.HasPrefix(s, "--"), strings.HasPrefix(s, "#"):
		return end(1, "\n")
	case strings.HasPrefix(s, "/*"):
		return end(2, "*/")
	case s[0] == '\'' || s[0] == '"' || s[0] == '`':
		for i := 1; i < len(s); i++ {
			switch {
			case backslash && s[i] == '\\' && s[0] != '`' && i+1 < len(s):
				i++
			case s[i] == s[0]:
				return i + 1 // a doubled quote begins the next piece
			}
		}
		return len(s)
	default:
		return 0
	}
}
