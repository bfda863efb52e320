package transcode

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
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
	end, err := a.runFFmpeg(ctx, src, r, dev, temporary)
	if err != nil {
		return nil, nil, err
	}
	made.seconds = end.Result.Duration.Seconds()
	made.decodeErrors = end.DecodeErrors
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	if fail := end.Classify(); fail != nil {
		return made, a.underStrict(fail), nil
	}
	fail, err = a.verify(ctx, src, made, temporary)
	if err != nil {
		return nil, nil, err
	}
	if fail != nil && fail.Stack == "" {
		fail.Stack = end.Stderr
	}
	return made, fail, nil
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

func (a *attempt) runFFmpeg(ctx context.Context, src *source, r rung, dev *gpu.Device, temporary string) (ffmpeg.Ending, error) {
	p := plan{
		profile: a.s.profile, source: src.probe, input: src.input.Path, version: a.tool.Version,
		deterministic: a.s.deterministic, strict: a.s.strict, threads: a.s.threads,
	}
	args := p.args(r, dev, temporary)
	if a.s.realtime {
		args = append([]string{"-re"}, args...)
	}
	job := ffmpeg.Job{
		Args: args, Input: src.input.Path, Output: temporary, Clock: a.t.Clock, Grace: a.op.Grace,
		Limits: ffmpeg.Limits{
			Startup: a.s.startup, Stall: a.s.stall, Total: src.length,
			MaxSize: a.s.maxOutputSize, MaxFrames: a.s.maxFrames,
		},
	}
	if job.Limits.MaxSize == 0 {
		job.Limits.MaxSize = src.input.Size*sizeFactor + sizeReserve
	}
	if v := p.videoStream(); v != nil && job.Limits.MaxFrames == 0 && v.Frames > 0 {
		job.Limits.MaxFrames = v.Frames*frameFactor + frameReserve
	}
	if dev != nil {
		job.Env = dev.Env()
	}
	meter := &ffmpeg.Meter{Total: src.length}
	job.OnProgress = func(b ffmpeg.Progress) {
		fraction, left := meter.Update(b)
		a.t.Progress(operator.Progress{Fraction: fraction, ETA: left, Text: progressText(r, b)})
	}
	a.logf("%s: %s %s", r, a.tool.FFmpeg, strings.Join(args, " "))
	end, err := a.tool.Run(ctx, job)
	if err != nil {
		return ffmpeg.Ending{}, err
	}
	a.logStderr(end.Stderr)
	return end, nil
}

func progressText(r rung, b ffmpeg.Progress) string {
	var parts []string
	if b.Speed > 0 {
		parts = append(parts, fmt.Sprintf("%.2gx", b.Speed))
	}
	if b.Frame > 0 {
		parts = append(parts, fmt.Sprintf("%d frames", b.Frame))
	}
	return strings.Join(append(parts, r.encoder.Name), ", ")
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
	if made.probe, err = a.tool.Probe(ctx, temporary); err != nil {
		return unreadable(ctx, err)
	}
	check := ffmpeg.Verification{
		Source: src.probe, Output: made.probe, SourcePackets: src.packets,
		DecodeErrors: made.decodeErrors, MaxDecodeErrors: a.s.maxDecodeErrors,
	}
	a.expect(&check, src.probe)
	if a.s.verify != verifyDuration {
		if check.OutputPackets, err = a.tool.Packets(ctx, temporary); err != nil {
			return unreadable(ctx, err)
		}
	}
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
