package app

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
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

// logger is where log callbacks write while the display shows a run: one short
// line each, above the bars.
func (d *display) logger() *slog.Logger { return slog.New(shown{d: d, least: slog.LevelDebug}) }

// missed is where the outbox writes meanwhile: what was not delivered is told, and
// to whom, and why.
func (d *display) missed() *slog.Logger { return slog.New(shown{d: d, least: slog.LevelWarn}) }

// shown is a slog.Handler of the display. It says which task a line is about
// and leaves out what the lines around it say already.
type shown struct {
	d     *display
	least slog.Level
	attrs []slog.Attr
}

func (h shown) Enabled(_ context.Context, level slog.Level) bool { return level >= h.least }
func (h shown) WithGroup(string) slog.Handler                    { return h }

func (h shown) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.attrs = append(slices.Clip(h.attrs), attrs...)
	return h
}

func (h shown) Handle(_ context.Context, r slog.Record) error {
	about, name, receiver, cause := dag.TaskInstanceKey{MapIndex: -1}, "", "", ""
	look := func(a slog.Attr) bool {
		switch a.Key {
		case "subject": // dag/run, or dag/run/task
			if parts := strings.SplitN(a.Value.String(), "/", 3); len(parts) == 3 {
				name = parts[2]
			}
		case "receiver":
			receiver = a.Value.String() + ": "
		case "cause":
			cause = ": " + firstLine(a.Value.String(), 300)
		case "task_id":
			about.TaskID = a.Value.String()
		case "map_index":
			if a.Value.Kind() == slog.KindInt64 {
				about.MapIndex = int(a.Value.Int64())
			}
		}
		return true
	}
	for _, a := range h.attrs {
		look(a)
	}
	r.Attrs(look)
	h.d.line("%s: %s%s%s", cmp.Or(label(about), name, "run"), receiver, r.Message, cause)
	return nil
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
			fmt.Fprintf(d.out, "%s %s\n", name, p)
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
		d.line("%s sealed: %s %s: %s", short(c), r.Letter.ErrorClass, r.Letter.ErrorCode, firstLine(r.Letter.ErrorMessage, 300))
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

func short(c dag.Claim) string { return label(c.TaskInstanceKey) }

// label names an instance within its run.
func label(k dag.TaskInstanceKey) string {
	if k.MapIndex >= 0 {
		return fmt.Sprintf("%s[%d]", k.TaskID, k.MapIndex)
	}
	return k.TaskID
}
