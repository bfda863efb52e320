package proc

import (
	"bytes"
	"strings"
	"sync"
	"unicode/utf8"
)

// DefaultLineLimit is the length from which a LineWriter cuts a line, in bytes.
const DefaultLineLimit = 64 << 10

// LineWriter splits what is written into lines. A line longer than its limit is
// delivered cut, with the number of bytes that are left out; what follows it is
// not disturbed. It is safe for concurrent use.
type LineWriter struct {
	mu    sync.Mutex
	limit int
	emit  func(line []byte, cut int64)
	buf   []byte
	cut   int64
	open  bool // a line has begun
}

// NewLineWriter calls emit for each line, without its line end; the slice is
// valid during the call only. limit is DefaultLineLimit when 0.
func NewLineWriter(limit int, emit func(line []byte, cut int64)) *LineWriter {
	if limit <= 0 {
		limit = DefaultLineLimit
	}
	return &LineWriter{limit: limit, emit: emit}
}

// Write implements io.Writer and never fails.
func (w *LineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(p)
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			w.add(p)
			break
		}
		if len(w.buf) == 0 && i <= w.limit { // the common case copies nothing
			w.line(p[:i])
		} else {
			w.add(p[:i])
			w.line(w.buf)
		}
		p = p[i+1:]
	}
	return n, nil
}

// Flush delivers a last line that has no line end.
func (w *LineWriter) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open {
		w.line(w.buf)
	}
}

func (w *LineWriter) add(p []byte) {
	w.open = true
	room := min(len(p), w.limit-len(w.buf))
	w.buf = append(w.buf, p[:room]...)
	w.cut += int64(len(p) - room)
}

func (w *LineWriter) line(b []byte) {
	w.emit(bytes.TrimSuffix(b, []byte{'\r'}), w.cut)
	w.buf, w.cut, w.open = w.buf[:0], 0, false
}

// Printable is a line as a log or a database can hold it: bytes that are not
// UTF-8 become U+FFFD and NUL becomes U+2400.
func Printable(b []byte) string {
	if utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 {
		return string(b)
	}
	return strings.ReplaceAll(strings.ToValidUTF8(string(b), "\uFFFD"), "\x00", "\u2400")
}
