package executor

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/airlock-dag/airlock/dag"
)

// DefaultLogLimit is how many bytes of one attempt's output its log keeps: all
// but the last logTail of them from the beginning, the rest from the end.
const DefaultLogLimit = 64 << 20

// logTail is how much of the end of a cut log is kept; it is held in memory.
const logTail = 1 << 20

// LogPath is where the log of a try lies below the logs folder, in the layout
// that Airflow's users know. Characters that a file name cannot hold are
// replaced.
func LogPath(k dag.TaskInstanceKey, try int) string {
	parts := []string{"dag_id=" + safeName(k.DagID), "run_id=" + safeName(k.RunID), "task_id=" + safeName(k.TaskID)}
	if k.MapIndex >= 0 {
		parts = append(parts, "map_index="+strconv.Itoa(k.MapIndex))
	}
	return strings.Join(append(parts, fmt.Sprintf("attempt=%d.log", try)), "/")
}

// maxName is the most bytes of an id that go into a file name, which may have
// 255 and has more parts.
const maxName = 200

func safeName(s string) string {
	name := strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r < ' ' {
			return '_'
		}
		return r
	}, s)
	if len(name) <= maxName {
		return name
	}
	// What was cut off may be all that tells two ids apart.
	return strings.ToValidUTF8(name[:maxName-17], "") + "-" + dag.PayloadHash([]byte(s))[:16]
}

// logFile is the log of one attempt. It keeps memory and disk bounded whatever
// a step prints: what is past the head goes to a ring that is written at Close
// behind a mark that says how much was left out.
type logFile struct {
	mu      sync.Mutex
	open    func() (io.WriteCloser, error)
	f       io.WriteCloser // nil until there is something to keep
	noted   []byte         // notes that wait for the first output
	limit   int64
	tail    int // size of the ring
	written int64
	ring    []byte // the last bytes once the head is full
	ringPos int
	ringLen int64 // bytes that went to the ring in all
	secrets [][]byte
}

// attemptLog is the log of an attempt below a folder. The file is made (or
// appended to) by the first write: a step that says nothing and succeeds leaves
// no file and costs none.
func attemptLog(dir, rel string, limit int64) *logFile {
	return newLog(func() (io.WriteCloser, error) {
		path := filepath.Join(dir, filepath.FromSlash(rel))
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return nil, err
		}
		return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	}, limit)
}

func newLog(open func() (io.WriteCloser, error), limit int64) *logFile {
	if limit <= 0 {
		limit = DefaultLogLimit
	}
	return &logFile{open: open, limit: limit, tail: int(min(limit/2, logTail))}
}

// Note writes a line of the engine's own that is worth keeping only beside
// output of the step.
func (l *logFile) Note(format string, args ...any) {
	l.mu.Lock()
	opened := l.f != nil
	if !opened {
		l.noted = fmt.Appendf(l.noted, format, args...)
	}
	l.mu.Unlock()
	if opened {
		_, _ = fmt.Fprintf(l, format, args...)
	}
}

// Mask makes every later occurrence of a secret print as ***.
func (l *logFile) Mask(secret string) {
	if len(secret) < 4 { // shorter ones would eat half of the text
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.secrets = append(l.secrets, []byte(secret))
}

// Write implements io.Writer. It never fails for a full log; a full disk is an
// error that the caller may ignore, the step goes on.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(p)
	if l.f == nil {
		f, err := l.open()
		if err != nil {
			return n, err
		}
		l.f = f
		p = append(l.noted, p...)
		l.noted = nil
	}
	for _, s := range l.secrets {
		p = bytes.ReplaceAll(p, s, []byte("***"))
	}
	head := l.limit - int64(l.tail)
	if room := head - l.written; room > 0 {
		part := p[:min(int64(len(p)), room)]
		if _, err := l.f.Write(part); err != nil {
			return n, err
		}
		l.written += int64(len(part))
		p = p[len(part):]
	}
	if len(p) > 0 {
		l.toRing(p)
	}
	return n, nil
}

func (l *logFile) toRing(p []byte) {
	l.ringLen += int64(len(p))
	size := l.tail
	if len(p) > size {
		p = p[len(p)-size:]
	}
	if len(l.ring) < size { // grow only as far as the output does
		take := min(size-len(l.ring), len(p))
		l.ring = append(l.ring, p[:take]...)
		p = p[take:]
		l.ringPos = len(l.ring) % size
	}
	for len(p) > 0 {
		k := copy(l.ring[l.ringPos:], p)
		p = p[k:]
		l.ringPos = (l.ringPos + k) % size
	}
}

// Close writes the mark and the kept end, and closes the file.
func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return nil
	}
	if l.ringLen > 0 {
		if cut := l.ringLen - int64(len(l.ring)); cut > 0 {
			_, _ = fmt.Fprintf(l.f, "\n[airlock: %d bytes of output left out here, the log keeps %d]\n", cut, l.limit)
		}
		start := 0
		if len(l.ring) == l.tail {
			start = l.ringPos
		}
		_, _ = l.f.Write(l.ring[start:])
		_, _ = l.f.Write(l.ring[:start])
	}
	return l.f.Close()
}
