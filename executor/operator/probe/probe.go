package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/ffmpeg"
	"github.com/airlock-dag/airlock/executor/operator"
	"github.com/airlock-dag/airlock/executor/operator/mediafile"
)

// Operator is the probe operator. Its zero value uses ffmpeg and ffprobe from
// PATH.
type Operator struct {
	// FFmpeg and FFprobe are the programs; a step may name others.
	FFmpeg, FFprobe string
	// Hashes and Versions remember what was found out before; nil for nothing.
	Hashes   *ffmpeg.HashCache
	Versions *ffmpeg.Detector
}

// Record is the operator's return value, and what transcode takes as `asset`.
type Record struct {
	// Path is absolute.
	Path        string `json:"path"`
	AssetSHA256 string `json:"asset_sha256"`
	Size        int64  `json:"size"`
	// Container is the one found in the file, whatever its name says.
	Container string  `json:"container"`
	DurationS float64 `json:"duration_s"`
	// Codec of the video, or of the sound where there is no video.
	Codec    string          `json:"codec"`
	HasVideo bool            `json:"has_video"`
	HasAudio bool            `json:"has_audio"`
	Streams  []ffmpeg.Stream `json:"streams"`
	// Chapters are the file's, at most maxChapters of them.
	Chapters []ffmpeg.Chapter `json:"chapters"`
	Warnings []string         `json:"warnings"`
}

// maxChapters bounds a record: it goes to other tasks as a whole.
const maxChapters = 500

// What a file must have.
const (
	requireAny   = "any"
	requireVideo = "video"
	requireAudio = "audio"
)

// Spec implements operator.Operator.
func (o *Operator) Spec() dag.OperatorSpec {
	return dag.OperatorSpec{
		Name: "probe",
		Doc:  "Looks into a media file and hashes it; what is no media is sealed at once with the reason.",
		Fields: []dag.Field{
			{Name: "path", Type: dag.FieldString, Required: true, Templated: true, Mappable: true, Doc: "The file to look into; a relative path starts at the DAG file's folder."},
			{Name: "require", Type: dag.FieldString, Enum: []string{requireAny, requireVideo, requireAudio}, Default: requireAny, Templated: true, Mappable: true, Doc: "What the file must have: video, audio, or any of them. A cover picture is no video."},
			mediafile.SkipSealed(),
			{Name: "ffmpeg", Type: dag.FieldString, Templated: true, Doc: "The ffmpeg program, by name or path."},
			{Name: "ffprobe", Type: dag.FieldString, Templated: true, Doc: "The ffprobe program, by name or path."},
		},
		ValidateAt: func(args map[string]any, at dag.Place) []dag.Problem { return mediafile.Folder(args, "path", at) },
	}
}

// Run implements operator.Operator.
func (o *Operator) Run(ctx context.Context, t *operator.Task) dag.Outcome {
	rec, err := o.look(ctx, t)
	if err == nil {
		return dag.Success(rec)
	}
	if out, skipped := mediafile.Skipped(t, err); skipped {
		return out
	}
	fail := asTaskError(ctx, err)
	if rec != nil && fail.AssetSHA256 == "" {
		fail.AssetSHA256 = rec.AssetSHA256
	}
	return dag.Failed(fault.Apply(t.Def, fail, fail.Stack))
}

// look gives the record, as far as it is known when there is an error.
func (o *Operator) look(ctx context.Context, t *operator.Task) (*Record, error) {
	path, ok := t.Args["path"].(string)
	if !ok || path == "" {
		return nil, fault.New(fault.CodeInvalidArgument, fmt.Sprintf("path is %v, and must be a text", t.Args["path"]))
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(t.Dir, path)
	}
	require := text(t.Args, "require", requireAny)
	if !slices.Contains([]string{requireAny, requireVideo, requireAudio}, require) {
		return nil, fault.New(fault.CodeInvalidArgument, fmt.Sprintf("require is %q, and must be any, video or audio", require))
	}
	in, err := o.Hashes.ReadInput(ctx, path)
	rec := &Record{Path: path, AssetSHA256: in.SHA256, Size: in.Size, Streams: []ffmpeg.Stream{}, Chapters: []ffmpeg.Chapter{}, Warnings: []string{}}
	if err != nil {
		return rec, err
	}
	if in.Size > 0 { // all empty files have one content, and each is another's loss
		if err := mediafile.AskSealed(ctx, t, in.SHA256); err != nil {
			return rec, err
		}
	}
	if fail := in.Refuse(); fail != nil {
		return rec, fail
	}
	tool, err := o.Versions.Detect(ctx, text(t.Args, "ffmpeg", cmp.Or(o.FFmpeg, "ffmpeg")), text(t.Args, "ffprobe", cmp.Or(o.FFprobe, "ffprobe")), t.Marker)
	if err != nil {
		return rec, err
	}
	if err := t.OpenInput(ctx, in.SHA256); err != nil {
		return rec, err
	}
	p, err := tool.Probe(ctx, path)
	if err != nil {
		return rec, err
	}
	if fail := judge(p, require); fail != nil {
		return rec, fail
	}
	rec.Container = containerName(p, path)
	rec.DurationS = p.Duration()
	rec.Codec = p.MainCodec()
	rec.HasVideo, rec.HasAudio = p.Video() != nil, p.Audio() != nil
	rec.Streams = p.Streams
	rec.Chapters = append(rec.Chapters, p.Chapters[:min(len(p.Chapters), maxChapters)]...)
	rec.Warnings = append(rec.Warnings, warnings(p, path)...)
	fmt.Fprintf(t.Log, "%s: %s, %s, %.2f s, %d bytes, sha256 %s\n", path, rec.Container, rec.Codec, rec.DurationS, rec.Size, rec.AssetSHA256)
	for _, w := range rec.Warnings {
		fmt.Fprintf(t.Log, "warning: %s\n", w)
	}
	return rec, nil
}

// judge tells whether a file has what the step asks for.
func judge(p *ffmpeg.Probe, require string) *dag.TaskError {
	fail := &dag.TaskError{Class: dag.ClassPermanent}
	switch {
	case p.NamesOthers():
		fail.Code = ffmpeg.CodePlaylistRefused
		fail.Message = "the file is a playlist (" + p.Format.Name + "): it names other files or addresses"
	case !p.HasMedia():
		fail.Code = ffmpeg.CodeNoStreams
		fail.Message = fmt.Sprintf("the file has no video and no audio stream (%d streams in all)", len(p.Streams))
	case require == requireVideo && p.Video() == nil:
		fail.Code = ffmpeg.CodeNoVideoStream
		fail.Message = "the file has no video stream; a cover picture does not count"
	case require == requireAudio && p.Audio() == nil:
		fail.Code = ffmpeg.CodeNoAudioStream
		fail.Message = "the file has no audio stream"
	default:
		return nil
	}
	return fail
}

// warnings are what is odd about a file that can be used all the same.
func warnings(p *ffmpeg.Probe, path string) []string {
	var out []string
	if ext := filepath.Ext(path); p.WrongExtension(ext) {
		out = append(out, fmt.Sprintf("wrong extension: the file is %s and is named %s", containerName(p, path), ext))
	}
	if p.AbsurdDuration() {
		out = append(out, fmt.Sprintf("absurd duration: the container declares %.0f s and its streams %.2f s; the streams are believed", p.Format.Duration, p.StreamDuration()))
	}
	if p.Duration() <= 0 {
		out = append(out, "the file does not say how long it is")
	}
	return out
}

// containerName is one name for a container: the extension's own where ffmpeg
// lists it, else the first of ffmpeg's list.
func containerName(p *ffmpeg.Probe, path string) string {
	return p.Format.ShortName(filepath.Ext(path))
}

func asTaskError(ctx context.Context, err error) *dag.TaskError {
	var fail *dag.TaskError
	if errors.As(err, &fail) {
		return fail
	}
	if stopped := fault.Context(ctx); stopped != nil {
		return stopped
	}
	return fault.New(fault.CodeInternal, err.Error())
}

func text(args map[string]any, key, otherwise string) string {
	if s, ok := args[key].(string); ok && s != "" {
		return s
	}
	return otherwise
}
