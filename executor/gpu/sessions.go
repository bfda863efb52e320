package gpu

import (
	"context"
	"fmt"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/ffmpeg"
)

// Sessions finds out how many sessions of an encoder a device opens at once, up
// to want: one ffmpeg with that many outputs. The driver's limit may be for the
// whole machine, and others may hold some, so it is what was to be had when it
// was asked; the answer is kept like those of Usable. It is at least 1: the
// encoder is known to be usable. The error is set only when ctx is done.
func (p *Prober) Sessions(ctx context.Context, tool ffmpeg.Tool, enc Encoder, dev *Device, pixelFormat string, want int) (int, error) {
	if want <= 1 || enc.Accel != AccelNVENC || dev == nil {
		return max(want, 1), nil // only NVIDIA's driver counts sessions
	}
	open := 1
	for low, high := 2, want; low <= high; {
		n := (low + high + 1) / 2
		if low == 2 && high == want {
			n = want // most often all of them open
		}
		fail, err := p.ask(ctx, fmt.Sprintf("%s|%d sessions", probeKey(tool, enc, dev, pixelFormat), n), func() (*dag.TaskError, error) {
			fail, err := p.openSessions(ctx, tool, enc, dev, pixelFormat, n)
			if fail != nil && fail.Code == ffmpeg.CodeNVENCSessionLimit {
				fail.Class = dag.ClassCapability // an answer, to be kept for a while
			}
			return fail, err
		})
		if err != nil {
			return 0, err
		}
		if fail == nil {
			open, low = n, n+1
		} else {
			high = n - 1
		}
	}
	return open, nil
}

func (p *Prober) openSessions(ctx context.Context, tool ffmpeg.Tool, enc Encoder, dev *Device, pixelFormat string, n int) (*dag.TaskError, error) {
	args := []string{"-f", "lavfi", "-i", "testsrc2=size=256x256:rate=25:duration=0.2"}
	for range n {
		args = append(args, "-map", "0:v", "-pix_fmt", NVENCFormat(pixelFormat), "-c:v", enc.Name, "-gpu", "0", "-f", "null", "-")
	}
	end, err := tool.Run(ctx, ffmpeg.Job{
		Args: args, Env: dev.Env(), Clock: p.Clock, Grace: time.Second,
		Limits: ffmpeg.Limits{Startup: probeTimeout, Stall: probeTimeout},
	})
	if err != nil {
		return nil, fmt.Errorf("open %d sessions of %s: %w", n, enc.Name, err)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return end.Classify(), nil
}
