package transcode

import (
	"fmt"
	"math"
	"strconv"

	"github.com/airlock-dag/airlock/executor/ffmpeg"
	"github.com/airlock-dag/airlock/executor/gpu"
)

// plan is what one encode is to do; it is the same for all rungs.
type plan struct {
	profile       *Profile
	source        *ffmpeg.Probe
	input         string // path
	version       ffmpeg.Version
	deterministic bool
	strict        bool
	threads       int
}

// rung is one way to encode.
type rung struct {
	encoder gpu.Encoder
	// hardwareDecode decodes on the device, too.
	hardwareDecode bool
}

func (r rung) String() string {
	if r.hardwareDecode {
		return r.encoder.Name + " with cuda decode"
	}
	return r.encoder.Name
}

// outputSize is the size of the output: the input's after rotation, made to fit
// the profile, and even, because 4:2:0 takes no other.
func outputSize(s *ffmpeg.Stream, v *VideoProfile) (width, height int) {
	w, h := s.DisplaySize()
	scale := 1.0
	if v.MaxWidth > 0 && w > v.MaxWidth {
		scale = min(scale, float64(v.MaxWidth)/float64(w))
	}
	if v.MaxHeight > 0 && h > v.MaxHeight {
		scale = min(scale, float64(v.MaxHeight)/float64(h))
	}
	if scale == 1 {
		return even(w), even(h)
	}
	return even(int(math.Round(float64(w) * scale))), even(int(math.Round(float64(h) * scale)))
}

func even(n int) int { return max(n&^1, 2) }

// videoStream and audioStream are what is taken of the source; nil for nothing.
func (p plan) videoStream() *ffmpeg.Stream {
	if p.profile.Video == nil {
		return nil
	}
	return p.source.Video()
}

func (p plan) audioStream() *ffmpeg.Stream {
	if p.profile.Audio == nil {
		return nil
	}
	return p.source.Audio()
}

// args is the command line of one rung. Streams are named by their index: a
// cover picture would be a video stream to a map by type.
func (p plan) args(r rung, dev *gpu.Device, output string) []string {
	var a []string
	if r.encoder.Accel == gpu.AccelVAAPI && dev != nil {
		a = append(a, "-vaapi_device", dev.ID)
	}
	if r.encoder.Accel == gpu.AccelQSV && dev != nil {
		a = append(a, "-init_hw_device", "qsv=hw,child_device="+dev.ID)
	}
	if r.hardwareDecode {
		a = append(a, "-hwaccel", "cuda")
	}
	if p.strict {
		a = append(a, "-xerror")
	}
	a = append(a, "-protocol_whitelist", "file,pipe", "-i", ffmpeg.FileURL(p.input))
	if v := p.videoStream(); v != nil {
		a = append(a, "-map", fmt.Sprintf("0:%d", v.Index))
		a = append(a, p.videoArgs(r, v)...)
	}
	if s := p.audioStream(); s != nil {
		a = append(a, "-map", fmt.Sprintf("0:%d", s.Index))
		a = append(a, p.audioArgs()...)
	}
	threads := p.threads
	if p.deterministic {
		threads = 1
		a = append(a, "-fflags", "+bitexact", "-flags:v", "+bitexact", "-flags:a", "+bitexact", "-map_metadata", "-1")
	}
	if threads > 0 {
		a = append(a, "-threads", strconv.Itoa(threads))
	}
	a = append(a, p.profile.Args...)
	c := p.profile.container()
	switch c.muxer {
	case "mp4", "mov", "ipod":
		a = append(a, "-movflags", "+faststart")
	}
	return append(a, "-f", c.muxer, ffmpeg.FileURL(output))
}

func (p plan) videoArgs(r rung, s *ffmpeg.Stream) []string {
	v := p.profile.Video
	w, h := outputSize(s, v)
	filter := fmt.Sprintf("scale=%d:%d", w, h)
	if v.MaxFPS > 0 && s.FrameRate > v.MaxFPS {
		filter += ",fps=" + strconv.FormatFloat(v.MaxFPS, 'f', -1, 64)
	}
	var a []string
	switch r.encoder.Accel {
	case gpu.AccelVAAPI:
		a = append(a, "-vf", filter+",format="+hardwareFormat(v.PixelFormat)+",hwupload")
	case gpu.AccelQSV:
		a = append(a, "-vf", filter+",format="+hardwareFormat(v.PixelFormat))
	case gpu.AccelNVENC, gpu.AccelSoftware:
		a = append(a, "-vf", filter, "-pix_fmt", v.PixelFormat)
	}
	a = append(a, "-c:v", r.encoder.Name)
	a = append(a, qualityArgs(r.encoder, v)...)
	if v.Codec == "hevc" && p.profile.container().muxer == "mp4" {
		a = append(a, "-tag:v", "hvc1") // players of Apple's take no other
	}
	// -fps_mode came with 5.1; the defaults of 5 and 7 differ, so it is always said.
	option := "-fps_mode"
	if ver := p.version; ver.Major > 0 && (ver.Major < 5 || (ver.Major == 5 && ver.Minor < 1)) {
		option = "-vsync"
	}
	return append(a, option, v.FPSMode)
}

func (p plan) audioArgs() []string {
	au := p.profile.Audio
	name := au.Codec
	if name == "opus" {
		name = "libopus"
	}
	a := []string{"-c:a", name, "-b:a", au.Bitrate}
	if au.Channels > 0 {
		a = append(a, "-ac", strconv.Itoa(au.Channels))
	}
	if au.SampleRate > 0 {
		a = append(a, "-ar", strconv.Itoa(au.SampleRate))
	}
	return a
}

func hardwareFormat(pixelFormat string) string {
	if pixelFormat == "yuv420p10le" {
		return "p010le"
	}
	return "nv12"
}

// qualityArgs says a profile's quality and preset in an encoder's own words.
func qualityArgs(e gpu.Encoder, v *VideoProfile) []string {
	q := strconv.Itoa(v.Quality)
	rank := presetRank(v.Preset) // 0 the fastest, 8 the slowest
	switch e.Accel {
	case gpu.AccelNVENC:
		return []string{"-preset", "p" + strconv.Itoa(1+rank*6/8), "-rc", "vbr", "-cq", q, "-b:v", "0", "-gpu", "0"}
	case gpu.AccelVAAPI:
		return []string{"-rc_mode", "CQP", "-global_quality", q}
	case gpu.AccelQSV:
		return []string{"-global_quality", q}
	case gpu.AccelSoftware:
	}
	switch e.Name {
	case "libsvtav1":
		return []string{"-preset", strconv.Itoa(12 - rank), "-crf", q}
	case "libaom-av1":
		return []string{"-cpu-used", strconv.Itoa(8 - rank), "-row-mt", "1", "-crf", q, "-b:v", "0"}
	case "libx265":
		return []string{"-preset", v.Preset, "-crf", q, "-x265-params", "log-level=error"}
	default:
		return []string{"-preset", v.Preset, "-crf", q}
	}
}
