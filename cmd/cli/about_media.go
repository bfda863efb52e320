package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/ffmpeg"
	"github.com/airlock-dag/airlock/executor/gpu"
)

// machine is what the media steps find here.
type machine struct {
	// FFmpeg is its version, or "" with Missing saying why there is none.
	FFmpeg  string       `json:"ffmpeg"`
	Missing string       `json:"ffmpeg_missing,omitempty"`
	Devices []gpu.Device `json:"devices"`
	// Encoders are those that were tried; nil when they were not.
	Encoders []encoderHere `json:"encoders,omitempty"`
}

// encoderHere is one encoder on one device, as a small encode found it.
type encoderHere struct {
	Codec   string `json:"codec"`
	Encoder string `json:"encoder"`
	Device  string `json:"device"` // "" for the processor
	Works   bool   `json:"works"`
	Why     string `json:"why,omitempty"`
}

// lookAtMachine asks ffmpeg and the drivers; with try it makes a small encode
// with each encoder on each device that it could use.
func lookAtMachine(ctx context.Context, clock dag.Clock, try bool) (machine, error) {
	m := machine{Devices: []gpu.Device{}}
	tool, err := ffmpeg.Detect(ctx, "ffmpeg", "ffprobe", "")
	var missing *dag.TaskError
	switch {
	case errors.As(err, &missing):
		m.Missing = missing.Message
	case err != nil:
		return m, err
	default:
		m.FFmpeg = tool.Version.Text
	}
	devices, err := gpu.Lister{}.Devices(ctx)
	if err != nil {
		return m, err
	}
	m.Devices = append(m.Devices, devices...)
	if !try || m.FFmpeg == "" {
		return m, nil
	}
	prober := &gpu.Prober{Clock: clock}
	for _, codec := range []string{"h264", "hevc", "av1"} {
		for _, enc := range gpu.Encoders(codec) {
			for _, dev := range candidates(enc, devices) {
				fail, err := prober.Usable(ctx, tool, enc, dev, "yuv420p")
				if err != nil {
					return m, err
				}
				e := encoderHere{Codec: codec, Encoder: enc.Name, Works: fail == nil}
				if dev != nil {
					e.Device = deviceName(*dev)
				}
				if fail != nil {
					e.Why = fail.Code
				}
				m.Encoders = append(m.Encoders, e)
			}
		}
	}
	return m, nil
}

// candidates are the devices that an encoder could run on; one nil for the
// processor.
func candidates(enc gpu.Encoder, devices []gpu.Device) []*gpu.Device {
	if enc.Kind() == "" {
		return []*gpu.Device{nil}
	}
	var out []*gpu.Device
	for i := range devices {
		if devices[i].Kind == enc.Kind() {
			out = append(out, &devices[i])
		}
	}
	return out
}

func deviceName(d gpu.Device) string {
	if d.Name == "" {
		return d.ID
	}
	return d.Name + " " + d.ID
}

// pairs are the machine's lines in the table of `airlock info`.
func (m machine) pairs() []pair {
	version := m.FFmpeg
	if version == "" {
		version = "missing (" + m.Missing + "): probe and transcode need it"
	}
	names := make([]string, 0, len(m.Devices))
	for _, d := range m.Devices {
		name := deviceName(d)
		if note := d.Note(); note != "" {
			name += " (" + note + ")"
		}
		names = append(names, name)
	}
	devices := strings.Join(names, ", ")
	if devices == "" {
		devices = "none: the processor encodes"
	}
	out := []pair{{"ffmpeg", version}, {"gpus", devices}}
	for _, e := range m.Encoders {
		where, works := "processor", "works"
		if e.Device != "" {
			where = e.Device
		}
		if !e.Works {
			works = "does not work: " + e.Why
		}
		out = append(out, pair{e.Codec + " by " + e.Encoder, works + " (" + where + ")"})
	}
	return out
}
