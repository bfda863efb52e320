package source

import (
	"bytes"
	"errors"
	"io"
)

// window is a growing view of the unread bytes of a stream. Rows are cut from
// its front; a row can be looked at in full before it is taken, so that a
// reader can go back to the row's second line when its first one is broken.
type window struct {
	r    io.Reader
	buf  []byte
	head int   // first unread byte in buf
	off  int64 // offset in the stream of buf[head]
	line int64 // physical line of buf[head], from 1
	eof  bool
	err  error
	// encoding is that of the file when the window gives another: UTF-16, else "".
	encoding Encoding
}

const windowStart = 128 << 10

func newWindow(r io.Reader) *window {
	return &window{r: r, buf: make([]byte, 0, windowStart), line: 1}
}

// bytes gives what is loaded and unread.
func (w *window) bytes() []byte { return w.buf[w.head:] }

// more loads at least one further byte; it reports false at the end of the
// stream or when reading failed (w.err).
func (w *window) more() bool {
	if w.eof || w.err != nil {
		return false
	}
	if w.head > 0 {
		n := copy(w.buf, w.buf[w.head:])
		w.buf, w.head = w.buf[:n], 0
	}
	if len(w.buf) == cap(w.buf) {
		grown := make([]byte, len(w.buf), 2*cap(w.buf))
		copy(grown, w.buf)
		w.buf = grown
	}
	for range 100 {
		n, err := w.r.Read(w.buf[len(w.buf):cap(w.buf)])
		w.buf = w.buf[:len(w.buf)+n]
		if errors.Is(err, io.EOF) {
			w.eof = true
		} else if err != nil {
			w.err = err
		}
		if n > 0 {
			return true
		}
		if err != nil {
			return false
		}
	}
	w.err = io.ErrNoProgress
	return false
}

// peek loads until n bytes are there or the stream ends.
func (w *window) peek(n int) []byte {
	for len(w.bytes()) < n && w.more() {
	}
	return w.bytes()[:min(n, len(w.bytes()))]
}

// take drops n bytes from the front and counts the lines in them.
func (w *window) take(n int) {
	w.line += int64(bytes.Count(w.buf[w.head:w.head+n], []byte{'\n'}))
	w.off += w.size(w.buf[w.head : w.head+n])
	w.head += n
}

// takeLine drops n bytes that are known to hold one line end at their end.
func (w *window) takeLine(n int) {
	w.line++
	w.off += w.size(w.buf[w.head : w.head+n])
	w.head += n
}

// lineEnd finds the first line feed at or after from, loading as needed up to
// limit bytes. It gives the place of the line feed, or -1 with the reason in
// tooLong (false: the stream ended).
func (w *window) lineEnd(from, limit int) (at int, tooLong bool) {
	for {
		b := w.bytes()
		if from < len(b) {
			if i := bytes.IndexByte(b[from:], '\n'); i >= 0 {
				if from+i > limit {
					return -1, true
				}
				return from + i, false
			}
			from = len(b)
		}
		if from > limit {
			return -1, true
		}
		if !w.more() {
			return -1, false
		}
	}
}

// skipLine drops the rest of the line and gives the number of its bytes,
// without holding more than the window.
func (w *window) skipLine() (size int64) {
	for {
		b := w.bytes()
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			w.takeLine(i + 1)
			return size + int64(i)
		}
		size += int64(len(b))
		w.take(len(b))
		if !w.more() {
			return size
		}
	}
}

// tooLong takes a line beyond the limit: its beginning is kept, its whole size
// told.
func (w *window) tooLong(keep int) (raw string, size int64) {
	b := w.bytes()
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		b = b[:i]
	}
	raw = string(b[:min(keep, len(b))])
	return raw, w.skipLine()
}
