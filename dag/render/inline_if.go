package render

import "strings"

// inlineIfs rewrites conditional expressions inside brackets, which the engine
// only understands at the top of a tag: "A if B else C" becomes
// "((B) and [A] or [C])[0]", which evaluates the same side. Line breaks stay
// where they are.
func inlineIfs(source string) string {
	if !strings.Contains(source, "else") {
		return source
	}
	var b strings.Builder
	for rest := source; ; {
		open := nextTag(rest)
		if open < 0 {
			b.WriteString(rest)
			return b.String()
		}
		kind := rest[open+1]
		b.WriteString(rest[:open+2])
		rest = rest[open+2:]
		switch kind {
		case '#':
			rest = copyUntil(&b, rest, "#}")
			continue
		case '%':
			if strings.HasPrefix(strings.TrimLeft(rest, "-+ \t"), "raw") {
				rest = copyUntil(&b, rest, "endraw")
				continue
			}
		}
		p := &inline{text: rest}
		b.WriteString(p.group("", true))
		rest = p.text[p.at:]
	}
}

func copyUntil(b *strings.Builder, text, end string) string {
	i := strings.Index(text, end)
	if i < 0 {
		i = len(text)
	}
	b.WriteString(text[:i])
	return text[i:]
}

// inline reads the inside of a tag.
type inline struct {
	text string
	at   int
}

// group reads up to a closing bracket, or to the end of the tag at the top, and
// gives its text with the conditional expressions of its items rewritten.
func (p *inline) group(closing string, top bool) string {
	var out, item strings.Builder
	ifAt, elseAt := -1, -1
	flush := func() {
		out.WriteString(conditional(item.String(), ifAt, elseAt))
		item.Reset()
		ifAt, elseAt = -1, -1
	}
	for p.at < len(p.text) {
		rest := p.text[p.at:]
		c := rest[0]
		switch {
		case top && (strings.HasPrefix(rest, "}}") || strings.HasPrefix(rest, "%}")):
			out.WriteString(item.String())
			return out.String()
		case !top && strings.HasPrefix(rest, closing):
			flush()
			return out.String()
		case c == '\'' || c == '"':
			item.WriteString(p.quoted(c))
		case c == '(' || c == '[' || c == '{':
			p.at++
			end := map[byte]string{'(': ")", '[': "]", '{': "}"}[c]
			item.WriteString(string(c) + p.group(end, false))
			if p.at < len(p.text) {
				item.WriteString(end)
				p.at++
			}
		case !top && (c == ',' || c == ':' || c == '=' && !isComparison(p.text, p.at)):
			flush()
			out.WriteByte(c)
			p.at++
		case isWord(c):
			word := p.word()
			if !top && word == "if" && ifAt < 0 {
				ifAt = item.Len()
			}
			if !top && word == "else" && ifAt >= 0 && elseAt < 0 {
				elseAt = item.Len()
			}
			item.WriteString(word)
		default:
			item.WriteByte(c)
			p.at++
		}
	}
	out.WriteString(item.String())
	return out.String()
}

// isComparison tells whether the = at a place belongs to ==, !=, <= or >=.
func isComparison(s string, at int) bool {
	return at+1 < len(s) && s[at+1] == '=' || at > 0 && strings.IndexByte("=!<>", s[at-1]) >= 0
}

func isWord(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80
}

func (p *inline) word() string {
	start := p.at
	for p.at < len(p.text) && isWord(p.text[p.at]) {
		p.at++
	}
	return p.text[start:p.at]
}

func (p *inline) quoted(quote byte) string {
	start := p.at
	for p.at++; p.at < len(p.text); p.at++ {
		switch p.text[p.at] {
		case '\\':
			p.at++
		case quote:
			p.at++
			return p.text[start:p.at]
		}
	}
	p.at = min(p.at, len(p.text))
	return p.text[start:p.at]
}

func conditional(item string, ifAt, elseAt int) string {
	if ifAt < 0 || elseAt < 0 {
		return item
	}
	then, test, other := item[:ifAt], item[ifAt+len("if"):elseAt], item[elseAt+len("else"):]
	if strings.TrimSpace(then) == "" {
		return item
	}
	if nested := otherIf(other); nested >= 0 {
		if next := otherElse(other, nested); next >= 0 {
			other = conditional(other, nested, next)
		}
	}
	lead := then[:len(then)-len(strings.TrimLeft(then, " \t\r\n"))]
	return lead + "((" + test + ") and [" + then[len(lead):] + "] or [" + other + "])[0]"
}

// otherIf and otherElse find the words of a chained "... else B if C else D"
// outside quotes and brackets.
func otherIf(s string) int { return topWord(s, "if", 0) }

func otherElse(s string, from int) int { return topWord(s, "else", from+len("if")) }

func topWord(s, want string, from int) int {
	p := &inline{text: s}
	depth := 0
	for p.at < len(s) {
		switch c := s[p.at]; {
		case c == '\'' || c == '"':
			p.quoted(c)
		case isWord(c):
			start := p.at
			if p.word() == want && depth == 0 && start >= from {
				return start
			}
		default:
			if strings.IndexByte("([{", c) >= 0 {
				depth++
			} else if strings.IndexByte(")]}", c) >= 0 {
				depth--
			}
			p.at++
		}
	}
	return -1
}
