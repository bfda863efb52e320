package dag

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// CutText makes a text fit for the database: valid UTF-8, no NUL, and at most
// limit bytes. What is longer loses its middle, where a mark says how many
// bytes were left out: the beginning says what was tried, the end what went
// wrong. A limit of 0 or less gives "".
func CutText(s string, limit int) string {
	if limit <= 0 {
		return ""
	}
	if len(s) > 2*limit+utf8.UTFMax {
		// Only the ends are kept: do not clean what is thrown away. The mark
		// below is made from the true length.
		return joinCut(cleanText(s[:limit]), cleanText(s[len(s)-limit:]), len(s), limit)
	}
	s = cleanText(s)
	if len(s) <= limit {
		return s
	}
	return joinCut(s, s, len(s), limit)
}

// cleanText replaces bytes that are not UTF-8, and NUL, by U+FFFD.
func cleanText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// joinCut puts the beginning of head and the end of tail around the mark; size
// is the length of the whole text.
func joinCut(head, tail string, size, limit int) string {
	// The widest the mark can be; the number in it only gets smaller.
	room := limit - len(cutMark(size))
	if room < 2 {
		return runeHead(head, limit)
	}
	h := runeHead(head, room-room/2)
	t := runeTail(tail, room/2)
	return h + cutMark(max(0, size-len(h)-len(t))) + t
}

func cutMark(n int) string { return fmt.Sprintf("\n[... %d bytes left out ...]\n", n) }

// runeHead is the longest beginning of at most n bytes that ends with a whole
// character.
func runeHead(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// runeTail is the longest end of at most n bytes that begins with a whole
// character.
func runeTail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	from := len(s) - n
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	return s[from:]
}
