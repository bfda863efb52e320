package transcode

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/ffmpeg"
	"github.com/airlock-dag/airlock/executor/gpu"
	"github.com/airlock-dag/airlock/executor/operator"
)

// encoded is an output that stands under its temporary name, verified.
type encoded struct {
	encoder, device string
	probe           *ffmpeg.Probe
	sha256          string
	size            int64
	decodeErrors    int
	seconds         float64
	// chunks are the boundaries of the pieces, in seconds; none for one piece.
	chunks []float64
	// stderr is what the last ffmpeg said.
	stderr string

	mu sync.Mutex // of seconds and decodeErrors
}

// Guards against a gap in the timestamps that makes an output without end.
const (
	sizeFactor   = 50
	sizeReserve  = 64 << 20
	frameFactor  = 10
	frameReserve = 1000
)

// encode makes one encode on one of the devices (nil for none) and verifies it.
// fail is why it is no good; made is never nil when err is nil.
func (a *attempt) encode(ctx context.Context, src *source, r rung, devices []*gpu.Device, temporary string) (made *encoded, fail *dag.TaskError, err error) {
	made = &encoded{encoder: r.encoder.Name}
	var dev *gpu.Device
	if devices[0] != nil {
		list := make([]gpu.Device, len(devices))
		for i, d := range devices {
			list[i] = *d
		}
		a.t.Progress(operator.Progress{Fraction: -1, Text: "waiting for a GPU slot"})
		taken, release, err := a.op.Slots.Acquire(ctx, list)
		if err != nil {
			return nil, nil, fmt.Errorf("wait for a GPU slot: %w", err)
		}
		defer release()
		dev, made.device = &taken, taken.ID
	}
	if made.chunks = a.pieces(src, r); made.chunks != nil {
		fail, err := a.encodeChunks(ctx, src, r, dev, made, temporary)
		if err != nil {
			return nil, nil, err
		}
		if fail == nil || fail.Code != codePieces {
			return a.finish(ctx, src, made, temporary, fail)
		}
		a.logf("in one piece after all: %s", fail.Message)
		if err := os.RemoveAll(a.out.chunkDir()); err != nil {
			return nil, nil, fmt.Errorf("remove the pieces: %w", err)
		}
		made.chunks, made.decodeErrors = nil, 0
	}
	fail, err = a.encodeWhole(ctx, src, r, dev, made, temporary)
	if err != nil {
		return nil, nil, err
	}
	return a.finish(ctx, src, made, temporary, fail)
}

// finish verifies what was encoded without a failure.
func (a *attempt) finish(ctx context.Context, src *source, made *encoded, temporary string, fail *dag.TaskError) (*encoded, *dag.TaskError, error) {
	if fail != nil {
		return made, fail, nil
	}
	fail, err := a.verify(ctx, src, made, temporary)
	if err != nil {
		return nil, nil, err
	}
	if fail != nil && fail.Stack == "" {
		fail.Stack = made.stderr
	}
	return made, fail, nil
}

// encodeWhole makes the whole output with one ffmpeg.
func (a *attempt) encodeWhole(ctx context.Context, src *source, r rung, dev *gpu.Device, made *encoded, temporary string) (*dag.TaskError, error) {
	p := a.plan(src)
	args := p.args(r, dev, temporary)
	if a.s.realtime {
		args = append([]string{"-re"}, args...)
	}
	meter := &ffmpeg.Meter{Total: src.length}
	job := a.job(src, args, temporary, dev)
	job.Limits.Total = src.length
	job.OnProgress = func(b ffmpeg.Progress) {
		fraction, left := meter.Update(b)
		a.t.Progress(operator.Progress{Fraction: fraction, ETA: left, Text: progressText(r, b), Measures: measures(b)})
	}
	end, err := a.run1(ctx, r.String(), job, made)
	if err != nil {
		return nil, err
	}
	made.stderr = end.Stderr
	fail := end.Classify()
	if fail != nil && fail.Code == ffmpeg.CodeNVENCSessionLimit && dev != nil {
		a.op.Slots.Full(dev.ID)
	}
	if fail != nil {
		fail = a.underStrict(fail)
	}
	return fail, nil
}

// underStrict names the end that strict asks for: the input could be opened, so
// an error without a better name is the first one of its decoder.
func (a *attempt) underStrict(fail *dag.TaskError) *dag.TaskError {
	if !a.s.strict || (fail.Code != ffmpeg.CodeFailed && fail.Code != ffmpeg.CodeNotMedia) {
		return fail
	}
	out := fault.New(ffmpeg.CodeDecodeErrors, "strict: "+fail.Message)
	out.Stack, out.ExitCode = fail.Stack, fail.ExitCode
	return out
}

func (a *attempt) plan(src *source) plan {
	return plan{
		profile: a.s.profile, source: src.probe, input: src.input.Path, version: a.tool.Version,
		deterministic: a.s.deterministic, strict: a.s.strict, threads: a.s.threads, maxFrames: a.maxFrames(src),
	}
}

// job is one run of ffmpeg under the step's limits.
func (a *attempt) job(src *source, args []string, output string, dev *gpu.Device) ffmpeg.Job {
	job := ffmpeg.Job{
		Args: args, Input: src.input.Path, Output: output, Clock: a.t.Clock, Grace: a.op.Grace,
		Limits: ffmpeg.Limits{
			Startup: a.s.startup, Stall: a.s.stall, MaxSize: a.s.maxOutputSize, MaxFrames: a.maxFrames(src),
		},
	}
	if job.Limits.MaxSize == 0 {
		job.Limits.MaxSize = src.input.Size*sizeFactor + sizeReserve
	}
	if dev != nil {
		job.Env = dev.Env()
	}
	return job
}

// maxFrames is the most video frames of the output; 0 for no limit.
func (a *attempt) maxFrames(src *source) int64 {
	if a.s.profile.Video == nil || a.s.maxFrames > 0 {
		return a.s.maxFrames
	}
	if v := src.probe.Video(); v.Frames > 0 {
		return v.Frames*frameFactor + frameReserve
	}
	return 0
}

// run1 runs ffmpeg once, keeps what it said in the log, and adds what it cost
// to made. The error is the cause of ctx, or that ffmpeg could not be started.
func (a *attempt) run1(ctx context.Context, what string, job ffmpeg.Job, made *encoded) (ffmpeg.Ending, error) {
	a.logf("%s: %s %s", what, a.tool.FFmpeg, strings.Join(job.Args, " "))
	end, err := a.tool.Run(ctx, job)
	if err != nil {
		return ffmpeg.Ending{}, err
	}
	a.logStderr(end.Stderr)
	if ctx.Err() != nil {
		return ffmpeg.Ending{}, context.Cause(ctx)
	}
	made.add(end)
	return end, nil
}

// add counts one run of ffmpeg in; pieces run side by side.
func (e *encoded) add(end ffmpeg.Ending) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seconds += end.Result.Duration.Seconds()
	e.decodeErrors += end.DecodeErrors
}

func progressText(r rung, b ffmpeg.Progress) string {
	var parts []string
	if b.Speed > 0 {
		digits := 1
		if b.Speed >= 10 {
			digits = 0
		}
		parts = append(parts, strconv.FormatFloat(b.Speed, 'f', digits, 64)+"x")
	}
	if b.Frame > 0 {
		parts = append(parts, fmt.Sprintf("%d frames", b.Frame))
	}
	return strings.Join(append(parts, r.encoder.Name), ", ")
}

// measures are a block's numbers, as far as they are known.
func measures(b ffmpeg.Progress) map[string]float64 {
	out := map[string]float64{}
	for name, v := range map[string]float64{"fps": b.FPS, "speed": b.Speed, "frames": float64(b.Frame), "bytes": float64(b.TotalSize)} {
		if v >= 0 {
			out[name] = v
		}
	}
	return out
}

// maxLoggedLines is how many of ffmpeg's last lines go to the log.
const maxLoggedLines = 40

func (a *attempt) logStderr(text string) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if over := len(lines) - maxLoggedLines; over > 0 {
		a.logf("ffmpeg: (%d lines before these)", over)
		lines = lines[over:]
	}
	for _, line := range lines {
		if line != "" {
			a.logf("ffmpeg: %s", line)
		}
	}
}

// verify compares the temporary file with its source and fills in what it is.
func (a *attempt) verify(ctx context.Context, src *source, made *encoded, temporary string) (*dag.TaskError, error) {
	info, err := os.Stat(temporary)
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(ffmpeg.CodeOutputUnreadable, "ffmpeg ended with 0 and wrote no file"), nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at the output: %w", err)
	}
	made.size = info.Size()
	check := ffmpeg.Verification{
		Source: src.probe, SourcePackets: src.packets,
		DecodeErrors: made.decodeErrors, MaxDecodeErrors: a.s.maxDecodeErrors,
	}
	a.expect(&check, src.probe)
	if src.packets == nil {
		if made.probe, err = a.tool.Probe(ctx, temporary); err != nil {
			return unreadable(ctx, err)
		}
	} else {
		seen, err := a.tool.Inspect(ctx, temporary, false)
		if err != nil {
			return unreadable(ctx, err)
		}
		made.probe, check.OutputPackets = seen.Probe, seen.Packets
	}
	check.Output = made.probe
	if fail := check.Check(); fail != nil {
		return fail, nil
	}
	if a.s.verify == verifyFull {
		if fail, err := a.decodeAll(ctx, temporary); fail != nil || err != nil {
			return fail, err
		}
	}
	in, err := ffmpeg.ReadInput(ctx, temporary)
	if err != nil {
		return unreadable(ctx, err)
	}
	made.sha256, made.size = in.SHA256, in.Size
	return nil, nil
}

// expect says what the output must have.
func (a *attempt) expect(check *ffmpeg.Verification, src *ffmpeg.Probe) {
	if v := a.s.profile.Video; v != nil {
		w, h := outputSize(src.Video(), v)
		formats := []string{v.PixelFormat}
		if v.PixelFormat == "yuv420p" {
			formats = append(formats, "yuvj420p") // the same layout with a full range
		}
		check.Video = &ffmpeg.WantVideo{
			Codec: v.Codec, PixelFormats: formats, Width: w, Height: h,
			KeepsFrames: v.FPSMode != "cfr" && (v.MaxFPS == 0 || src.Video().FrameRate <= v.MaxFPS),
		}
	}
	if au := a.s.profile.Audio; au != nil && src.Audio() != nil {
		check.Audio = &ffmpeg.WantAudio{Codec: au.Codec, SampleRate: au.SampleRate, Channels: au.Channels}
	}
	check.Subtitles = len(plan{profile: a.s.profile, source: src}.subtitleStreams())
}

// decodeAll decodes the whole output and takes no error.
func (a *attempt) decodeAll(ctx context.Context, path string) (*dag.TaskError, error) {
	a.t.Progress(operator.Progress{Fraction: ffmpeg.Unverified, Text: "decoding the output to verify it"})
	end, err := a.tool.Run(ctx, ffmpeg.Job{
		Args:  []string{"-xerror", "-protocol_whitelist", "file,pipe", "-i", ffmpeg.FileURL(path), "-map", "0:V?", "-map", "0:a?", "-f", "null", "-"},
		Clock: a.t.Clock, Limits: ffmpeg.Limits{Startup: a.s.startup, Stall: a.s.stall}, Grace: time.Second,
	})
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	fail := end.Classify()
	if fail == nil && end.DecodeErrors == 0 {
		return nil, nil
	}
	out := fault.New(ffmpeg.CodeOutputUnreadable, fmt.Sprintf("the output cannot be decoded without errors (%d lines of them)", end.DecodeErrors))
	out.Stack = end.Stderr
	if fail != nil {
		out.Message += ": " + fail.Message
	}
	return out, nil
}

// unreadable names the failure to read an output back. A full disk is what it
// is; anything else is the output's fault and not the input's.
func unreadable(ctx context.Context, err error) (*dag.TaskError, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var fail *dag.TaskError
	if !errors.As(err, &fail) || fail.Code == ffmpeg.CodeFFmpegMissing {
		return nil, err
	}
	out := fault.New(ffmpeg.CodeOutputUnreadable, "the output cannot be read back: "+fail.Message)
	out.Stack = fail.Stack
	return out, nil
}
