package transcode

import (
	"context"
	"fmt"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/ffmpeg"
	"github.com/airlock-dag/airlock/executor/gpu"
)

// RungReport is what became of one way to encode; the attempt's record keeps
// all of them. None costs a retry.
type RungReport struct {
	Encoder string `json:"encoder"`
	Decode  string `json:"decode"` // software or cuda
	Device  string `json:"device,omitempty"`
	// Result is encoded, failed, or unusable (a probe said so; nothing was tried).
	Result    string  `json:"result"`
	ErrorCode string  `json:"error_code,omitempty"`
	Message   string  `json:"message,omitempty"`
	Seconds   float64 `json:"seconds,omitempty"`
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

// ladder lists the ways to encode that the step allows, the preferred first.
func (a *attempt) ladder() []rung {
	v := a.s.profile.Video
	if v == nil {
		name := a.s.profile.Audio.Codec
		if name == "opus" {
			name = "libopus"
		}
		return []rung{{encoder: gpu.Encoder{Name: name, Codec: a.s.profile.Audio.Codec, Accel: gpu.AccelSoftware}}}
	}
	var out []rung
	for _, e := range gpu.Encoders(v.Codec) {
		software := e.Accel == gpu.AccelSoftware
		switch {
		case a.s.requireEncoder != "" && e.Name != a.s.requireEncoder:
		case !software && (a.s.accelerator == accelCPU || a.s.deterministic):
		case software && a.s.accelerator == accelGPU && a.s.fallback == fallbackNever:
		case e.Accel == gpu.AccelNVENC:
			out = append(out, rung{encoder: e, hardwareDecode: true}, rung{encoder: e})
		default:
			out = append(out, rung{encoder: e})
		}
	}
	return out
}

// climb goes down the ladder until an encode is good or the step allows no
// further one.
func (a *attempt) climb(ctx context.Context, src *source, temporary string) (*encoded, error) {
	devices := a.devices(ctx)
	var last *dag.TaskError
	var reasons []string
	for _, r := range a.ladder() {
		usable, fail, err := a.usable(ctx, r, devices)
		if err != nil {
			return nil, err
		}
		report := RungReport{Encoder: r.encoder.Name, Decode: "software"}
		if r.hardwareDecode {
			report.Decode = "cuda"
		}
		if fail != nil {
			report.Result, report.ErrorCode, report.Message = "unusable", fail.Code, fail.Message
			a.report(report)
			a.logf("%s cannot be used: %s", r, fail)
			if fail.Class == dag.ClassTransient && a.s.fallback != fallbackAlways {
				return nil, fail
			}
			reasons = append(reasons, fmt.Sprintf("%s: %s", r.encoder.Name, fail.Message))
			continue
		}
		made, fail, err := a.encode(ctx, src, r, usable, temporary)
		if err != nil {
			return nil, err
		}
		report.Device, report.Seconds = made.device, made.seconds
		if fail == nil {
			report.Result = "encoded"
			a.report(report)
			return made, nil
		}
		report.Result, report.ErrorCode, report.Message = "failed", fail.Code, fail.Message
		a.report(report)
		a.logf("%s failed: %s", r, fail)
		if fail.Class == dag.ClassCapability {
			for _, d := range usable {
				a.op.Prober.Forget(a.tool, r.encoder, d, a.s.profile.Video.PixelFormat)
			}
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
		reasons = []string{fmt.Sprintf("the step allows none for %s (accelerator: %s, require_encoder: %q)", a.s.profile.Video.Codec, a.s.accelerator, a.s.requireEncoder)}
	}
	return nil, fault.New(ffmpeg.CodeNoUsableEncoder, "no encoder can be used: "+strings.Join(reasons, "; "))
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

// usable gives the devices on which a rung's encoder works, [nil] for one that
// needs none, or why there is none.
func (a *attempt) usable(ctx context.Context, r rung, devices []gpu.Device) ([]*gpu.Device, *dag.TaskError, error) {
	if a.s.profile.Video == nil {
		return []*gpu.Device{nil}, nil, nil
	}
	candidates := []*gpu.Device{}
	for i := range devices {
		if kind := r.encoder.Kind(); kind != "" && devices[i].Kind == kind {
			candidates = append(candidates, &devices[i])
		}
	}
	if len(candidates) == 0 {
		candidates = append(candidates, nil) // the prober says why not, or the encoder needs none
	}
	var out []*gpu.Device
	var last *dag.TaskError
	for _, d := range candidates {
		fail, err := a.op.Prober.Usable(ctx, a.tool, r.encoder, d, a.s.profile.Video.PixelFormat)
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
