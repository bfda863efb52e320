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
			return fmt.Errorf("line %d: a tag is longer than %d bytes", 1+strings.Count(source[:len(source)-len(rest)], "\n"), maxTag)
		}
		rest = rest[end:]
	}
}

func nextTag(s string) int {
	best := -1
	for _, open := range []string{"{{", "{%", "{#"} {
		if i := strings.Index(s, open); i >= 0 && (best < 0 || i < best) {
			best = i
		}
	}
	return best
}
