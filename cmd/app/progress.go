package app

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/operator"
)

// plainStep is how much a progress must have grown before a plain line tells.
const plainStep = 0.25

// display shows how a test run goes: a bar for each attempt that reports
// progress on a terminal, plain lines elsewhere.
type display struct {
	mu    sync.Mutex
	out   io.Writer
	bars  progress.Writer // nil when plain
	track map[int64]*progress.Tracker
	told  map[int64]float64
	ended bool
}

func newProgress(out io.Writer, terminal bool) *display {
	d := &display{out: out, track: map[int64]*progress.Tracker{}, told: map[int64]float64{}}
	if !terminal {
		return d
	}
	w := progress.NewWriter()
	w.SetOutputWriter(out)
	w.SetAutoStop(false)
	w.SetTrackerLength(24)
	w.SetMessageLength(34)
	w.SetUpdateFrequency(100 * time.Millisecond)
	w.SetStyle(progress.StyleBlocks)
	w.Style().Visibility = progress.StyleVisibility{ETA: true, Percentage: true, Time: true, Tracker: true}
	w.Style().Options.TimeInProgressPrecision = time.Second
	w.Style().Options.TimeDonePrecision = 100 * time.Millisecond
	d.bars = w
	go w.Render()
	return d
}

// line writes one line above the bars.
func (d *display) line(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bars != nil && !d.ended {
		d.bars.Log(format, args...)
		return
	}
	fmt.Fprintf(d.out, format+"\n", args...)
}

// logger writes log lines above the bars, without what the lines around them
// say already.
func (d *display) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(lines{d}, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch a.Key {
		case slog.TimeKey, slog.LevelKey, "dag_id", "run_id", "log_path", "dedup_key", "exception", "event":
			return slog.Attr{}
		default:
			return a
		}
	}}))
}

// lines is a writer of whole lines.
type lines struct{ d *display }

func (l lines) Write(p []byte) (int, error) {
	l.d.line("%s", strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}

// progress takes an attempt's report.
func (d *display) progress(c dag.Claim, p operator.Progress) {
	if p.Fraction < 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	name := short(c)
	if d.bars == nil {
		if last, seen := d.told[c.ID]; !seen || p.Fraction >= last+plainStep {
			d.told[c.ID] = p.Fraction
			fmt.Fprintf(d.out, "%s %3.0f%% %s\n", name, 100*p.Fraction, p.Text)
		}
		return
	}
	t := d.track[c.ID]
	if t == nil {
		t = &progress.Tracker{Message: name, Total: 1000}
		d.track[c.ID] = t
		d.bars.AppendTracker(t)
	}
	t.SetValue(int64(1000 * p.Fraction))
}

// end tells how an attempt ended.
func (d *display) end(c dag.Claim, r dag.Result) {
	d.mu.Lock()
	if t := d.track[c.ID]; t != nil {
		if r.State == dag.StateSuccess {
			t.MarkAsDone()
		} else {
			t.MarkAsErrored()
		}
		delete(d.track, c.ID)
	}
	d.mu.Unlock()
	switch r.State {
	case dag.StateFailed:
		d.line("%s sealed: %s %s: %s", short(c), r.Letter.ErrorClass, r.Letter.ErrorCode, firstLine(r.Letter.ErrorMessage, 100))
	case dag.StateUpForRetry:
		d.line("%s failed (%s), tried again in %s", short(c), r.Attempt.ErrorCode, r.Delay.Round(time.Millisecond))
	default:
		d.line("%s %s", short(c), r.State)
	}
}

// stop ends the bars; the last state stays on the screen.
func (d *display) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bars == nil || d.ended {
		return
	}
	d.ended = true
	d.bars.Stop()
	for d.bars.IsRenderInProgress() {
		<-time.After(10 * time.Millisecond) //nolint:forbidigo // the display draws its last picture; nothing is measured
	}
}

func short(c dag.Claim) string {
	if c.MapIndex >= 0 {
		return fmt.Sprintf("%s[%d]", c.TaskID, c.MapIndex)
	}
	return c.TaskID
}
