package gpu

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/ffmpeg"
)

// Decode is where an input is decoded, in ffmpeg's names.
type Decode string

// Ways to decode.
const (
	DecodeSoftware Decode = "software"
	DecodeCUDA     Decode = "cuda"
	DecodeVAAPI    Decode = "vaapi"
	DecodeQSV      Decode = "qsv"
)

// Kind of device that decodes so; "" for the processor.
func (d Decode) Kind() Kind {
	switch d {
	case DecodeCUDA:
		return KindNVIDIA
	case DecodeVAAPI, DecodeQSV:
		return KindRender
	case DecodeSoftware:
		return ""
	default:
		return ""
	}
}

// Decode is the way to decode that goes with an encoder: on the same device.
func (e Encoder) Decode() Decode {
	switch e.Accel {
	case AccelNVENC:
		return DecodeCUDA
	case AccelVAAPI:
		return DecodeVAAPI
	case AccelQSV:
		return DecodeQSV
	case AccelSoftware:
		return DecodeSoftware
	default:
		return DecodeSoftware
	}
}

// InitArgs are ffmpeg's arguments to open a render device under the name "hw",
// for decoders, filters and encoders alike: with a device for each of them an
// encoder would find two of its kind and take none.
func InitArgs(a Accel, dev *Device) []string {
	if dev == nil {
		return nil
	}
	switch a {
	case AccelVAAPI:
		return []string{"-init_hw_device", "vaapi=hw:" + dev.ID, "-filter_hw_device", "hw"}
	case AccelQSV:
		return []string{"-init_hw_device", "qsv=hw,child_device=" + dev.ID}
	case AccelNVENC, AccelSoftware: // CUDA sees one device only, see Device.Env
		return nil
	default:
		return nil
	}
}

// DecodeArgs are ffmpeg's arguments, before the input, to decode frames of a pixel
// format so; the device has been opened by InitArgs. The frames come back to the
// processor's memory, where every filter can work on them: those of Quick Sync
// only when that is said.
func DecodeArgs(d Decode, pixelFormat string) []string {
	switch d {
	case DecodeCUDA:
		return []string{"-hwaccel", "cuda"}
	case DecodeVAAPI:
		return []string{"-hwaccel", "vaapi", "-hwaccel_device", "hw"}
	case DecodeQSV:
		return []string{"-hwaccel", "qsv", "-hwaccel_device", "hw", "-hwaccel_output_format", Surface(pixelFormat)}
	case DecodeSoftware:
		return nil
	default:
		return nil
	}
}

// accel is the family that a decoder's device is opened as.
func (d Decode) accel() Accel {
	switch d {
	case DecodeVAAPI:
		return AccelVAAPI
	case DecodeQSV:
		return AccelQSV
	case DecodeCUDA, DecodeSoftware:
		return AccelSoftware
	default:
		return AccelSoftware
	}
}

// decodeFrames is how many frames a decoder is tried with.
const decodeFrames = 8

// Decodes decodes the first frames of a stream of a file on the device and
// gives nil when that worked, else why not. `-hwaccel` does not fall back by
// itself, so it must be known before. The answer is kept for this ffmpeg,
// driver, device and kind of stream. The error is set only when ctx is done.
func (p *Prober) Decodes(ctx context.Context, tool ffmpeg.Tool, d Decode, dev *Device, path string, s *ffmpeg.Stream) (*dag.TaskError, error) {
	if d == DecodeSoftware {
		return nil, nil
	}
	if dev == nil || dev.Kind != d.Kind() {
		return &dag.TaskError{Class: dag.ClassCapability, Code: d.code(), Message: fmt.Sprintf("this machine has no device to decode with %s", d)}, nil
	}
	key := probeKey(tool, Encoder{Name: "decode:" + string(d) + ":" + s.Codec + ":" + s.Profile}, dev, s.PixelFormat)
	return p.ask(ctx, key, func() (*dag.TaskError, error) {
		args := append(InitArgs(d.accel(), dev), DecodeArgs(d, s.PixelFormat)...)
		job := ffmpeg.Job{
			// The filter is one that works on frames in the processor's memory only.
			Args: append(args, "-protocol_whitelist", "file,pipe", "-i", ffmpeg.FileURL(path),
				"-map", fmt.Sprintf("0:%d", s.Index), "-vf", "scale=64:64", "-frames:v", strconv.Itoa(decodeFrames), "-f", "null", "-"),
			Input: path, Env: dev.Env(), Clock: p.Clock, Grace: time.Second,
			Limits: ffmpeg.Limits{Startup: probeTimeout, Stall: probeTimeout},
		}
		end, err := tool.Run(ctx, job)
		if err != nil {
			return nil, fmt.Errorf("try to decode with %s: %w", d, err)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		fail := end.Classify()
		if fail != nil && fail.Class != dag.ClassTransient && fail.Class != dag.ClassCapability {
			fail.Class, fail.Code, fail.Hint = dag.ClassCapability, d.code(), "the device does not decode this input"
		}
		return fail, nil
	})
}

// ForgetDecode drops an answer of Decodes, after a decoder has failed.
func (p *Prober) ForgetDecode(tool ffmpeg.Tool, d Decode, dev *Device, s *ffmpeg.Stream) {
	p.drop(probeKey(tool, Encoder{Name: "decode:" + string(d) + ":" + s.Codec + ":" + s.Profile}, dev, s.PixelFormat))
}

func (d Decode) code() string {
	switch d {
	case DecodeVAAPI:
		return ffmpeg.CodeVAAPIUnavailable
	case DecodeQSV:
		return ffmpeg.CodeQSVUnavailable
	case DecodeCUDA, DecodeSoftware:
		return ffmpeg.CodeCUDAUnavailable
	default:
		return ffmpeg.CodeCUDAUnavailable
	}
}
