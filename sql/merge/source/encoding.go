package source

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Encoding is how the characters of a file are written as bytes.
type Encoding string

// Encodings. The zero value is UTF-8 unless a byte order mark says UTF-16.
const (
	AnyEncoding Encoding = ""
	UTF8        Encoding = "utf-8"
	// UTF16 takes its byte order from the mark, which must be there.
	UTF16       Encoding = "utf-16"
	UTF16LE     Encoding = "utf-16-le"
	UTF16BE     Encoding = "utf-16-be"
	Latin1      Encoding = "iso-8859-1"
	Windows1252 Encoding = "windows-1252"
)

// Encodings lists the names that ParseEncoding takes, for messages.
const Encodings = "utf-8, utf-16, utf-16-le, utf-16-be, iso-8859-1, windows-1252"

// ParseEncoding reads a name as people write it: "UTF8", "latin-1", "cp1252".
func ParseEncoding(name string) (Encoding, bool) {
	switch strings.NewReplacer("_", "-", " ", "-").Replace(strings.ToLower(name)) {
	case "":
		return AnyEncoding, true
	case "utf-8", "utf8", "utf-8-sig", "utf8-sig", "ascii", "us-ascii":
		return UTF8, true
	case "utf-16", "utf16":
		return UTF16, true
	case "utf-16-le", "utf-16le", "utf16le":
		return UTF16LE, true
	case "utf-16-be", "utf-16be", "utf16be":
		return UTF16BE, true
	case "latin-1", "latin1", "iso-8859-1", "iso8859-1":
		return Latin1, true
	case "windows-1252", "cp1252", "cp-1252":
		return Windows1252, true
	}
	return "", false
}

// oneByte tells whether each byte is a character.
func (e Encoding) oneByte() bool { return e == Latin1 || e == Windows1252 }

// start looks at the first bytes of a file: it takes a byte order mark away,
// makes the window give UTF-16 as UTF-8, and refuses by name what the step's
// encoding does not fit. It returns the encoding that the rows have.
func (w *window) start(name string, want Encoding) (Encoding, error) {
	b := w.peek(4)
	refuse := func(what, hint string) error {
		return fmt.Errorf("%s: the file is %s: %w; %s", name, what, ErrEncoding, hint)
	}
	found, mark := AnyEncoding, 0
	switch {
	case bytes.HasPrefix(b, []byte{0xFF, 0xFE, 0, 0}), bytes.HasPrefix(b, []byte{0, 0, 0xFE, 0xFF}):
		return "", refuse("UTF-32", "save it as UTF-8")
	case bytes.HasPrefix(b, []byte{0xEF, 0xBB, 0xBF}):
		found, mark = UTF8, 3
	case bytes.HasPrefix(b, []byte{0xFF, 0xFE}):
		found, mark = UTF16LE, 2
	case bytes.HasPrefix(b, []byte{0xFE, 0xFF}):
		found, mark = UTF16BE, 2
	}
	names := map[Encoding]string{UTF8: "UTF-8", UTF16LE: "UTF-16 (little endian)", UTF16BE: "UTF-16 (big endian)"}
	switch {
	case want.oneByte():
		if mark > 0 {
			return "", refuse(names[found]+" by its first bytes", "the step says encoding: "+string(want))
		}
		return want, nil
	case want == UTF16 && mark == 0 && len(b) > 0:
		return "", refuse("without a byte order mark", "say encoding: utf-16-le or utf-16-be")
	case want == UTF16 && found == UTF8, (want == UTF16LE || want == UTF16BE) && mark > 0 && want != found, want == UTF8 && mark == 2:
		return "", refuse(names[found]+" by its first bytes", "the step says encoding: "+string(want))
	case mark == 0 && (want == AnyEncoding || want == UTF8):
		if len(b) == 4 && b[0] != 0 && b[1] == 0 && b[2] != 0 && b[3] == 0 {
			return "", refuse("UTF-16 (little endian) without a byte order mark", "say encoding: utf-16-le")
		}
		if len(b) == 4 && b[0] == 0 && b[1] != 0 && b[2] == 0 && b[3] != 0 {
			return "", refuse("UTF-16 (big endian) without a byte order mark", "say encoding: utf-16-be")
		}
		return UTF8, nil
	case mark == 0:
		found = want
	}
	w.take(mark)
	if found == UTF16LE || found == UTF16BE {
		w.transcode(found)
	}
	return found, nil
}

// transcode makes a window over UTF-16 give UTF-8 while its offsets go on
// counting the file's own bytes.
func (w *window) transcode(e Encoding) {
	rest := bytes.Clone(w.bytes())
	var tail io.Reader = bytes.NewReader(nil)
	if !w.eof {
		tail = w.r
	}
	w.r = &fromUTF16{r: io.MultiReader(bytes.NewReader(rest), tail), order: byteOrder(e)}
	w.buf, w.head, w.eof = w.buf[:0], 0, false
	w.encoding = e
}

func byteOrder(e Encoding) byteOrders {
	if e == UTF16BE {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

type byteOrders interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// fromUTF16 reads UTF-16 as UTF-8, without loss: half of a surrogate pair
// becomes three bytes that are not valid UTF-8, a last odd byte three others, so
// that the row with them is found bad and its own bytes can be given back.
type fromUTF16 struct {
	r     io.Reader
	order byteOrders
	in    []byte // read and not yet decoded
	out   []byte // decoded and not yet given
	err   error
}

// First of the three bytes that stand for half a pair, and for a last odd byte.
const (
	loneSurrogateByte = 0xED
	oddByte           = 0xFF
)

// Read implements io.Reader.
func (f *fromUTF16) Read(p []byte) (int, error) {
	for len(f.out) == 0 {
		if f.err != nil {
			return 0, f.err
		}
		f.fill()
	}
	n := copy(p, f.out)
	f.out = f.out[n:]
	return n, nil
}

func (f *fromUTF16) fill() {
	buf := make([]byte, 32<<10)
	n, err := f.r.Read(buf)
	f.in, f.err = append(f.in, buf[:n]...), err
	out := make([]byte, 0, 2*len(f.in)+8)
	i := 0
	for ; i+1 < len(f.in); i += 2 {
		u := rune(f.order.Uint16(f.in[i:]))
		if utf16.IsSurrogate(u) {
			if u < 0xDC00 && i+3 >= len(f.in) && err == nil {
				break // its other half is not read yet
			}
			if i+3 < len(f.in) {
				if r := utf16.DecodeRune(u, rune(f.order.Uint16(f.in[i+2:]))); r != utf8.RuneError {
					out = utf8.AppendRune(out, r)
					i += 2
					continue
				}
			}
			out = append(out, loneSurrogateByte, 0x80|byte(u>>6)&0x3F, 0x80|byte(u)&0x3F)
			continue
		}
		out = utf8.AppendRune(out, u)
	}
	f.in = f.in[i:]
	if err != nil && len(f.in) == 1 {
		out = append(out, oddByte, 0x80|f.in[0]>>4, 0x80|f.in[0]&0x0F)
		f.in = nil
	}
	f.out = out
}

// original gives the file's own bytes of a text that the window gave.
func (w *window) original(text string) string {
	if w.encoding == AnyEncoding {
		return text
	}
	order := byteOrder(w.encoding)
	out := make([]byte, 0, 2*len(text))
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r != utf8.RuneError || size > 1:
			if hi, lo := utf16.EncodeRune(r); hi != utf8.RuneError {
				out = order.AppendUint16(order.AppendUint16(out, uint16(hi)), uint16(lo))
			} else {
				out = order.AppendUint16(out, uint16(r))
			}
			i += size
		case i+2 < len(text) && text[i] == oddByte:
			out = append(out, text[i+1]<<4|text[i+2]&0x0F)
			i += 3
		case i+2 < len(text) && text[i] == loneSurrogateByte:
			out = order.AppendUint16(out, uint16(text[i]&0x0F)<<12|uint16(text[i+1]&0x3F)<<6|uint16(text[i+2]&0x3F))
			i += 3
		default:
			i++ // a character that a limit cut in two
		}
	}
	return string(out)
}

// size is how many bytes of the file stand behind bytes that the window gave.
func (w *window) size(b []byte) int64 {
	if w.encoding == AnyEncoding {
		return int64(len(b))
	}
	return int64(len(w.original(string(b))))
}

// toUTF8 turns bytes of a one-byte encoding into UTF-8; windows-1252 leaves
// five bytes without a character, which are reported.
func (e Encoding) toUTF8(s string) (text string, ok bool) {
	ok = true
	for i := range len(s) {
		if s[i] < utf8.RuneSelf {
			continue
		}
		runes := make([]rune, len(s))
		for j := range len(s) {
			runes[j] = rune(s[j])
			if e == Windows1252 && s[j] >= 0x80 && s[j] < 0xA0 {
				runes[j] = windows1252[s[j]-0x80]
				ok = ok && runes[j] != 0
			}
		}
		return string(runes), ok
	}
	return s, ok
}

// windows1252 has the characters of the bytes 80 to 9F, 0 where there is none.
var windows1252 = [32]rune{
	'€', 0, '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', 0, 'Ž', 0,
	0, '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', 0, 'ž', 'Ÿ',
}
