package ffmpeg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/proc"
)

// Tool is one installation: the two binaries and the version of the first.
type Tool struct {
	FFmpeg  string
	FFprobe string
	Version Version
	// Marker is set in the environment of every process, see proc.Command.
	Marker string
}

// maxProbeOutput bounds what is kept of ffprobe's answer, in bytes.
const maxProbeOutput = 16 << 20

// Detect asks the binary for its version; names without a slash are looked up
// in PATH. The error is a *dag.TaskError with FFMPEG_MISSING when there is no
// such program.
func Detect(ctx context.Context, ffmpeg, ffprobe, marker string) (Tool, error) {
	t := Tool{FFmpeg: ffmpeg, FFprobe: ffprobe, Marker: marker}
	for _, name := range []string{ffmpeg, ffprobe} {
		if _, err := exec.LookPath(name); err != nil {
			return Tool{}, missing(name, err)
		}
	}
	var out bytes.Buffer
	res, err := proc.Run(ctx, proc.Command{Argv: []string{ffmpeg, "-version"}, Stdout: &out, Marker: marker})
	if err != nil {
		return Tool{}, missing(ffmpeg, err)
	}
	if res.Stopped != nil {
		return Tool{}, res.Stopped
	}
	t.Version, err = ParseVersion(out.String())
	if err != nil {
		return Tool{}, &dag.TaskError{
			Class: dag.ClassConfiguration, Code: CodeFFmpegMissing,
			Message: fmt.Sprintf("%s -version ended with %d: %v", ffmpeg, res.ExitCode, err),
			Hint:    "name a working ffmpeg",
		}
	}
	return t, nil
}

func missing(name string, err error) error {
	fail := &dag.TaskError{
		Class: dag.ClassConfiguration, Code: CodeFFmpegMissing,
		Message: fmt.Sprintf("cannot run %s: %v", name, err),
		Hint:    "install ffmpeg on the worker, or name the program with ffmpeg: and ffprobe:",
	}
	if !errors.Is(err, exec.ErrNotFound) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		fail.Class, fail.Code = dag.ClassTransient, CodeFailed // the system had no process to give
		fail.Hint = ""
	}
	return fail
}

// Probe runs ffprobe on a local file. Other files and addresses that the file
// names stay closed. The error is a *dag.TaskError, or the cause of ctx.
func (t Tool) Probe(ctx context.Context, path string) (*Probe, error) {
	out := &bounded{limit: maxProbeOutput}
	if err := t.ffprobe(ctx, path, out,
		"-v", "level+warning", "-protocol_whitelist", "file,pipe",
		"-print_format", "json", "-show_format", "-show_streams", "-show_chapters"); err != nil {
		return nil, err
	}
	p, err := ParseProbe(out.Bytes())
	if err != nil {
		return nil, &dag.TaskError{Class: dag.ClassTransient, Code: CodeFailed, Message: err.Error()}
	}
	return p, nil
}

// Packets demuxes a local file and sums up its packets by stream index. The
// error is a *dag.TaskError, or the cause of ctx.
func (t Tool) Packets(ctx context.Context, path string) (map[int]Packets, error) {
	counter := &PacketCounter{ByStream: map[int]Packets{}}
	if err := t.ffprobe(ctx, path, counter, PacketArgs()...); err != nil {
		return nil, err
	}
	return counter.ByStream, nil
}

func (t Tool) ffprobe(ctx context.Context, path string, out interface{ Write([]byte) (int, error) }, args ...string) error {
	stderr := &Stderr{}
	argv := append([]string{t.FFprobe, "-hide_banner"}, args...)
	res, err := proc.Run(ctx, proc.Command{
		Argv: append(argv, "-i", FileURL(path)), Stdout: out, Stderr: stderr, Marker: t.Marker,
	})
	if err != nil {
		return missing(t.FFprobe, err)
	}
	if res.Stopped != nil {
		return res.Stopped
	}
	if fail := (Ending{Result: res, Stderr: stderr.Tail(), Version: t.Version, Input: path}).Classify(); fail != nil {
		return fail
	}
	return nil
}

// FileURL names a local file so that ffmpeg takes no part of its name for a
// protocol ("concat:a.mp4") or an option ("-x.mp4").
func FileURL(path string) string { return "file:" + path }

// bounded keeps the first limit bytes and swallows the rest.
type bounded struct {
	bytes.Buffer
	limit int
}

// Write implements io.Writer and never fails.
func (b *bounded) Write(p []byte) (int, error) {
	if room := b.limit - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
