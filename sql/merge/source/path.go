package source

import (
	"strconv"
	"strings"

	"github.com/airlock-dag/airlock/sql/merge/row"
)

// step is one part of a path into nested JSON: a key, or a place in a list.
type step struct {
	key   string
	index int // -1 for a key; places count from 0
}

// parsePath reads user.address[0].city; a text that is no path is one key.
func parsePath(text string) []step {
	var out []step
	for i, part := range strings.Split(text, ".") {
		name, rest, indexed := strings.Cut(part, "[")
		if name == "" && (i > 0 || !indexed) {
			return []step{{key: text, index: -1}}
		}
		if name != "" {
			out = append(out, step{key: name, index: -1})
		}
		for indexed {
			digits, after, closed := strings.Cut(rest, "]")
			n, err := strconv.Atoi(digits)
			if !closed || err != nil || n < 0 || (after != "" && after[0] != '[') {
				return []step{{key: text, index: -1}}
			}
			out = append(out, step{index: n})
			_, rest, indexed = strings.Cut(after, "[")
		}
	}
	return out
}

// lookup follows a path into a JSON text that is valid; Missing when it leads
// nowhere, and the key's name when an object on the way has it twice.
func lookup(text string, path []step) (v row.Value, twice string, ok bool) {
	s := scanner{text: text}
	for _, p := range path {
		s.space()
		found, double := s.enter(p)
		if double {
			return v, p.key, true
		}
		if !found {
			return v, "", true
		}
	}
	s.space()
	v, ok = s.value()
	return v, "", ok
}

// enter moves to a member of the object or list at s.
func (s *scanner) enter(p step) (found, twice bool) {
	open := s.text[s.at]
	if (open != '{' || p.index >= 0) && (open != '[' || p.index < 0) {
		return false, false
	}
	s.at++
	at := -1
	for n := 0; ; n++ {
		s.space()
		if s.text[s.at] == '}' || s.text[s.at] == ']' {
			break
		}
		if s.text[s.at] == ',' {
			s.at++
			s.space()
		}
		here := n == p.index
		if p.index < 0 {
			key, ok := s.str()
			here = ok && key == p.key
			s.space()
			s.at++ // the colon
			s.space()
		}
		if here {
			if at >= 0 {
				return false, true
			}
			at = s.at
		}
		s.skip()
	}
	if at < 0 {
		return false, false
	}
	s.at = at
	return true, false
}

// skip passes over the value at s.
func (s *scanner) skip() {
	switch s.text[s.at] {
	case '{', '[':
		s.nested()
	case '"':
		s.str()
	default:
		for s.at < len(s.text) && strings.IndexByte(",]} \t\r\n", s.text[s.at]) < 0 {
			s.at++
		}
	}
}
