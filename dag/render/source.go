package render

import (
	"fmt"
	"strings"

	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// Limits that keep the engine's recursive parser within its stack.
const (
	maxTag  = 16 << 10
	maxTags = 10_000
)

// checkSource refuses templates that the engine could not parse safely.
func checkSource(source string) error {
	if len(source) > MaxTemplate {
		return fmt.Errorf("the template is %d bytes long, more than 1 MiB", len(source))
	}
	tags := 0
	for rest := source; ; {
		open := nextTag(rest)
		if open < 0 {
			return nil
		}
		if tags++; tags > maxTags {
			return fmt.Errorf("the template has more than %d tags", maxTags)
		}
		rest = rest[open+2:]
	}
}

// checkTags refuses tags that are too long for the engine's parser, which goes
// into itself at each bracket: a stack that overflows cannot be recovered from.
// It goes by the engine's own tokens, since "}}" does not end a tag inside
// quotes or brackets.
func checkTags(source string, cfg *config.Config) error {
	if len(source) <= maxTag {
		return nil
	}
	var open *tokens.Token
	for s := tokens.LexAll(source, cfg); ; s.Next() {
		t := s.Current()
		if open != nil && t.Pos-open.Pos > maxTag {
			return fmt.Errorf("at line %d: a tag is longer than %d bytes", open.Line, maxTag)
		}
		switch t.Type {
		case tokens.VariableBegin, tokens.BlockBegin:
			open = t
		case tokens.VariableEnd, tokens.BlockEnd:
			open = nil
		default:
		}
		if s.End() {
			return nil
		}
	}
}

// nextTag is where the next tag or comment opens, -1 for nowhere.
func nextTag(s string) int {
	for from := 0; ; {
		i := strings.IndexByte(s[from:], '{')
		if i < 0 || from+i+1 >= len(s) {
			return -1
		}
		if c := s[from+i+1]; c == '{' || c == '%' || c == '#' {
			return from + i
		}
		from += i + 1
	}
}
