package gpu

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/ffmpeg"
)

// DefaultMaxAge is how long an answer of a Prober holds.
const DefaultMaxAge = 10 * time.Minute

// probeTimeout bounds one small encode.
const probeTimeout = 30 * time.Second

// Prober finds out by trying which encoders work. It is safe for concurrent
// use; a question that is being answered is not asked twice.
type Prober struct {
	Clock dag.Clock
	// MaxAge of an answer; DefaultMaxAge when 0.
	MaxAge time.Duration

	flight singleflight.Group
	mu     sync.Mutex
	known  map[string]answer
}

type answer struct {
	fail *dag.TaskError
	at   time.Time
}

// Usable makes a few frames with the encoder on the device (nil for the
// processor) and gives nil when that worked, else why not. The answer is kept
// for this ffmpeg, driver, device and pixel format. The error is set only when
// ctx is done.
func (p *Prober) Usable(ctx context.Context, tool ffmpeg.Tool, enc Encoder, dev *Device, pixelFormat string) (*dag.TaskError, error) {
	return p.ask(ctx, probeKey(tool, enc, dev, pixelFormat), func() (*dag.TaskError, error) {
		return p.try(ctx, tool, enc, dev, pixelFormat)
	})
}

// ask gives the answer that is known, or tries; one question at a time.
func (p *Prober) ask(ctx context.Context, key string, try func() (*dag.TaskError, error)) (*dag.TaskError, error) {
	if a, ok := p.lookup(key); ok {
		return a.fail, nil
	}
	v, err, _ := p.flight.Do(key, func() (any, error) {
		if a, ok := p.lookup(key); ok {
			return a.fail, nil
		}
		fail, err := try()
		if err != nil {
			return nil, err
		}
		if fail != nil && fail.Class == dag.ClassTransient {
			return fail, nil // all sessions in use, say: the next one asks again
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.known == nil {
			p.known = map[string]answer{}
		}
		p.known[key] = answer{fail: fail, at: p.Clock.Now()}
		return fail, nil
	})
	if err != nil {
		if ctx.Err() == nil {
			// It was another attempt's context that ended.
			return p.ask(ctx, key, try)
		}
		return nil, err
	}
	fail, _ := v.(*dag.TaskError)
	return fail, nil
}

// Forget drops an answer, after an encode has failed for want of the encoder.
func (p *Prober) Forget(tool ffmpeg.Tool, enc Encoder, dev *Device, pixelFormat string) {
	p.drop(probeKey(tool, enc, dev, pixelFormat))
}

// drop forgets an answer and those that follow from it.
func (p *Prober) drop(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.known, func(k string, _ answer) bool { return k == key || strings.HasPrefix(k, key+"|") })
}

func (p *Prober) lookup(key string) (answer, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, ok := p.known[key]
	maxAge := p.MaxAge
	if maxAge == 0 {
		maxAge = DefaultMaxAge
	}
	if !ok || p.Clock.Now().Sub(a.at) > maxAge {
		return answer{}, false
	}
	return a, true
}

func probeKey(tool ffmpeg.Tool, enc Encoder, dev *Device, pixelFormat string) string {
	key := fmt.Sprintf("%s;%s;%s;%s;%s", tool.FFmpeg, tool.Version.Text, tool.Version.Libraries["libavcodec"], enc.Name, pixelFormat)
	if dev != nil {
		key += ";" + dev.ID + ";" + dev.Driver
	}
	return key
}

// try encodes five frames of 256x256: smaller ones are below what some
// encoders take.
func (p *Prober) try(ctx context.Context, tool ffmpeg.Tool, enc Encoder, dev *Device, pixelFormat string) (*dag.TaskError, error) {
	if enc.Kind() != "" && dev == nil {
		return &dag.TaskError{Class: dag.ClassCapability, Code: codeOf(enc), Message: fmt.Sprintf("this machine has no device for %s", enc.Name)}, nil
	}
	const source = "testsrc2=size=256x256:rate=25:duration=0.2"
	var args []string
	switch enc.Accel {
	case AccelVAAPI:
		args = append(InitArgs(enc.Accel, dev), "-f", "lavfi", "-i", source, "-vf", "format="+Surface(pixelFormat)+",hwupload")
	case AccelQSV:
		args = append(InitArgs(enc.Accel, dev), "-f", "lavfi", "-i", source, "-pix_fmt", Surface(pixelFormat))
	case AccelNVENC:
		args = []string{"-f", "lavfi", "-i", source, "-pix_fmt", NVENCFormat(pixelFormat), "-gpu", "0"}
	case AccelSoftware:
		args = []string{"-f", "lavfi", "-i", source, "-pix_fmt", pixelFormat}
	}
	args = append(args, "-c:v", enc.Name, "-f", "null", "-")
	job := ffmpeg.Job{
		Args: args, Clock: p.Clock, Grace: time.Second,
		Limits: ffmpeg.Limits{Startup: probeTimeout, Stall: probeTimeout},
	}
	if dev != nil {
		job.Env = dev.Env()
	}
	end, err := tool.Run(ctx, job)
	if err != nil {
		return nil, fmt.Errorf("probe %s: %w", enc.Name, err)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	fail := end.Classify()
	if fail != nil && fail.Class != dag.ClassTransient && fail.Class != dag.ClassCapability {
		// These are our own arguments: whatever this build dislikes about them (it
		// may not even know an option), it cannot encode so.
		fail.Class, fail.Code, fail.Hint = dag.ClassCapability, codeOf(enc), "this build of ffmpeg cannot use the encoder"
	}
	if fail != nil && dev != nil && dev.Note() != "" {
		fail.Hint = dev.Note()
	}
	return fail, nil
}

// Surface is the layout in which hardware takes a pixel format.
func Surface(pixelFormat string) string {
	if strings.HasPrefix(pixelFormat, "yuv420p10") || strings.HasPrefix(pixelFormat, "p010") {
		return "p010le"
	}
	return "nv12"
}

// NVENCFormat is the layout in which NVENC takes a pixel format: of 10 bits it
// knows only the packed one, and later releases of ffmpeg do not convert by
// themselves.
func NVENCFormat(pixelFormat string) string {
	if pixelFormat == "yuv420p10le" {
		return "p010le"
	}
	return pixelFormat
}

func codeOf(enc Encoder) string {
	switch enc.Accel {
	case AccelNVENC:
		return ffmpeg.CodeNVENCUnavailable
	case AccelVAAPI:
		return ffmpeg.CodeVAAPIUnavailable
	case AccelQSV:
		return ffmpeg.CodeQSVUnavailable
	case AccelSoftware:
		return ffmpeg.CodeUnknownEncoder
	default:
		return ffmpeg.CodeNoUsableEncoder
	}
}
