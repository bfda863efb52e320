package ffmpeg

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/airlock-dag/airlock/dag"
)

// Verification holds what an output must agree with. A status of 0 proves
// nothing: a damaged or shortened input ends with 0 in every version.
type Verification struct {
	Source, Output *Probe
	// SourcePackets and OutputPackets are nil when packets were not read.
	SourcePackets, OutputPackets map[int]Packets
	// Video and Audio say what the output must have; nil when it must have none.
	Video *WantVideo
	Audio *WantAudio
	// Subtitles is how many streams of subtitles the output must have.
	Subtitles int
	// DecodeErrors were counted while encoding; MaxDecodeErrors are allowed.
	DecodeErrors, MaxDecodeErrors int
}

// WantVideo is the video stream that an output must have.
type WantVideo struct {
	Codec         string
	PixelFormats  []string // any of them; empty for any at all
	Width, Height int
	// KeepsFrames is set when each frame of the source becomes one of the output.
	KeepsFrames bool
}

// WantAudio is the audio stream that an output must have.
type WantAudio struct {
	Codec      string
	SampleRate int // 0 for any
	Channels   int // 0 for any
}

// Tolerance is how far two durations in seconds may be apart: half a second or
// one in a hundred, whichever is more.
func Tolerance(duration float64) float64 { return max(0.5, duration/100) }

// Check finds the first thing that is wrong, in an order that names the cause
// rather than what follows from it; nil when the output is sound.
func (v Verification) Check() *dag.TaskError {
	for _, check := range []func() *dag.TaskError{
		v.streams, v.video, v.audio, v.durations, v.decodeErrors, v.packets,
	} {
		if fail := check(); fail != nil {
			return fail
		}
	}
	return nil
}

func (v Verification) streams() *dag.TaskError {
	var videos, audios, subtitles int
	for _, s := range v.Output.Streams {
		switch {
		case s.Type == "video" && !s.AttachedPicture:
			videos++
		case s.Type == "audio":
			audios++
		case s.Type == "subtitle":
			subtitles++
		}
	}
	if want := count(v.Video != nil); videos != want {
		return mismatch(CodeStreamsMismatch, "the output has %d video streams, %d expected", videos, want)
	}
	if want := count(v.Audio != nil); audios != want {
		return mismatch(CodeStreamsMismatch, "the output has %d audio streams, %d expected", audios, want)
	}
	if subtitles != v.Subtitles {
		return mismatch(CodeStreamsMismatch, "the output has %d streams of subtitles, %d expected", subtitles, v.Subtitles)
	}
	return nil
}

func count(present bool) int {
	if present {
		return 1
	}
	return 0
}

func (v Verification) video() *dag.TaskError {
	if v.Video == nil {
		return nil
	}
	got := v.Output.Video()
	if got.Codec != v.Video.Codec {
		return mismatch(CodeCodecMismatch, "the output's video is %s, %s expected", got.Codec, v.Video.Codec)
	}
	if len(v.Video.PixelFormats) > 0 && !slices.Contains(v.Video.PixelFormats, got.PixelFormat) {
		return mismatch(CodeCodecMismatch, "the output's pixel format is %s, %s expected", got.PixelFormat, strings.Join(v.Video.PixelFormats, " or "))
	}
	if w, h := got.DisplaySize(); w != v.Video.Width || h != v.Video.Height {
		return mismatch(CodeSizeMismatch, "the output is %dx%d, %dx%d expected", w, h, v.Video.Width, v.Video.Height)
	}
	return nil
}

func (v Verification) audio() *dag.TaskError {
	if v.Audio == nil {
		return nil
	}
	got := v.Output.Audio()
	if got.Codec != v.Audio.Codec {
		return mismatch(CodeCodecMismatch, "the output's audio is %s, %s expected", got.Codec, v.Audio.Codec)
	}
	if v.Audio.SampleRate > 0 && got.SampleRate != v.Audio.SampleRate {
		return mismatch(CodeCodecMismatch, "the output's sample rate is %d, %d expected", got.SampleRate, v.Audio.SampleRate)
	}
	if v.Audio.Channels > 0 && got.Channels != v.Audio.Channels {
		return mismatch(CodeCodecMismatch, "the output has %d audio channels, %d expected", got.Channels, v.Audio.Channels)
	}
	return nil
}

// pairs are the source stream and output stream that belong together.
func (v Verification) pairs() [][2]*Stream {
	var out [][2]*Stream
	if v.Video != nil && v.Source.Video() != nil && v.Output.Video() != nil {
		out = append(out, [2]*Stream{v.Source.Video(), v.Output.Video()})
	}
	if v.Audio != nil && v.Source.Audio() != nil && v.Output.Audio() != nil {
		out = append(out, [2]*Stream{v.Source.Audio(), v.Output.Audio()})
	}
	return out
}

func (v Verification) durations() *dag.TaskError {
	if fail := SourceComplete(v.Source, v.SourcePackets); fail != nil {
		return fail
	}
	compared := false
	for _, pair := range v.pairs() {
		want := sourceDuration(pair[0], v.SourcePackets)
		got := outputDuration(pair[1], v.Output, v.OutputPackets)
		if want <= 0 {
			continue
		}
		compared = true
		if math.Abs(got-want) > Tolerance(want) {
			return v.tooShort(pair[0].Type, got, want)
		}
	}
	if compared || v.Source.Format.Duration <= 0 || v.Source.AbsurdDuration() || estimated(v.Source.Format.Name) {
		return nil
	}
	// No stream says how long it is: the container does.
	if want, got := v.Source.Format.Duration, v.Output.Duration(); math.Abs(got-want) > Tolerance(want) {
		return v.tooShort("file", got, want)
	}
	return nil
}

func (v Verification) tooShort(what string, got, want float64) *dag.TaskError {
	fail := mismatch(CodeDurationMismatch, "the output's %s lasts %.2f s, the input's %.2f s", what, got, want)
	if v.DecodeErrors > 0 {
		fail.Message += fmt.Sprintf("; ffmpeg told of damaged input in %d lines", v.DecodeErrors)
		return fail
	}
	if v.SourcePackets != nil {
		// Every packet of the input is there: it is the encoder that lost some.
		fail.Class = dag.ClassTransient
		fail.Hint = "the input is complete, so another try may do better"
	}
	return fail
}

func (v Verification) decodeErrors() *dag.TaskError {
	if v.DecodeErrors <= v.MaxDecodeErrors {
		return nil
	}
	return &dag.TaskError{
		Class: dag.ClassPermanent, Code: CodeDecodeErrors,
		Message: fmt.Sprintf("ffmpeg told of damaged input in %d lines, %d are allowed", v.DecodeErrors, v.MaxDecodeErrors),
		Hint:    "fetch the input again, or raise max_decode_errors to take the loss",
	}
}

// packets compares counts and sums: a hole in the middle leaves the duration
// as it was.
func (v Verification) packets() *dag.TaskError {
	if v.SourcePackets == nil || v.OutputPackets == nil {
		return nil
	}
	lossAllowed := v.DecodeErrors > 0 // and not more than the step takes
	for _, pair := range v.pairs() {
		src, out := v.SourcePackets[pair[0].Index], v.OutputPackets[pair[1].Index]
		if pair[0].Type == "video" && v.Video.KeepsFrames {
			want := src.Count
			if n := int64(pair[0].FrameRate * src.Span()); n > 0 && n < want {
				want = n // two fields in two packets make one frame
			}
			slack := max(2, want/100)
			if lossAllowed {
				slack += int64(v.DecodeErrors)
			}
			if out.Count < want-slack || out.Count > src.Count+slack {
				return mismatch(CodePacketsMismatch, "the output has %d video frames, the input %d", out.Count, src.Count)
			}
		}
		if pair[0].Type == "audio" && src.Sum > 0 && !lossAllowed && out.Sum < src.Sum-Tolerance(src.Sum) {
			return mismatch(CodePacketsMismatch, "the output has %.2f s of sound, the input %.2f s", out.Sum, src.Sum)
		}
	}
	return nil
}

// SourceComplete tells whether the packets of an input are all that its index
// declares; nil when they are, or when nothing is known. It needs no output, so
// a shortened input is found before anything is encoded.
func SourceComplete(source *Probe, packets map[int]Packets) *dag.TaskError {
	if packets == nil {
		return nil
	}
	var end float64
	for _, s := range source.Streams {
		if (s.Type != "video" && s.Type != "audio") || s.AttachedPicture {
			continue
		}
		got := packets[s.Index]
		end = max(end, got.Span())
		if s.Frames > 0 && s.Duration > 0 && got.Count < s.Frames && got.Span() < s.Duration-Tolerance(s.Duration) {
			return mismatch(CodeDurationMismatch, "the input's %s ends after %.2f s of %.2f s: %d of %d packets are there",
				s.Type, got.Span(), s.Duration, got.Count, s.Frames)
		}
	}
	declared := source.Format.Duration
	if source.StreamDuration() > 0 || declared <= 0 || end <= 0 || estimated(source.Format.Name) {
		return nil
	}
	if end < declared-Tolerance(declared) {
		return mismatch(CodeDurationMismatch, "the input ends after %.2f s of the %.2f s that it declares", end, declared)
	}
	return nil
}

// estimated tells whether a container has no index, so that its duration is
// ffmpeg's guess from the bit rate or from timestamps.
func estimated(format string) bool {
	first, _, _ := strings.Cut(format, ",")
	return slices.Contains([]string{"mp3", "aac", "ac3", "mpegts", "mpeg", "mpegvideo", "h264", "hevc", "m4v"}, first)
}

// sourceDuration is how long the output of a stream must be: what its packets
// span when they were read and are all there, else what it declares.
func sourceDuration(s *Stream, packets map[int]Packets) float64 {
	p, read := packets[s.Index]
	if !read || p.Span() <= 0 {
		return s.Duration
	}
	if s.Frames > 0 && p.Count < s.Frames {
		return max(s.Duration, p.Span())
	}
	return p.Span()
}

func outputDuration(s *Stream, output *Probe, packets map[int]Packets) float64 {
	if p, read := packets[s.Index]; read && p.Span() > 0 {
		return p.Span()
	}
	if s.Duration > 0 {
		return s.Duration
	}
	return output.Format.Duration
}

func mismatch(code, format string, args ...any) *dag.TaskError {
	return &dag.TaskError{
		Class: dag.ClassPermanent, Code: code, Message: fmt.Sprintf(format, args...),
		Hint: "compare the input with its source; nothing was published",
	}
}
