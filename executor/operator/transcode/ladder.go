package transcode

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/ffmpeg"
	"github.com/airlock-dag/airlock/executor/gpu"
	"github.com/airlock-dag/airlock/executor/operator"
)

// rung is one way to encode.
type rung struct {
	encoder gpu.Encoder
	decode  gpu.Decode
}

func (r rung) String() string {
	if r.decode == gpu.DecodeSoftware {
		return r.encoder.Name
	}
	return r.encoder.Name + " with " + string(r.decode) + " decode"
}

// deviceKind is the family of devices that the rung needs; "" for none.
func (r rung) deviceKind() gpu.Kind {
	if kind := r.encoder.Kind(); kind != "" {
		return kind
	}
	return r.decode.Kind()
}

// Results of a rung.
const (
	rungEncoded  = "encoded"
	rungFailed   = "failed"
	rungUnusable = "unusable"
	rungWaited   = "waited"
)

// RungReport is what became of one way to encode; the attempt's record keeps
// all of them. None costs a retry.
type RungReport struct {
	Encoder string `json:"encoder"`
	Decode  string `json:"decode"` // software, cuda, vaapi or qsv
	Device  string `json:"device,omitempty"`
	// Result is encoded, failed, unusable (a probe said so; nothing was tried) or
	// waited (no session was free; Seconds is how long).
	Result    string  `json:"result"`
	ErrorCode string  `json:"error_code,omitempty"`
	Message   string  `json:"message,omitempty"`
	Seconds   float64 `json:"seconds,omitempty"`
	// Chunks is how many pieces the video was encoded in; 0 for one piece.
	Chunks int `json:"chunks,omitempty"`
}

// Detail is what an attempt's record keeps of this operator.
type Detail struct {
	FFmpeg  string       `json:"ffmpeg"`
	Profile string       `json:"profile"`
	Key     string       `json:"key"`
	Rungs   []RungReport `json:"rungs"`
}

func (a *attempt) report(r RungReport) {
	a.rungs = append(a.rungs, r)
	a.t.Detail(Detail{FFmpeg: a.tool.Version.Text, Profile: a.s.profile.Name, Key: a.key, Rungs: a.rungs})
}

// repeatable are the encoders whose output with one thread is the same each
// time, as far as was measured.
func repeatable() []string { return []string{"libx264", "libx265", "libsvtav1"} }

// ladder lists the ways to encode that the step allows, the preferred first.
// decodesOnly says that there is a device of NVIDIA's: where its encoder cannot
// be used (some cards have none), it can still decode for the processor.
func (a *attempt) ladder(decodesOnly bool) []rung {
	v := a.s.profile.Video
	if v == nil {
		name := audioEncoder(a.s.profile.Audio)
		return []rung{{encoder: gpu.Encoder{Name: name, Codec: a.s.profile.Audio.Codec, Accel: gpu.AccelSoftware}, decode: gpu.DecodeSoftware}}
	}
	var out []rung
	first := true
	for _, e := range gpu.Encoders(v.Codec) {
		software := e.Accel == gpu.AccelSoftware
		switch {
		case a.s.requireEncoder != "" && e.Name != a.s.requireEncoder:
		case a.s.deterministic && (!software || !slices.Contains(repeatable(), e.Name)):
		case !software && a.s.accelerator == accelCPU:
		case software && a.s.accelerator == accelGPU && a.s.fallback == fallbackNever:
		case !software:
			out = append(out, rung{e, e.Decode()}, rung{e, gpu.DecodeSoftware})
		default:
			if first && decodesOnly && a.s.accelerator != accelCPU && !a.s.deterministic {
				out = append(out, rung{e, gpu.DecodeCUDA})
			}
			first = false
			out = append(out, rung{e, gpu.DecodeSoftware})
		}
	}
	return out
}

// climb goes down the ladder until an encode is good or the step allows no
// further one.
func (a *attempt) climb(ctx context.Context, src *source, temporary string) (*encoded, error) {
	devices := a.devices(ctx)
	nvidia := slices.ContainsFunc(devices, func(d gpu.Device) bool { return d.Kind == gpu.KindNVIDIA })
	var last *dag.TaskError
	var reasons []string
	for _, r := range a.ladder(nvidia) {
		usable, fail, err := a.usable(ctx, src, r, devices)
		if err != nil {
			return nil, err
		}
		if fail != nil {
			a.report(RungReport{Encoder: r.encoder.Name, Decode: string(r.decode), Result: rungUnusable, ErrorCode: fail.Code, Message: fail.Message})
			a.logf("%s cannot be used: %s", r, fail)
			if fail.Class == dag.ClassTransient && a.s.fallback != fallbackAlways {
				return nil, fail
			}
			reasons = append(reasons, fmt.Sprintf("%s: %s", r, fail.Message))
			continue
		}
		made, fail, err := a.encodeWhenFree(ctx, src, r, usable, temporary)
		if err != nil {
			return nil, err
		}
		if fail == nil {
			return made, nil
		}
		a.logf("%s failed: %s", r, fail)
		if fail.Class == dag.ClassCapability && a.s.profile.Video != nil {
			a.forget(src, r, usable)
		}
		last = fail
		if !a.goesOn(ctx, fail) {
			return nil, fail
		}
	}
	if last != nil {
		return nil, last
	}
	if len(reasons) == 0 {
		reasons = []string{fmt.Sprintf("the step allows none for %s (accelerator: %s, require_encoder: %q, deterministic: %t)",
			a.s.profile.Video.Codec, a.s.accelerator, a.s.requireEncoder, a.s.deterministic)}
	}
	return nil, fault.New(ffmpeg.CodeNoUsableEncoder, "no encoder can be used: "+strings.Join(reasons, "; "))
}

// sessionPoll is how often a device is asked again whose sessions others hold.
const sessionPoll = 5 * time.Second

// encodeWhenFree makes one encode, and makes it again when the device had no
// session left: it waits for one as long as the step allows, and then comes
// back later without having spent an attempt.
func (a *attempt) encodeWhenFree(ctx context.Context, src *source, r rung, usable []*gpu.Device, temporary string) (*encoded, *dag.TaskError, error) {
	began := a.t.Clock.Now()
	for {
		made, fail, err := a.encode(ctx, src, r, usable, temporary)
		if err != nil {
			return nil, nil, err
		}
		report := RungReport{
			Encoder: r.encoder.Name, Decode: string(r.decode), Device: made.device, Seconds: made.seconds, Chunks: made.pieceCount(),
		}
		if fail == nil {
			report.Result = rungEncoded
			a.report(report)
			return made, nil, nil
		}
		waited := a.t.Clock.Now().Sub(began)
		report.Result, report.ErrorCode, report.Message = rungFailed, fail.Code, fail.Message
		if fail.Code != ffmpeg.CodeNVENCSessionLimit || a.s.fallback == fallbackAlways {
			a.report(report)
			return nil, fail, nil
		}
		if waited >= a.s.sessionWait {
			report.Result, report.Seconds = rungWaited, waited.Seconds()
			a.report(report)
			fail.Budget, fail.RetryAfter = dag.BudgetThrottling, sessionRetry
			fail.Hint = "all sessions of the GPU were in use; nothing was spent"
			return nil, fail, nil
		}
		a.logf("%s: no session is free on %s, waiting", r, made.device)
		a.t.Progress(operator.Progress{Fraction: -1, Text: "waiting for a session of the GPU"})
		if err := a.op.Slots.AwaitChange(ctx, min(sessionPoll, a.s.sessionWait-waited)); err != nil {
			return nil, nil, err
		}
	}
}

// sessionRetry is when an attempt comes back that found no session in its time.
const sessionRetry = 30 * time.Second

// forget drops what was known of a rung that has failed for want of something.
func (a *attempt) forget(src *source, r rung, usable []*gpu.Device) {
	for _, d := range usable {
		onDevice := d
		if r.encoder.Kind() == "" {
			onDevice = nil
		}
		a.op.Prober.Forget(a.tool, r.encoder, onDevice, a.s.profile.Video.PixelFormat)
		if r.decode != gpu.DecodeSoftware && src.probe.Video() != nil {
			a.op.Prober.ForgetDecode(a.tool, r.decode, d, src.probe.Video())
		}
	}
}

// goesOn tells whether the step allows the next rung after a failure. Failures
// that no encoder can help are not carried down the ladder.
func (a *attempt) goesOn(ctx context.Context, fail *dag.TaskError) bool {
	switch {
	case ctx.Err() != nil, a.s.fallback == fallbackNever:
		return false
	case fail.Class == dag.ClassCapability:
		return true
	case a.s.fallback != fallbackAlways:
		return false
	}
	switch fail.Code {
	case ffmpeg.CodeNoSpace, ffmpeg.CodeInputMissing, ffmpeg.CodeInputChanging, ffmpeg.CodeOutputTooLarge,
		ffmpeg.CodeTooManyFrames, ffmpeg.CodeOutputDirMissing, ffmpeg.CodePermissionDenied:
		return false
	default:
		return true
	}
}

// devices lists the machine's devices where the step may use one.
func (a *attempt) devices(ctx context.Context) []gpu.Device {
	if a.s.accelerator == accelCPU || a.s.deterministic || a.s.profile.Video == nil {
		return nil
	}
	list, err := a.op.Devices.Devices(ctx)
	if err != nil {
		a.logf("the machine's devices cannot be listed: %v", err)
	}
	return list
}

// usable gives the devices on which a rung works, [nil] for one that needs
// none, or why there is none.
func (a *attempt) usable(ctx context.Context, src *source, r rung, devices []gpu.Device) ([]*gpu.Device, *dag.TaskError, error) {
	if a.s.profile.Video == nil {
		return []*gpu.Device{nil}, nil, nil
	}
	candidates := []*gpu.Device{}
	for i := range devices {
		if kind := r.deviceKind(); kind != "" && devices[i].Kind == kind {
			candidates = append(candidates, &devices[i])
		}
	}
	if len(candidates) == 0 {
		candidates = append(candidates, nil) // the prober says why not, or the rung needs none
	}
	var out []*gpu.Device
	var last *dag.TaskError
	for _, d := range candidates {
		fail, err := a.usableOn(ctx, src, r, d)
		if err != nil {
			return nil, nil, err
		}
		if fail != nil {
			last = fail
			continue
		}
		out = append(out, d)
	}
	if len(out) > 0 {
		return out, nil, nil
	}
	return nil, last, nil
}

// usableOn tries a rung's encoder, its decoder and its sessions on one device.
func (a *attempt) usableOn(ctx context.Context, src *source, r rung, d *gpu.Device) (*dag.TaskError, error) {
	onDevice, format := d, a.s.profile.Video.PixelFormat
	if r.encoder.Kind() == "" {
		onDevice = nil
	}
	fail, err := a.op.Prober.Usable(ctx, a.tool, r.encoder, onDevice, format)
	if fail != nil || err != nil {
		return fail, err
	}
	if src == nil { // only the encoder is asked about
		return nil, nil
	}
	fail, err = a.op.Prober.Decodes(ctx, a.tool, r.decode, d, src.input.Path, src.probe.Video())
	if fail != nil || err != nil {
		return fail, err
	}
	if want := a.op.Slots.PerDevice; want > 1 && onDevice != nil && a.op.Slots.Used(d.ID) == 0 {
		n, err := a.op.Prober.Sessions(ctx, a.tool, r.encoder, d, format, want)
		if err != nil {
			return nil, err
		}
		if n < want {
			a.op.Slots.Learn(d.ID, n)
		}
	}
	return nil, nil
}
