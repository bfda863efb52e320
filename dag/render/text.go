package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"unicode/utf16"
)

// percent fills in a text by Python's % operator: %s, %d, %05.2f, %(name)s.
func percent(format string, args any) (any, error) {
	list, isList := args.([]any)
	named, _ := args.(map[string]any)
	if !isList {
		list = []any{args}
	}
	var b strings.Builder
	used := 0
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b.WriteByte(format[i])
			continue
		}
		rest := format[i+1:]
		if strings.HasPrefix(rest, "%") {
			b.WriteByte('%')
			i++
			continue
		}
		var v any
		skip := 0
		if strings.HasPrefix(rest, "(") {
			end := strings.IndexByte(rest, ')')
			if end < 0 {
				return nil, errors.New("the format has an open bracket")
			}
			x, ok := named[rest[1:end]]
			if !ok {
				return nil, fmt.Errorf("the format asks for %q, which is not given", rest[1:end])
			}
			v, skip = x, end+1
		} else {
			if used >= len(list) {
				return nil, errors.New("the format asks for more values than are given")
			}
			v = list[used]
			used++
		}
		n := strings.IndexAny(rest[skip:], "sdifFeEgGxXocr")
		if n < 0 || n > 12 || strings.Trim(rest[skip:skip+n], "-+ #0123456789.") != "" || longNumber(rest[skip:skip+n]) {
			return nil, errors.New("the format has a % that is not understood")
		}
		text, err := formatOne(rest[skip:skip+n], rest[skip+n], v)
		if err != nil {
			return nil, err
		}
		b.WriteString(text)
		i += skip + n + 1
		if b.Len() > MaxOutput {
			return nil, errTooLarge
		}
	}
	if named == nil && used < len(list) && isList {
		return nil, errors.New("the format asks for fewer values than are given")
	}
	return b.String(), nil
}

func formatOne(flags string, verb byte, v any) (string, error) {
	switch verb {
	case 's':
		return fmt.Sprintf("%"+flags+"s", pyStr(v)), nil
	case 'r':
		return fmt.Sprintf("%"+flags+"s", pyRepr(v)), nil
	}
	n, ok := number(v)
	if !ok {
		return "", fmt.Errorf("%%%c takes a number, found %s", verb, typeName(v))
	}
	switch verb {
	case 'd', 'i', 'x', 'X', 'o', 'c':
		if verb == 'i' {
			verb = 'd'
		}
		if i, ok := v.(int); ok {
			return fmt.Sprintf("%"+flags+string(verb), i), nil
		}
		return fmt.Sprintf("%"+flags+string(verb), int(n)), nil
	default:
		return fmt.Sprintf("%"+flags+string(verb), n), nil
	}
}

// pyJSON is Jinja's tojson: Python's spacing, keys sorted, safe inside HTML.
func pyJSON(v any, indent int) (any, error) {
	text, err := plainJSON(v, indent)
	if err != nil {
		return nil, err
	}
	return strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`, "'", `\u0027`).Replace(text), nil
}

// plainJSON is Python's json.dumps.
func plainJSON(v any, indent int) (string, error) {
	var b strings.Builder
	err := writeJSON(&b, v, indent, 0)
	return b.String(), err
}

func writeJSON(b *strings.Builder, v any, indent, depth int) error {
	if b.Len() > MaxOutput {
		return errTooLarge
	}
	open := func(c byte) { b.WriteByte(c) }
	next := func(first bool, d int) {
		if !first {
			b.WriteByte(',')
			if indent == 0 {
				b.WriteByte(' ')
			}
		}
		if indent > 0 {
			b.WriteString("\n" + strings.Repeat(" ", indent*d))
		}
	}
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case int:
		b.WriteString(strconv.Itoa(v))
	case float64:
		b.WriteString(pyFloat(v))
	case string:
		quoteJSON(b, v)
	case *moment:
		quoteJSON(b, v.iso("T"))
	case *span:
		quoteJSON(b, v.String())
	case []any:
		open('[')
		for i := range v {
			next(i == 0, depth+1)
			if err := writeJSON(b, v[i], indent, depth+1); err != nil {
				return err
			}
		}
		if len(v) > 0 && indent > 0 {
			next(true, depth)
		}
		open(']')
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		open('{')
		for i, k := range keys {
			next(i == 0, depth+1)
			quoteJSON(b, k)
			b.WriteString(": ")
			if err := writeJSON(b, v[k], indent, depth+1); err != nil {
				return err
			}
		}
		if len(v) > 0 && indent > 0 {
			next(true, depth)
		}
		open('}')
	default:
		return fmt.Errorf("a %s cannot be written as JSON", typeName(v))
	}
	return nil
}

// quoteJSON writes a text in ASCII, as Python does.
func quoteJSON(b *strings.Builder, s string) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if enc.Encode(s) != nil {
		b.WriteString(`""`)
		return
	}
	for _, c := range strings.TrimSuffix(buf.String(), "\n") {
		switch {
		case c < 0x80:
			b.WriteRune(c)
		case c >= 0x10000:
			hi, lo := utf16.EncodeRune(c)
			fmt.Fprintf(b, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(b, `\u%04x`, c)
		}
	}
}
