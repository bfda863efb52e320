package transcode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/ffmpeg"
	"github.com/airlock-dag/airlock/executor/gpu"
	"github.com/airlock-dag/airlock/executor/operator"
	"github.com/airlock-dag/airlock/executor/operator/mediafile"
)

// Operator is the transcode operator; New makes one.
type Operator struct {
	// FFmpeg and FFprobe are the programs; a step may name others.
	FFmpeg, FFprobe string
	// Devices finds this machine's GPUs.
	Devices gpu.Lister
	// Slots gives out its devices, Prober knows what works on them.
	Slots  *gpu.Slots
	Prober *gpu.Prober
	// Hashes and Versions remember what was found out before; nil for nothing.
	Hashes   *ffmpeg.HashCache
	Versions *ffmpeg.Detector
	// Grace is the time between SIGTERM and SIGKILL for ffmpeg; 0 for the usual
	// one. A large file needs it to finish its index.
	Grace time.Duration

	profiles profileBook
	checks   profileChecks
}

// New makes an operator with ffmpeg and ffprobe from PATH and one encode at a
// time on each GPU.
func New() *Operator {
	return &Operator{
		FFmpeg: "ffmpeg", FFprobe: "ffprobe",
		Hashes: &ffmpeg.HashCache{}, Versions: &ffmpeg.Detector{},
		Slots: &gpu.Slots{}, Prober: &gpu.Prober{Clock: dag.SystemClock{}},
	}
}

// Result is the operator's return value.
type Result struct {
	AssetSHA256 string `json:"asset_sha256"`
	Profile     string `json:"profile"`
	// Path of the output, absolute; Key is its place in the catalogue.
	Path         string  `json:"path"`
	Key          string  `json:"key"`
	OutputSHA256 string  `json:"output_sha256"`
	Encoder      string  `json:"encoder"`
	Skipped      bool    `json:"skipped"`
	DurationS    float64 `json:"duration_s"`
	Size         int64   `json:"size"`
	DecodeErrors int     `json:"decode_errors"`
}

// attempt is one Run.
type attempt struct {
	op   *Operator
	t    *operator.Task
	s    *settings
	tool ffmpeg.Tool
	// sha256 and key are set as soon as they are known.
	sha256, key string
	out         target
	rungs       []RungReport
}

// Run implements operator.Operator.
func (o *Operator) Run(ctx context.Context, t *operator.Task) dag.Outcome {
	s, fail := readSettings(t.Args, t.Dir, o)
	if fail != nil {
		return dag.Failed(fault.Apply(t.Def, fail, ""))
	}
	a := &attempt{op: o, t: t, s: s, sha256: s.sha256}
	res, err := a.run(ctx)
	if err == nil {
		return dag.Success(res)
	}
	if out, skipped := mediafile.Skipped(t, err); skipped {
		return out
	}
	fail = a.taskError(ctx, err)
	fail.AssetSHA256 = cmp.Or(fail.AssetSHA256, a.sha256)
	fail.IdempotencyKey = cmp.Or(fail.IdempotencyKey, a.key)
	return dag.Failed(fault.Apply(t.Def, fail, fail.Stack))
}

// taskError names an error; what stopped the attempt comes before what it said.
func (a *attempt) taskError(ctx context.Context, err error) *dag.TaskError {
	if ctx.Err() != nil {
		return fault.Stopped(context.Cause(ctx))
	}
	var fail *dag.TaskError
	if errors.As(err, &fail) {
		return fail
	}
	if errors.Is(err, operator.ErrLeaseLost) {
		return fault.Stopped(operator.ErrLeaseLost)
	}
	var pathError *os.PathError
	var linkError *os.LinkError
	if errors.As(err, &pathError) || errors.As(err, &linkError) {
		out := ffmpeg.FileError(err, a.s.outputDir)
		if out.Code == ffmpeg.CodeInputMissing {
			out.Class, out.Code = dag.ClassConfiguration, ffmpeg.CodeOutputDirMissing
			out.Hint = "somebody removed the output folder while the step ran"
		}
		return out
	}
	return fault.Error(err)
}

func (a *attempt) logf(format string, args ...any) { fmt.Fprintf(a.t.Log, format+"\n", args...) }

func (a *attempt) run(ctx context.Context) (*Result, error) {
	var err error
	if a.tool, err = a.op.Versions.Detect(ctx, a.s.ffmpeg, a.s.ffprobe, a.t.Marker); err != nil {
		return nil, err
	}
	chunk := time.Duration(0)
	if a.s.deterministic { // the pieces decide the bytes
		chunk = a.s.chunk
	}
	digest, err := a.op.profiles.digest(a.s.profile, a.tool.Version, a.s.deterministic, chunk)
	if err != nil {
		return nil, err
	}
	var in ffmpeg.Input
	if a.sha256 == "" { // nobody has hashed it yet
		if in, err = a.readInput(ctx); err != nil {
			return nil, err
		}
	}
	out := newTarget(a.s.outputDir, a.s.profile, a.sha256)
	a.key, a.out = out.key, out
	want := wanted{assetSHA256: a.sha256, digest: digest, encoder: a.s.requireEncoder}
	// What is done needs no lock: most steps of a second run end here.
	if res, err := a.skip(ctx, out, want, false); res != nil || err != nil {
		return res, err
	}
	if err := os.MkdirAll(out.dir, 0o755); err != nil { //nolint:gosec // a catalogue is for others to read
		return nil, fmt.Errorf("make the output folder: %w", err)
	}
	release, err := acquire(ctx, a.t.Clock, out.lock(), func() {
		a.logf("another worker is at %s: waiting", out.key)
		a.t.Progress(operator.Progress{Fraction: -1, Text: "another worker encodes this file"})
	})
	if err != nil {
		return nil, err
	}
	defer release()

	if res, err := a.skip(ctx, out, want, true); res != nil || err != nil {
		return res, err
	}
	if in.SHA256 == "" {
		if in, err = a.readInput(ctx); err != nil {
			return nil, err
		}
	}
	return a.produce(ctx, in, out, want)
}

// readInput reads and hashes the input, and refuses what ffmpeg shall not see
// and what is not the file that a probe step saw.
func (a *attempt) readInput(ctx context.Context) (ffmpeg.Input, error) {
	in, err := a.op.Hashes.ReadInput(ctx, a.s.path)
	if err != nil {
		return in, err
	}
	if a.sha256 != "" && in.SHA256 != a.sha256 {
		fail := fault.New(fault.CodeHashMismatch, fmt.Sprintf("%s has the hash %s, the probe step found %s", in.Path, in.SHA256, a.sha256))
		fail.Hint = "the file was replaced since: run the probe step again"
		return in, fail
	}
	a.sha256 = in.SHA256
	if fail := in.Refuse(); fail != nil {
		return in, fail
	}
	return in, nil
}

// skip gives the result for an output that is there already; nil when there is
// none to trust. The log tells why not when it is the last word.
func (a *attempt) skip(ctx context.Context, out target, want wanted, last bool) (*Result, error) {
	m, why, err := out.done(ctx, a.op.Hashes, want)
	if err != nil {
		return nil, err
	}
	if m == nil {
		if why != "" && last {
			a.logf("%s is made again: %s", out.key, why)
		}
		return nil, nil
	}
	a.logf("%s is there and is what its manifest says: skipped", out.key)
	res := a.result(out, m)
	res.Skipped = true
	return res, nil
}

func (a *attempt) result(out target, m *Manifest) *Result {
	path := out.output()
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return &Result{
		AssetSHA256: m.AssetSHA256, Profile: a.s.profile.Name, Path: path, Key: out.key,
		OutputSHA256: m.Output.SHA256, Encoder: m.Encoder, DurationS: m.DurationS,
		Size: m.Output.Size, DecodeErrors: m.DecodeErrors,
	}
}

// produce encodes, verifies and publishes. The key's lock is held.
func (a *attempt) produce(ctx context.Context, in ffmpeg.Input, out target, want wanted) (*Result, error) {
	if err := mediafile.AskSealed(ctx, a.t, in.SHA256); err != nil {
		return nil, err
	}
	removed, err := out.removeLeftovers()
	if err != nil {
		return nil, err
	}
	for _, path := range removed {
		a.logf("removed what an earlier attempt left: %s", filepath.Base(path))
	}
	if n := out.sweepOthers(a.t.Clock.Now()); n > 0 {
		a.logf("removed %d files that dead workers left in %s", n, out.dir)
	}
	if err := a.t.OpenInput(ctx, in.SHA256); err != nil {
		return nil, err
	}
	src, err := a.source(ctx, in)
	if err != nil {
		return nil, err
	}
	if fail := a.checkSpace(in, src, out); fail != nil {
		return nil, fail
	}
	// The claim's number and the fence make a name that no other attempt has.
	name := fmt.Sprintf("%d-%d", a.t.TI.ID, a.t.TI.Fence)
	temporary := out.temporary(name)
	defer os.Remove(temporary) //nolint:errcheck // it is not there when all went well
	made, err := a.climb(ctx, src, temporary)
	if err != nil {
		var fail *dag.TaskError
		if errors.As(err, &fail) && fail.Class != dag.ClassTransient {
			_ = os.RemoveAll(out.chunkDir()) // nobody will go on with the pieces
		}
		return nil, err
	}
	if info, err := os.Stat(in.Path); err != nil || info.Size() != in.Size || !info.ModTime().Equal(in.ModTime) {
		return nil, fault.New(ffmpeg.CodeInputChanging, in.Path+" changed while it was encoded")
	}
	// Where there are no locks, another worker may have been faster.
	if res, err := a.skip(ctx, out, want, true); res != nil || err != nil {
		return res, err
	}
	m := newManifest(a.s, in, src.probe, made)
	m.ProfileDigest = want.digest
	m.Tools = a.tool.Version
	m.Output.Name = out.name
	m.CreatedAt = a.t.Clock.Now().Truncate(time.Second)
	m.MadeBy = fmt.Sprintf("%s, try %d", a.t.TI.TaskInstanceKey, a.t.TI.TryNumber)
	if err := out.publish(ctx, temporary, name, m, a.t.StillMine); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(out.chunkDir()); err != nil {
		a.logf("the pieces cannot be removed: %v", err)
	}
	a.logf("published %s: %d bytes, %.2f s, %s", out.key, m.Output.Size, m.DurationS, m.Encoder)
	a.t.Progress(operator.Progress{Fraction: 1, Text: made.encoder})
	return a.result(out, m), nil
}

// source is an input that has what the profile needs.
type source struct {
	input   ffmpeg.Input
	probe   *ffmpeg.Probe
	packets map[int]ffmpeg.Packets // nil when they were not read
	// times and keys are the instants of the video's frames and key frames, for
	// the pieces; nil where they are not known.
	times, keys []float64
	// length is the expected length of the output.
	length time.Duration
}

func (a *attempt) source(ctx context.Context, in ffmpeg.Input) (*source, error) {
	src := &source{input: in}
	if a.s.verify == verifyDuration && a.s.chunk == 0 {
		p, err := a.tool.Probe(ctx, in.Path)
		if err != nil {
			return nil, err
		}
		src.probe = p
	} else {
		seen, err := a.tool.Inspect(ctx, in.Path, a.s.chunk > 0)
		if err != nil {
			return nil, err
		}
		src.probe, src.packets, src.times, src.keys = seen.Probe, seen.Packets, seen.Times, seen.KeyTimes
	}
	p, profile := src.probe, a.s.profile
	switch {
	case p.NamesOthers():
		return nil, fault.New(ffmpeg.CodePlaylistRefused, "the input is a playlist ("+p.Format.Name+")")
	case !p.HasMedia():
		return nil, fault.New(ffmpeg.CodeNoStreams, "the input has neither video nor sound")
	case profile.Video != nil && p.Video() == nil:
		return nil, fault.New(ffmpeg.CodeNoVideoStream, fmt.Sprintf("the input has no video, and profile %s makes one", profile.Name))
	case profile.Audio != nil && p.Audio() == nil && (profile.Audio.Required || profile.Video == nil):
		return nil, fault.New(ffmpeg.CodeNoAudioStream, fmt.Sprintf("the input has no sound, and profile %s requires it", profile.Name))
	}
	seconds := p.Duration()
	if src.packets != nil {
		if fail := ffmpeg.SourceComplete(p, src.packets); fail != nil {
			return nil, fail
		}
		seconds = 0
		for _, s := range p.Streams {
			if (s.Type == "video" && profile.Video != nil && !s.AttachedPicture) || (s.Type == "audio" && profile.Audio != nil) {
				seconds = max(seconds, src.packets[s.Index].Span())
			}
		}
	}
	if seconds > profile.MaxDuration {
		return nil, fault.New(ffmpeg.CodeInputTooLong, fmt.Sprintf("the input lasts %.0f s, profile %s takes %.0f s", seconds, profile.Name, profile.MaxDuration))
	}
	if v := p.Video(); v != nil && profile.Video != nil && v.Color != nil && v.Color.HDR && profile.Video.PixelFormat == "yuv420p" {
		a.logf("the input has a high dynamic range (%s) and profile %s makes 8 bits of it: its colours are kept and not mapped; pixel_format: yuv420p10le keeps the range", v.Color.Transfer, profile.Name)
	}
	src.length = time.Duration(seconds * float64(time.Second))
	return src, nil
}

// checkSpace compares what is free with a rough guess of the output.
func (a *attempt) checkSpace(in ffmpeg.Input, src *source, out target) *dag.TaskError {
	free, ok := freeSpace(out.dir)
	need := max(in.Size+in.Size/5, a.expectedSize(src)) + a.s.minFree
	if !ok || free >= need {
		return nil
	}
	return fault.New(ffmpeg.CodeNoSpace, fmt.Sprintf("%s has %d bytes free, %d are wanted (what the output may come to, and min_free)", out.dir, free, need))
}

// expectedSize is what the profile's bit rates come to; 0 when they say nothing.
func (a *attempt) expectedSize(src *source) int64 {
	var rate int64
	if v := a.s.profile.Video; v != nil {
		if v.Bitrate == "" {
			return 0
		}
		rate += bits(v.Bitrate)
	}
	if au := a.s.profile.Audio; au != nil {
		rate += bits(au.Bitrate)
	}
	return int64(float64(rate) / 8 * src.length.Seconds())
}
