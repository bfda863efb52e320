package render

import (
	"math"
	"strconv"
	"strings"
)

// literal reads a text as a Python literal: a number, text in quotes, True,
// False, None, a list, tuple or dict of them. Anything else is not one.
func literal(text string) (any, bool) {
	p := &literals{rest: text}
	v, ok := p.value(0)
	p.blanks()
	if !ok || p.rest != "" {
		return nil, false
	}
	return v, true
}

type literals struct{ rest string }

// maxLiteralDepth keeps the recursion within the stack.
const maxLiteralDepth = 200

func (p *literals) blanks() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

func (p *literals) take(s string) bool {
	p.blanks()
	if strings.HasPrefix(p.rest, s) {
		p.rest = p.rest[len(s):]
		return true
	}
	return false
}

func (p *literals) value(depth int) (any, bool) {
	p.blanks()
	if p.rest == "" || depth > maxLiteralDepth {
		return nil, false
	}
	switch c := p.rest[0]; {
	case c == '\'' || c == '"':
		return p.text(c)
	case p.take("["):
		return p.items("]", depth)
	case p.take("("):
		return p.tuple(depth)
	case p.take("{"):
		return p.dict(depth)
	default:
		return p.word()
	}
}

func (p *literals) word() (any, bool) {
	n := strings.IndexAny(p.rest, ",]}): \t\r\n")
	if n < 0 {
		n = len(p.rest)
	}
	word := p.rest[:n]
	p.rest = p.rest[n:]
	switch word {
	case "True":
		return true, true
	case "False":
		return false, true
	case "None":
		return nil, true
	}
	digits := strings.TrimLeft(word, "+-")
	if digits == "" || len(word)-len(digits) > 1 || digits[0] != '.' && (digits[0] < '0' || digits[0] > '9') {
		return nil, false
	}
	if strings.Trim(digits, "0123456789") == "" {
		if len(digits) > 1 && digits[0] == '0' && strings.Trim(digits, "0") != "" {
			return nil, false // 007 is not a number in Python
		}
		i, err := strconv.Atoi(word)
		return i, err == nil
	}
	if strings.Trim(digits, "0123456789.eE+-") != "" {
		return nil, false
	}
	f, err := strconv.ParseFloat(word, 64)
	return f, err == nil && !math.IsInf(f, 0)
}

func (p *literals) text(quote byte) (any, bool) {
	var b strings.Builder
	for i := 1; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == quote:
			p.rest = p.rest[i+1:]
			return b.String(), true
		case c == '\n':
			return nil, false
		case c != '\\':
			b.WriteByte(c)
		case i+1 < len(p.rest):
			i++
			at := strings.IndexByte(`\'"nrt`, p.rest[i])
			if at < 0 {
				return nil, false
			}
			b.WriteByte("\\'\"\n\r\t"[at])
		}
	}
	return nil, false
}

func (p *literals) items(end string, depth int) (any, bool) {
	out := []any{}
	for {
		if p.take(end) {
			return out, true
		}
		v, ok := p.value(depth + 1)
		if !ok {
			return nil, false
		}
		out = append(out, v)
		if !p.take(",") {
			return out, p.take(end)
		}
	}
}

func (p *literals) tuple(depth int) (any, bool) {
	before := p.rest
	v, ok := p.items(")", depth)
	list, isList := v.([]any)
	if ok && isList && len(list) == 1 {
		inside := strings.TrimRight(before[:len(before)-len(p.rest)-1], " \t\r\n")
		if !strings.HasSuffix(inside, ",") {
			return list[0], true // brackets only
		}
	}
	return v, ok
}

func (p *literals) dict(depth int) (any, bool) {
	out := map[string]any{}
	for {
		if p.take("}") {
			return out, true
		}
		k, ok := p.value(depth + 1)
		if !ok || !p.take(":") {
			return nil, false
		}
		v, ok := p.value(depth + 1)
		if !ok {
			return nil, false
		}
		out[pyStr(k)] = v
		if !p.take(",") {
			return out, p.take("}")
		}
	}
}
