package ffmpeg

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/proc"
)

// Job is one run of ffmpeg.
type Job struct {
	// Args are all arguments but the program and those that Run adds for
	// progress and messages.
	Args []string
	// Env is KEY=value pairs to add to the environment.
	Env []string
	// Input and Output are the paths that Args name, for the classification;
	// Output's size is watched, too.
	Input, Output string
	Limits        Limits
	Grace         time.Duration
	// OnProgress is called for each progress block; nil for nobody.
	OnProgress func(Progress)
	// OnStart is called with the child's process id; nil for nobody.
	OnStart func(pid int)
	Clock   dag.Clock
}

// quiet are the arguments of every run: no questions, no keyboard, machine
// readable progress, and messages with their level.
func quiet() []string {
	return []string{
		"-hide_banner", "-nostdin", "-nostats", "-y", "-v", "level+warning",
		"-progress", "pipe:1", "-stats_period", "1",
	}
}

// Run runs ffmpeg until it ends, a limit is passed or ctx is done, and reports
// all that is known of the end. The error is a *dag.TaskError and is set only
// when ffmpeg could not be started.
func (t Tool) Run(ctx context.Context, job Job) (Ending, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	r := &running{
		job: job, cancel: cancel,
		watch:   NewWatch(job.Limits, job.Clock.Now()),
		last:    unknownProgress(),
		changed: make(chan struct{}, 1),
	}
	var guard sync.WaitGroup
	guard.Go(func() { r.guard(ctx) })
	defer guard.Wait()
	defer cancel(nil) // before the wait

	stderr := &Stderr{}
	argv := append([]string{t.FFmpeg}, quiet()...)
	if len(job.Env) > 0 {
		argv = append(append([]string{"env"}, job.Env...), argv...)
	}
	res, err := proc.Run(ctx, proc.Command{
		Argv:   append(argv, job.Args...),
		Stdout: &ProgressWriter{Block: r.block},
		Stderr: stderr,
		Grace:  job.Grace,
		Marker: t.Marker,
		Started: func(pid int) {
			if job.OnStart != nil {
				job.OnStart(pid)
			}
		},
	})
	if err != nil {
		return Ending{}, missing(t.FFmpeg, err)
	}
	if stop := r.stopped(); stop != nil && res.Stopped == nil {
		res.Stopped = stop // it ended by itself in the very moment, past a limit all the same
	}
	return Ending{
		Result: res, Stderr: stderr.Tail(), Version: t.Version,
		Input: job.Input, Output: job.Output,
		DecodeErrors: stderr.DecodeErrors(), Last: r.lastBlock(),
	}, nil
}

// running is the state of one Run that its goroutines share.
type running struct {
	job    Job
	cancel context.CancelCauseFunc
	// changed wakes the guard after an advance moved its deadline.
	changed chan struct{}

	mu    sync.Mutex
	watch *Watch
	last  Progress
	stop  *StopError // the limit that was passed
}

func (r *running) stopped() *StopError {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stop
}

func (r *running) block(p Progress) {
	if r.job.Output != "" {
		// ffmpeg's own number lags behind what the file system holds.
		if info, err := os.Stat(r.job.Output); err == nil {
			p.TotalSize = max(p.TotalSize, info.Size())
		}
	}
	r.mu.Lock()
	r.last = p
	stop := r.watch.Observe(r.job.Clock.Now(), p)
	r.note(stop)
	r.mu.Unlock()
	if stop != nil {
		r.cancel(stop)
		return
	}
	select {
	case r.changed <- struct{}{}:
	default:
	}
	if r.job.OnProgress != nil {
		r.job.OnProgress(p)
	}
}

// note keeps the first limit that was passed; the lock is held.
func (r *running) note(stop *StopError) {
	if r.stop == nil {
		r.stop = stop
	}
}

// sizeEvery is how often the output's size is looked at: ffmpeg may say nothing
// for minutes while it fills a gap in the timestamps with frames, and the disk.
const sizeEvery = time.Second

// guard ends the process when its deadline passes or its output grows too large,
// also while it says nothing.
func (r *running) guard(ctx context.Context) {
	for {
		now := r.job.Clock.Now()
		size := int64(-1)
		if r.job.Output != "" {
			if info, err := os.Stat(r.job.Output); err == nil {
				size = info.Size()
			}
		}
		r.mu.Lock()
		p := unknownProgress()
		p.TotalSize = size
		stop := r.watch.Observe(now, p)
		if stop == nil {
			stop = r.watch.Check(now)
		}
		r.note(stop)
		deadline := r.watch.Deadline()
		r.mu.Unlock()
		if stop != nil {
			r.cancel(stop)
			return
		}
		var due <-chan time.Time
		if !deadline.IsZero() {
			due = r.job.Clock.After(deadline.Sub(now))
		}
		var look <-chan time.Time
		if r.job.Output != "" && r.job.Limits.MaxSize > 0 {
			look = r.job.Clock.After(sizeEvery)
		}
		select {
		case <-ctx.Done():
			return
		case <-due:
		case <-look:
		case <-r.changed:
		}
	}
}

func (r *running) lastBlock() Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}
