package transcode

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// VideoProfile is the video part of a profile.
type VideoProfile struct {
	Codec string `json:"codec"` // h264, hevc, av1
	// MaxWidth and MaxHeight bound the size; nothing is made larger than it is.
	MaxWidth  int `json:"max_width,omitempty"`
	MaxHeight int `json:"max_height,omitempty"`
	// Quality is the encoder's constant quality: less is better. Without a
	// Bitrate, 0 stands for the codec's usual one.
	Quality int `json:"quality,omitempty"`
	// Bitrate is aimed at in place of a constant quality. MaxRate bounds the rate
	// of either, measured over Buffer bits.
	Bitrate     string `json:"bitrate,omitempty"`
	MaxRate     string `json:"max_rate,omitempty"`
	Buffer      string `json:"buffer,omitempty"`
	Preset      string `json:"preset,omitempty"` // x264's names, translated for other encoders
	PixelFormat string `json:"pixel_format,omitempty"`
	// FPSMode is vfr (each frame keeps its time), cfr or passthrough.
	FPSMode string  `json:"fps_mode,omitempty"`
	MaxFPS  float64 `json:"max_fps,omitempty"`
	// KeyInterval is the most seconds from one key frame to the next; 0 leaves it
	// to the encoder.
	KeyInterval float64 `json:"keyframe_interval,omitempty"`
	// Filters of ffmpeg, applied in this order before the scaling.
	Filters []string `json:"filters,omitempty"`
}

// AudioProfile is the audio part of a profile.
type AudioProfile struct {
	Codec      string `json:"codec"` // aac, opus
	Bitrate    string `json:"bitrate,omitempty"`
	Channels   int    `json:"channels,omitempty"`    // 0 keeps the input's
	SampleRate int    `json:"sample_rate,omitempty"` // 0 keeps the input's
	// Filters of ffmpeg, applied in this order.
	Filters []string `json:"filters,omitempty"`
	// Required makes an input without sound a failure.
	Required bool `json:"required,omitempty"`
}

// MetadataProfile says what the output tells of itself.
type MetadataProfile struct {
	// Drop leaves the input's titles and tags out, DropChapters its chapters.
	Drop         bool `json:"drop,omitempty"`
	DropChapters bool `json:"drop_chapters,omitempty"`
	// Set is written over what is kept.
	Set map[string]string `json:"set,omitempty"`
}

var bitrate = regexp.MustCompile(`^[1-9][0-9]{0,8}[kKmM]?$`)

// bits is a bit rate as a number; 0 for "".
func bits(text string) int64 {
	var n int64
	var unit string
	_, _ = fmt.Sscanf(text, "%d%s", &n, &unit)
	switch strings.ToLower(unit) {
	case "k":
		n *= 1000
	case "m":
		n *= 1_000_000
	}
	return n
}

func (v *VideoProfile) normalise() error {
	if v == nil {
		return nil
	}
	if v.PixelFormat == "" {
		v.PixelFormat = "yuv420p"
	}
	if v.Preset == "" {
		v.Preset = "medium"
	}
	if v.FPSMode == "" {
		v.FPSMode = "vfr"
	}
	switch {
	case !slices.Contains([]string{"h264", "hevc", "av1"}, v.Codec):
		return fmt.Errorf("codec %q: use h264, hevc or av1", v.Codec)
	case !slices.Contains([]string{"yuv420p", "yuv420p10le"}, v.PixelFormat):
		return fmt.Errorf("pixel_format %q: use yuv420p or yuv420p10le", v.PixelFormat)
	case presetRank(v.Preset) < 0:
		return fmt.Errorf("preset %q: use one of %s", v.Preset, strings.Join(presets(), ", "))
	case !slices.Contains([]string{"vfr", "cfr", "passthrough"}, v.FPSMode):
		return fmt.Errorf("fps_mode %q: use vfr, cfr or passthrough", v.FPSMode)
	case v.MaxWidth < 0 || v.MaxHeight < 0 || v.MaxWidth == 1 || v.MaxHeight == 1:
		return errors.New("max_width and max_height: 2 or more")
	case v.MaxFPS < 0:
		return errors.New("max_fps: it must be positive")
	case v.KeyInterval < 0 || v.KeyInterval > 3600:
		return errors.New("keyframe_interval: 0 to 3600 seconds")
	}
	if err := v.rateControl(); err != nil {
		return err
	}
	return checkFilters(v.Filters, frameFilters())
}

// rateControl checks what decides the size of the output, and fills in the
// codec's usual quality where nothing is said.
func (v *VideoProfile) rateControl() error {
	limit := 51
	usual := map[string]int{"h264": 22, "hevc": 25, "av1": 32}[v.Codec]
	if v.Codec == "av1" {
		limit = 63
	}
	for key, rate := range map[string]string{"bitrate": v.Bitrate, "max_rate": v.MaxRate, "buffer": v.Buffer} {
		if rate != "" && !bitrate.MatchString(rate) {
			return fmt.Errorf("%s %q: a number of bits, with k or M", key, rate)
		}
	}
	switch {
	case v.Quality < 0 || v.Quality > limit:
		return fmt.Errorf("quality %d: 1 to %d for %s; 0 takes its usual one", v.Quality, limit, v.Codec)
	case v.Quality > 0 && v.Bitrate != "":
		return errors.New("quality and bitrate: one of them decides; max_rate bounds the other")
	case v.Buffer != "" && v.MaxRate == "":
		return errors.New("buffer: it needs a max_rate")
	case v.MaxRate != "" && v.Bitrate == "" && v.Codec == "av1":
		return errors.New("max_rate: for av1 it needs a bitrate")
	case v.MaxRate != "" && v.Bitrate != "" && bits(v.MaxRate) < bits(v.Bitrate):
		return errors.New("max_rate: it is less than bitrate")
	}
	if v.Bitrate == "" && v.Quality == 0 {
		v.Quality = usual
	}
	return nil
}

func (a *AudioProfile) normalise() error {
	if a == nil {
		return nil
	}
	if a.Bitrate == "" {
		a.Bitrate = "128k"
	}
	switch {
	case !slices.Contains([]string{"aac", "opus"}, a.Codec):
		return fmt.Errorf("codec %q: use aac or opus", a.Codec)
	case !bitrate.MatchString(a.Bitrate):
		return fmt.Errorf("bitrate %q: a number, with k or M", a.Bitrate)
	case a.Channels < 0 || a.Channels > 8:
		return fmt.Errorf("channels %d: 0 to 8", a.Channels)
	case a.SampleRate < 0 || a.SampleRate > 192000:
		return fmt.Errorf("sample_rate %d: up to 192000", a.SampleRate)
	case a.Codec == "opus" && a.SampleRate != 0 && a.SampleRate != 48000:
		return errors.New("sample_rate: opus is always 48000")
	}
	return checkFilters(a.Filters, []string{
		"amovie", "atempo", "atrim", "areverse", "aloop", "asetpts", "asetrate", "apad", "adelay", "silenceremove", "aselect", "arealtime",
	})
}

// frameFilters change the size, the number or the times of frames, or read
// other files: the output could then not be compared with its input any more.
func frameFilters() []string {
	return []string{
		"movie", "scale", "scale2ref", "zscale", "crop", "pad", "transpose", "rotate", "tile", "untile", "hstack", "vstack", "fps", "framerate",
		"minterpolate", "framestep", "decimate", "mpdecimate", "select", "setpts", "trim", "loop", "reverse", "tinterlace", "thumbnail", "realtime",
		"hwupload", "hwdownload", "format",
	}
}

var oneFilter = regexp.MustCompile(`^([a-z][a-z0-9_]*)(=[^;\[\]]+)?$`)

// checkFilters takes a chain of single filters, and none of the forbidden ones.
func checkFilters(filters, forbidden []string) error {
	for _, f := range filters {
		m := oneFilter.FindStringSubmatch(f)
		switch {
		case m == nil || strings.Contains(unquoted(f), ","):
			return fmt.Errorf("filters: %q is not one filter with its options; give a list of them", f)
		case slices.Contains(forbidden, m[1]):
			return fmt.Errorf("filters: %s would change what the output is verified by", m[1])
		}
	}
	return nil
}

// unquoted is a filter without what stands in quotes or behind a backslash.
func unquoted(f string) string {
	var out strings.Builder
	quoted := false
	for i := 0; i < len(f); i++ {
		switch {
		case f[i] == '\'':
			quoted = !quoted
		case quoted:
		case f[i] == '\\':
			i++
		default:
			out.WriteByte(f[i])
		}
	}
	return out.String()
}

// Values of a profile's subtitles.
const (
	subtitlesNone = "none"
	subtitlesText = "text"
)

// subtitleCodec is how a container stores subtitles that are text; "" when it
// takes none.
func (c container) subtitleCodec() string {
	switch c.name {
	case "mp4", "mov":
		return "mov_text"
	case "mkv":
		return "subrip"
	case "webm":
		return "webvtt"
	default:
		return ""
	}
}

// isTextSubtitle tells whether a codec of ffmpeg's holds text that another form
// can be made of; the others are pictures.
func isTextSubtitle(codec string) bool {
	return slices.Contains([]string{"mov_text", "subrip", "srt", "webvtt", "ass", "ssa", "text", "microdvd", "subviewer", "subviewer1", "sami", "realtext", "jacosub", "mpl2", "pjs", "vplayer", "stl", "ttml"}, codec)
}

var metadataKey = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

func (m *MetadataProfile) normalise() error {
	if m == nil {
		return nil
	}
	for key, value := range m.Set {
		switch {
		case !metadataKey.MatchString(key):
			return fmt.Errorf("set: %q is no name of a tag", key)
		case strings.ContainsAny(value, "\x00\r\n"):
			return fmt.Errorf("set: the value of %s has a line end in it", key)
		}
	}
	return nil
}
