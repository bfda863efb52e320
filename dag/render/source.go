package render

import (
	"fmt"
	"strings"
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
		closing := "}}"
		switch rest[open+1] {
		case '%':
			closing = "%}"
		case '#':
			closing = "#}"
		}
		rest = rest[open+2:]
		end := strings.Index(rest, closing)
		if end < 0 {
			end = len(rest)
		}
		if closing != "#}" && end > maxTag {
			return fmt.Errorf("at line %d: a tag is longer than %d bytes", 1+strings.Count(source[:len(source)-len(rest)], "\n"), maxTag)
		}
		rest = rest[end:]
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
