package ffmpeg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/airlock-dag/airlock/dag"
)

// Inspection is all that one look through a file gives: what it declares, and
// what is really in it.
type Inspection struct {
	*Probe
	// Packets by stream index.
	Packets map[int]Packets
	// Times are the instants of the main video's frames in seconds, and KeyTimes
	// those of its key frames, both sorted; nil when they were not asked for, or
	// are too many, or some frame has none.
	Times, KeyTimes []float64
}

// maxTimes bounds what is kept of frames: those of two days.
const maxTimes = 1 << 22

// Inspect asks ffprobe for a local file's description and demuxes the whole of
// it in the same run: starting a process costs more than reading a short file.
// With times it keeps the instants of the frames. The error is a
// *dag.TaskError, or the cause of ctx.
func (t Tool) Inspect(ctx context.Context, path string, times bool) (*Inspection, error) {
	reader, writer := io.Pipe()
	read := make(chan inspected, 1)
	go func() {
		r := readInspection(reader, times)
		_, _ = io.Copy(io.Discard, reader) // what is left must not block ffprobe
		read <- r
	}()
	err := t.ffprobe(ctx, path, writer,
		"-v", "level+warning", "-protocol_whitelist", "file,pipe",
		"-print_format", "json=compact=1", "-show_format", "-show_streams", "-show_chapters",
		"-show_entries", "packet=stream_index,pts_time,duration_time,flags")
	_ = writer.Close()
	got := <-read
	if err != nil {
		return nil, err
	}
	if got.err != nil {
		return nil, &dag.TaskError{Class: dag.ClassTransient, Code: CodeFailed, Message: got.err.Error()}
	}
	return got.of(), nil
}

// inspected is ffprobe's answer, with its packets summed up.
type inspected struct {
	rawProbe
	counter PacketCounter
	// times and keys by stream; nil when they are not wanted.
	times, keys map[int][]float64
	err         error
}

func (r inspected) of() *Inspection {
	p := r.probe()
	out := &Inspection{Probe: p, Packets: r.counter.ByStream}
	if out.Packets == nil {
		out.Packets = map[int]Packets{}
	}
	if v := p.Video(); v != nil && int64(len(r.times[v.Index])) == out.Packets[v.Index].Count {
		out.Times, out.KeyTimes = r.times[v.Index], r.keys[v.Index]
		slices.Sort(out.Times)
		slices.Sort(out.KeyTimes)
	}
	return out
}

// readInspection reads the sections as they come and keeps no packet.
func readInspection(in io.Reader, times bool) (out inspected) {
	if times {
		out.times, out.keys = map[int][]float64{}, map[int][]float64{}
	}
	dec := json.NewDecoder(in)
	fail := func(err error) inspected {
		out.err = fmt.Errorf("ffprobe's answer is not the JSON that was asked for: %w", err)
		return out
	}
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return fail(errors.Join(err, errors.New("it does not begin with {")))
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return fail(err)
		}
		switch name {
		case "packets", "packets_and_frames":
			err = out.packets(dec)
		case "streams":
			err = dec.Decode(&out.Streams)
		case "chapters":
			err = dec.Decode(&out.Chapters)
		case "format":
			err = dec.Decode(&out.Format)
		default:
			var other json.RawMessage
			err = dec.Decode(&other)
		}
		if err != nil {
			return fail(err)
		}
	}
	return out
}

func (r *inspected) packets(dec *json.Decoder) error {
	if t, err := dec.Token(); err != nil || t != json.Delim('[') {
		return errors.Join(err, errors.New("packets are no list"))
	}
	for dec.More() {
		var p struct {
			Stream   int    `json:"stream_index"`
			PTS      string `json:"pts_time"`
			Duration string `json:"duration_time"`
			Flags    string `json:"flags"`
		}
		p.Stream = -1
		if err := dec.Decode(&p); err != nil {
			return err
		}
		pts, timed := finite(p.PTS)
		discard := strings.Contains(p.Flags, "D")
		r.counter.add(p.Stream, pts, timed, seconds(p.Duration), discard)
		if r.times == nil || !timed || discard || p.Stream < 0 || len(r.times[p.Stream]) >= maxTimes {
			continue
		}
		r.times[p.Stream] = append(r.times[p.Stream], pts)
		if strings.HasPrefix(p.Flags, "K") {
			r.keys[p.Stream] = append(r.keys[p.Stream], pts)
		}
	}
	_, err := dec.Token()
	return err
}
