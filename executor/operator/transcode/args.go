package transcode

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

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
	// maxFrames is the most video frames of the output; 0 for no limit.
	maxFrames int64
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

// subtitleStreams are the source's subtitles that the output gets.
func (p plan) subtitleStreams() []ffmpeg.Stream {
	if p.profile.Subtitles != subtitlesText {
		return nil
	}
	var out []ffmpeg.Stream
	for _, s := range p.source.Streams {
		if s.Type == "subtitle" && isTextSubtitle(s.Codec) {
			out = append(out, s)
		}
	}
	return out
}

// args is the command line of one rung that makes the whole output. Streams are
// named by their index: a cover picture would be a video stream to a map by type.
func (p plan) args(r rung, dev *gpu.Device, output string) []string {
	a := p.inputArgs(r, dev)
	if v := p.videoStream(); v != nil {
		a = append(a, "-map", fmt.Sprintf("0:%d", v.Index))
		a = append(a, p.videoArgs(r, v)...)
	}
	a = append(a, p.otherStreams(0)...)
	if p.deterministic {
		a = append(a, bitExact()...)
	}
	if threads := p.encoderThreads(); threads > 0 {
		a = append(a, "-threads", strconv.Itoa(threads))
	}
	return append(a, p.outputArgs(0, output)...)
}

func (p plan) encoderThreads() int {
	if p.deterministic {
		return 1
	}
	return p.threads
}

// bitExact keeps versions, random ids and the time of day out of a file.
func bitExact() []string {
	return []string{"-fflags", "+bitexact", "-flags:v", "+bitexact", "-flags:a", "+bitexact"}
}

// inputArgs open the source, as the format that it was found to have and no
// other.
func (p plan) inputArgs(r rung, dev *gpu.Device) []string {
	a := gpu.InitArgs(r.encoder.Accel, dev)
	if v := p.videoStream(); v != nil {
		a = append(a, gpu.DecodeArgs(r.decode, v.PixelFormat)...)
	}
	if p.strict {
		a = append(a, "-xerror")
	}
	return append(a, "-f", p.source.Format.Demuxer(), "-protocol_whitelist", "file,pipe", "-i", ffmpeg.FileURL(p.input))
}

// otherStreams maps and encodes what is no video, from an input's number.
func (p plan) otherStreams(input int) []string {
	var a []string
	if s := p.audioStream(); s != nil {
		a = append(a, "-map", fmt.Sprintf("%d:%d", input, s.Index))
		a = append(a, p.audioArgs()...)
	}
	subtitles := p.subtitleStreams()
	for _, s := range subtitles {
		a = append(a, "-map", fmt.Sprintf("%d:%d", input, s.Index))
	}
	if len(subtitles) > 0 {
		a = append(a, "-c:s", p.profile.container().subtitleCodec())
	}
	return a
}

// outputArgs end a command line that makes the whole output; metadata comes
// from an input's number.
func (p plan) outputArgs(input int, output string) []string {
	var a []string
	m := p.profile.Metadata
	if m == nil {
		m = &MetadataProfile{}
	}
	from, chapters := strconv.Itoa(input), strconv.Itoa(input)
	if m.Drop || p.deterministic { // the time of recording is in it
		from = "-1"
	}
	if m.DropChapters || p.deterministic {
		chapters = "-1"
	}
	a = append(a, "-map_metadata", from, "-map_chapters", chapters)
	for _, key := range slices.Sorted(maps.Keys(m.Set)) {
		a = append(a, "-metadata", key+"="+m.Set[key])
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
	filters := append(slices.Clone(v.Filters), fmt.Sprintf("scale=%d:%d", w, h))
	if v.MaxFPS > 0 && s.FrameRate > v.MaxFPS {
		filters = append(filters, "fps="+strconv.FormatFloat(v.MaxFPS, 'f', -1, 64))
	}
	var a []string
	switch r.encoder.Accel {
	case gpu.AccelVAAPI:
		a = append(a, "-vf", strings.Join(append(filters, "format="+gpu.Surface(v.PixelFormat), "hwupload"), ","))
	case gpu.AccelQSV:
		a = append(a, "-vf", strings.Join(append(filters, "format="+gpu.Surface(v.PixelFormat)), ","))
	case gpu.AccelNVENC:
		a = append(a, "-vf", strings.Join(filters, ","), "-pix_fmt", gpu.NVENCFormat(v.PixelFormat))
	case gpu.AccelSoftware:
		a = append(a, "-vf", strings.Join(filters, ","), "-pix_fmt", v.PixelFormat)
	}
	a = append(a, "-c:v", r.encoder.Name)
	a = append(a, p.qualityArgs(r.encoder)...)
	if v.KeyInterval > 0 {
		switch r.encoder.Accel { // a forced key frame is to be one that a player can begin at
		case gpu.AccelNVENC:
			a = append(a, "-forced-idr", "1")
		case gpu.AccelQSV:
			a = append(a, "-forced_idr", "1")
		case gpu.AccelVAAPI, gpu.AccelSoftware: // they make it one
		}
		a = append(a, "-force_key_frames", "expr:gte(t,n_forced*"+strconv.FormatFloat(v.KeyInterval, 'f', -1, 64)+")")
	}
	if v.Codec == "hevc" && (p.profile.container().muxer == "mp4" || p.profile.container().muxer == "mov") {
		a = append(a, "-tag:v", "hvc1") // players of Apple's take no other
	}
	// Up to 5 ffmpeg looks at nothing else and says nothing while it fills a gap
	// in the timestamps, so it has to stop by itself; one frame more than is allowed
	// shows that it would go on. Later ones go on telling, and would end the sound
	// with the video.
	if p.maxFrames > 0 && p.version.Major > 0 && p.version.Major < 6 {
		a = append(a, "-frames:v", strconv.FormatInt(p.maxFrames+1, 10))
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
	a := []string{"-c:a", audioEncoder(au), "-b:a", au.Bitrate}
	if au.Channels > 0 {
		a = append(a, "-ac", strconv.Itoa(au.Channels))
	}
	if au.SampleRate > 0 {
		a = append(a, "-ar", strconv.Itoa(au.SampleRate))
	}
	if len(au.Filters) > 0 {
		a = append(a, "-af", strings.Join(au.Filters, ","))
	}
	return a
}

func audioEncoder(au *AudioProfile) string {
	if au.Codec == "opus" {
		return "libopus"
	}
	return au.Codec
}

// qualityArgs says a profile's rate control and preset in an encoder's own
// words.
func (p plan) qualityArgs(e gpu.Encoder) []string {
	v := p.profile.Video
	q := strconv.Itoa(v.Quality)
	if e.Accel != gpu.AccelSoftware {
		q = strconv.Itoa(hardwareQuality(e, v.Quality))
	}
	rank := presetRank(v.Preset) // 0 the fastest, 8 the slowest
	rate := rateArgs(v)
	constant := v.Bitrate == ""
	switch e.Accel {
	case gpu.AccelNVENC:
		a := []string{"-preset", "p" + strconv.Itoa(1+rank*6/8), "-rc", "vbr"}
		if constant {
			a = append(a, "-cq", q, "-b:v", "0")
		}
		return append(append(a, rate...), "-gpu", "0")
	case gpu.AccelVAAPI:
		switch {
		case constant && v.MaxRate != "": // without a bit rate it would aim at a small one
			return append([]string{"-rc_mode", "QVBR", "-global_quality", q, "-b:v", v.MaxRate}, rate...)
		case constant:
			return []string{"-rc_mode", "CQP", "-global_quality", q}
		}
		return append([]string{"-rc_mode", "VBR"}, rate...)
	case gpu.AccelQSV:
		switch {
		case constant && v.MaxRate != "":
			return append([]string{"-global_quality", q, "-b:v", v.MaxRate}, rate...)
		case constant:
			return []string{"-global_quality", q}
		}
		return rate
	case gpu.AccelSoftware:
	}
	quality := []string{"-crf", q}
	if !constant {
		quality = nil
	}
	switch e.Name {
	case "libsvtav1":
		a := append([]string{"-preset", strconv.Itoa(12 - rank)}, append(quality, rate...)...)
		if p.encoderThreads() == 1 {
			a = append(a, "-svtav1-params", "lp=1")
		}
		return a
	case "libaom-av1":
		a := append([]string{"-cpu-used", strconv.Itoa(8 - rank), "-row-mt", "1"}, append(quality, rate...)...)
		if constant {
			a = append(a, "-b:v", "0")
		}
		return a
	case "libx265":
		params := "log-level=error"
		if p.encoderThreads() == 1 {
			params += ":pools=none:frame-threads=1:wpp=0"
		}
		return append(append([]string{"-preset", v.Preset}, append(quality, rate...)...), "-x265-params", params)
	default:
		return append([]string{"-preset", v.Preset}, append(quality, rate...)...)
	}
}

// hardwareQuality is a profile's quality on the scale of a device's encoder: that
// of av1 goes to 63, of VAAPI's av1 to 255, and of the others to 51.
func hardwareQuality(e gpu.Encoder, quality int) int {
	if e.Codec == "av1" && e.Accel == gpu.AccelVAAPI {
		return quality * 255 / 63
	}
	return min(quality, 51)
}

// rateArgs are the bit rate to aim at and the one not to pass.
func rateArgs(v *VideoProfile) []string {
	var a []string
	if v.Bitrate != "" {
		a = append(a, "-b:v", v.Bitrate)
	}
	if v.MaxRate != "" {
		buffer := cmp.Or(v.Buffer, strconv.FormatInt(2*bits(v.MaxRate), 10))
		a = append(a, "-maxrate", v.MaxRate, "-bufsize", buffer)
	}
	return a
}
