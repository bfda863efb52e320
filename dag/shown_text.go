package dag

import (
	"strconv"
	"strings"
	"unicode"
)

// ShownText makes a text fit for a terminal: control characters but line ends and
// tabs are written out (\x1b), so that what a step or a file wrote cannot move
// the cursor, hide lines or rename the window of who reads about it.
func ShownText(s string) string {
	acts := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }
	if !strings.ContainsFunc(s, acts) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if acts(r) {
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
