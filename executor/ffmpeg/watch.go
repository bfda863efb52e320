package ffmpeg

import (
	"fmt"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// Limits bound a running ffmpeg. Zero is no limit.
type Limits struct {
	// Startup is the time until the first advance.
	Startup time.Duration
	// Stall is the time without an advance after that.
	Stall time.Duration
	// Total is the expected length of the output, 0 when unknown. Near it the
	// muxer may rewrite the whole file and says nothing meanwhile: Stall is then
	// at least FinalStall.
	Total time.Duration
	// MaxSize is the greatest output in bytes; MaxFrames the most video frames.
	MaxSize   int64
	MaxFrames int64
}

// FinalStall is the least stall limit of the last few percent of an output.
const FinalStall = 10 * time.Minute

// Watch tells a process that works from one that only talks: later versions
// go on printing the same numbers when the input has stalled, 5.1 goes silent.
// What counts is that the time, the frame count or the size grows. It is plain
// state; times are passed in.
type Watch struct {
	limits  Limits
	start   time.Time
	last    time.Time // of the last advance
	started bool
	best    Progress
}

// NewWatch begins at an instant.
func NewWatch(limits Limits, now time.Time) *Watch {
	return &Watch{limits: limits, start: now, last: now, best: unknownProgress()}
}

// Observe takes a progress block in and tells why the process is to be ended
// now; nil when it is not.
func (w *Watch) Observe(now time.Time, p Progress) *StopError {
	advanced := p.Frame > max(w.best.Frame, 0) || p.OutTime > max(w.best.OutTime, 0) || p.TotalSize > max(w.best.TotalSize, 0)
	w.best.Frame = max(w.best.Frame, p.Frame)
	w.best.OutTime = max(w.best.OutTime, p.OutTime)
	w.best.TotalSize = max(w.best.TotalSize, p.TotalSize)
	if advanced {
		w.started, w.last = true, now
	}
	if w.limits.MaxSize > 0 && p.TotalSize > w.limits.MaxSize {
		return &StopError{
			Class: dag.ClassPermanent, Code: CodeOutputTooLarge,
			Message: fmt.Sprintf("the output reached %d bytes, %d are allowed", p.TotalSize, w.limits.MaxSize),
			Hint:    "raise max_output_size, or look for a gap in the input's timestamps",
		}
	}
	if w.limits.MaxFrames > 0 && p.Frame > w.limits.MaxFrames {
		return &StopError{
			Class: dag.ClassPermanent, Code: CodeTooManyFrames,
			Message: fmt.Sprintf("the output reached %d frames, %d are allowed", p.Frame, w.limits.MaxFrames),
			Hint:    "raise max_frames, or look for a gap in the input's timestamps",
		}
	}
	return nil
}

// Deadline is when Check will have something to say if nothing advances; zero
// for never.
func (w *Watch) Deadline() time.Time {
	switch {
	case !w.started && w.limits.Startup > 0:
		return w.start.Add(w.limits.Startup)
	case w.started && w.limits.Stall > 0:
		return w.last.Add(w.stall())
	default:
		return time.Time{}
	}
}

func (w *Watch) stall() time.Duration {
	if w.limits.Total > 0 && w.best.OutTime.Seconds() >= 0.97*w.limits.Total.Seconds() {
		return max(w.limits.Stall, FinalStall)
	}
	return w.limits.Stall
}

// Check tells whether the process is to be ended at this instant because it
// does not advance.
func (w *Watch) Check(now time.Time) *StopError {
	deadline := w.Deadline()
	if deadline.IsZero() || now.Before(deadline) {
		return nil
	}
	if !w.started {
		return &StopError{
			Class: dag.ClassTransient, Code: CodeStartupTimeout,
			Message: fmt.Sprintf("ffmpeg produced nothing in its first %s", w.limits.Startup),
			Hint:    "raise startup_timeout if the input is slow to open",
		}
	}
	return &StopError{
		Class: dag.ClassTransient, Code: CodeStalled,
		Message: fmt.Sprintf("ffmpeg made no progress for %s (frame %d, %s of output)", w.stall(), w.best.Frame, max(w.best.OutTime, 0)),
		Hint:    "raise stall_timeout if the machine is that slow",
	}
}
