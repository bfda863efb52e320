package proc

import (
	"bytes"
	"sync"
)

// Tail is a writer that keeps the last bytes of what is written and counts the
// rest. Its memory is bounded by twice its limit. It is safe for concurrent use.
type Tail struct {
	mu      sync.Mutex
	limit   int
	buf     []byte
	written int64
	lines   int64
}

// NewTail keeps the last limit bytes; at least one.
func NewTail(limit int) *Tail { return &Tail{limit: max(limit, 1)} }

// Write implements io.Writer and never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	t.written += int64(n)
	t.lines += int64(bytes.Count(p, []byte{'\n'}))
	if n >= t.limit {
		t.buf = append(t.buf[:0], p[n-t.limit:]...)
		return n, nil
	}
	t.buf = append(t.buf, p...)
	if len(t.buf) > 2*t.limit {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-t.limit:]...)
	}
	return n, nil
}

// String is the kept end of what was written.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf[max(0, len(t.buf)-t.limit):])
}

// Lines counts the line ends that were written.
func (t *Tail) Lines() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lines
}

// Written counts all bytes that were written.
func (t *Tail) Written() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.written
}

// Cut tells whether the beginning is not kept any more.
func (t *Tail) Cut() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.written > int64(min(len(t.buf), t.limit))
}
