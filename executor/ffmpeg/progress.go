package ffmpeg

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"
)

// Progress is one block of `ffmpeg -progress`. A value that ffmpeg does not
// know is negative.
type Progress struct {
	Frame int64
	FPS   float64
	// OutTime is the position in the output.
	OutTime time.Duration
	// TotalSize is the bytes written so far; it lags behind until the muxer
	// flushes.
	TotalSize int64
	Dropped   int64
	Duplicate int64
	// Speed is media time by wall time.
	Speed float64
	// End is set in the last block. It comes after a SIGTERM, too, so it says
	// nothing about success.
	End bool
}

func unknownProgress() Progress {
	return Progress{Frame: -1, FPS: -1, OutTime: -1, TotalSize: -1, Dropped: -1, Duplicate: -1, Speed: -1}
}

// ProgressWriter cuts what ffmpeg writes to `-progress pipe:1` into blocks and
// calls Block for each, in the order of writing. It is an io.Writer and is not
// safe for concurrent use.
type ProgressWriter struct {
	Block func(Progress)

	rest    []byte
	current Progress
	started bool
}

// maxProgressLine bounds what is kept of a line without an end.
const maxProgressLine = 4096

// Write implements io.Writer; it never fails.
func (w *ProgressWriter) Write(p []byte) (int, error) {
	n := len(p)
	w.rest = append(w.rest, p...)
	for {
		i := bytes.IndexByte(w.rest, '\n')
		if i < 0 {
			break
		}
		w.line(string(w.rest[:i]))
		w.rest = w.rest[i+1:]
	}
	if len(w.rest) > maxProgressLine {
		w.rest = nil
	}
	return n, nil
}

func (w *ProgressWriter) line(line string) {
	key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
	if !ok {
		return
	}
	if !w.started {
		w.current, w.started = unknownProgress(), true
	}
	value = strings.TrimSpace(value)
	switch key {
	case "frame":
		w.current.Frame = integer(value)
	case "fps":
		w.current.FPS = positive(value)
	case "out_time_us": // out_time_ms holds microseconds as well, in every version
		if us := integer(value); us >= 0 && us < math.MaxInt64/1000 {
			w.current.OutTime = time.Duration(us) * time.Microsecond
		}
	case "total_size":
		w.current.TotalSize = integer(value)
	case "drop_frames":
		w.current.Dropped = integer(value)
	case "dup_frames":
		w.current.Duplicate = integer(value)
	case "speed":
		w.current.Speed = positive(strings.TrimSuffix(value, "x"))
	case "progress":
		w.current.End = value == "end"
		if w.Block != nil {
			w.Block(w.current)
		}
		w.started = false
	}
}

// integer reads a count; -1 for N/A and anything else that is none.
func integer(text string) int64 {
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < 0 {
		return -1
	}
	return v
}

func positive(text string) float64 {
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return -1
	}
	return v
}

// Meter turns blocks into a fraction and a time left. Total is the expected
// length of the output; 0 when it is not known.
type Meter struct {
	Total time.Duration
	// speed is the moving average of what ffmpeg reports; 0 before the first.
	speed float64
}

// Unverified is the greatest fraction that is shown before the output has been
// verified.
const Unverified = 0.99

// Update takes a block in. The fraction is -1 and the time left 0 when they
// are not known.
func (m *Meter) Update(p Progress) (fraction float64, left time.Duration) {
	if p.Speed > 0 {
		if m.speed == 0 {
			m.speed = p.Speed
		} else {
			m.speed = 0.7*m.speed + 0.3*p.Speed
		}
	}
	if m.Total <= 0 || p.OutTime < 0 {
		return -1, 0
	}
	fraction = min(p.OutTime.Seconds()/m.Total.Seconds(), Unverified)
	if rest := m.Total - p.OutTime; m.speed > 0 && rest > 0 {
		left = time.Duration(min(rest.Seconds()/m.speed, 1e6) * float64(time.Second))
	}
	return fraction, left
}
