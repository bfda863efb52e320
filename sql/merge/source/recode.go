package source

import (
	"fmt"
	"io"
	"strings"
)

// Decode gives the text of a row's bytes; bytes that are no characters stay
// bytes that are not UTF-8.
func (l *Layout) Decode(raw string) string {
	switch {
	case l.Encoding == UTF16LE || l.Encoding == UTF16BE:
		out, err := io.ReadAll(&fromUTF16{r: strings.NewReader(raw), order: byteOrder(l.Encoding)})
		if err != nil {
			return raw
		}
		return string(out)
	case l.Encoding.oneByte():
		if text, ok := l.Encoding.toUTF8(raw); ok {
			return text
		}
	}
	return raw
}

// Encode gives the bytes of a text as the row's file writes them; an error names
// a character that its encoding has not.
func (l *Layout) Encode(text string) (string, error) {
	switch {
	case l.Encoding == UTF16LE || l.Encoding == UTF16BE:
		return (&window{encoding: l.Encoding}).original(text), nil
	case !l.Encoding.oneByte():
		return text, nil
	}
	bytes := map[rune]byte{}
	for i := range 256 {
		if r, ok := l.Encoding.toUTF8(string([]byte{byte(i)})); ok {
			bytes[[]rune(r)[0]] = byte(i)
		}
	}
	out := make([]byte, 0, len(text))
	for _, r := range text {
		b, ok := bytes[r]
		if !ok {
			return "", fmt.Errorf("%q is no character of %s", r, l.Encoding)
		}
		out = append(out, b)
	}
	return string(out), nil
}
