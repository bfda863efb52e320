package ffmpeg

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Probe is what ffprobe says about a file.
type Probe struct {
	Format   Format    `json:"format"`
	Streams  []Stream  `json:"streams"`
	Chapters []Chapter `json:"chapters"`
}

// Chapter is a named stretch of a file; times are in seconds.
type Chapter struct {
	Start float64 `json:"start_s"`
	End   float64 `json:"end_s"`
	Title string  `json:"title,omitempty"`
}

// Format is the container.
type Format struct {
	// Name is ffmpeg's list of names: "mov,mp4,m4a,3gp,3g2,mj2".
	Name string `json:"name"`
	// Duration in seconds as the header declares it; 0 when it does not.
	Duration float64 `json:"duration_s"`
	// Start is the instant of the first packet in seconds; it need not be 0.
	Start   float64 `json:"start_s,omitempty"`
	BitRate int64   `json:"bit_rate,omitempty"`
	// Score is ffmpeg's confidence in Name, 0 to 100.
	Score int `json:"score,omitempty"`
}

// Stream is one stream of a file.
type Stream struct {
	Index    int    `json:"index"`
	Type     string `json:"type"` // video, audio, subtitle, data, attachment
	Codec    string `json:"codec"`
	Profile  string `json:"profile,omitempty"`
	Language string `json:"language,omitempty"`
	// Duration in seconds as declared for the stream; 0 when it is not.
	Duration float64 `json:"duration_s,omitempty"`
	// Frames that the index declares; 0 when it does not.
	Frames int64 `json:"frames,omitempty"`
	// Width and Height as coded, before rotation.
	Width  int `json:"width,omitempty"`
	Height int `json:"height,omitempty"`
	// Rotation in degrees, one of 0, 90, 180, 270.
	Rotation    int     `json:"rotation,omitempty"`
	PixelFormat string  `json:"pixel_format,omitempty"`
	FrameRate   float64 `json:"frame_rate,omitempty"` // average, frames a second
	// BitDepth of the video's samples; 0 when it is not known.
	BitDepth int `json:"bit_depth,omitempty"`
	// AspectRatio of one sample, "" for square ones; Interlaced is the field
	// order of a picture in two halves, "" for whole pictures.
	AspectRatio string `json:"sample_aspect_ratio,omitempty"`
	Interlaced  string `json:"field_order,omitempty"`
	// Color is nil when the file says nothing of it.
	Color      *Color `json:"color,omitempty"`
	SampleRate int    `json:"sample_rate,omitempty"`
	Channels   int    `json:"channels,omitempty"`
	BitRate    int64  `json:"bit_rate,omitempty"` // bits a second
	// AttachedPicture is set for a cover: it is stored as a video stream and is
	// not video.
	AttachedPicture bool `json:"attached_pic,omitempty"`
}

// Color is how a picture's numbers are to be read, in ffmpeg's names.
type Color struct {
	Range     string `json:"range,omitempty"`
	Space     string `json:"space,omitempty"`
	Primaries string `json:"primaries,omitempty"`
	Transfer  string `json:"transfer,omitempty"`
	// HDR is set for the transfers of high dynamic range (PQ and HLG).
	HDR bool `json:"hdr,omitempty"`
}

// DisplaySize is the size after rotation.
func (s Stream) DisplaySize() (width, height int) {
	if s.Rotation == 90 || s.Rotation == 270 {
		return s.Height, s.Width
	}
	return s.Width, s.Height
}

// Video is the first stream that is video and no cover; nil when there is none.
func (p *Probe) Video() *Stream { return p.first("video") }

// Audio is the first audio stream; nil when there is none.
func (p *Probe) Audio() *Stream { return p.first("audio") }

func (p *Probe) first(kind string) *Stream {
	for i := range p.Streams {
		if s := &p.Streams[i]; s.Type == kind && !s.AttachedPicture {
			return s
		}
	}
	return nil
}

// HasMedia tells whether there is anything to see or to hear.
func (p *Probe) HasMedia() bool { return p.Video() != nil || p.Audio() != nil }

// StreamDuration is the longest declared duration of the video and audio
// streams, in seconds; 0 when none declares one.
func (p *Probe) StreamDuration() float64 {
	var longest float64
	for _, s := range p.Streams {
		if (s.Type == "video" || s.Type == "audio") && !s.AttachedPicture {
			longest = max(longest, s.Duration)
		}
	}
	return longest
}

// Duration is the best guess of the length in seconds: what the streams
// declare, then what the container declares, else 0. Containers lie more often
// than streams do.
func (p *Probe) Duration() float64 {
	if d := p.StreamDuration(); d > 0 {
		return d
	}
	return p.Format.Duration
}

// NamesOthers tells whether the format is one that makes ffmpeg open whatever
// the file names. Sniff finds the usual ones before ffprobe sees them.
func (p *Probe) NamesOthers() bool {
	return slices.ContainsFunc(strings.Split(p.Format.Name, ","), func(name string) bool {
		return slices.Contains([]string{"hls", "applehttp", "concat", "dash", "imf", "sdp", "rtsp", "webm_dash_manifest", "image2"}, name)
	})
}

// Demuxer is the name that makes ffmpeg read the file as what it was found to
// be, and as nothing else.
func (f Format) Demuxer() string {
	first, _, _ := strings.Cut(f.Name, ",")
	return first
}

// AbsurdDuration tells whether the container's declared duration has nothing
// to do with its streams: more than a minute and more than ten times longer.
func (p *Probe) AbsurdDuration() bool {
	streams := p.StreamDuration()
	return streams > 0 && p.Format.Duration > streams+60 && p.Format.Duration > 10*streams
}

// MainCodec is the video codec, or the audio codec of a file without video.
func (p *Probe) MainCodec() string {
	if v := p.Video(); v != nil {
		return v.Codec
	}
	if a := p.Audio(); a != nil {
		return a.Codec
	}
	return ""
}

// rawProbe is ffprobe's own JSON; numbers come as text, and any may be missing.
type rawProbe struct {
	Format struct {
		FormatName string `json:"format_name"`
		Duration   string `json:"duration"`
		Start      string `json:"start_time"`
		BitRate    string `json:"bit_rate"`
		Score      int    `json:"probe_score"`
	} `json:"format"`
	Streams []struct {
		Index       int               `json:"index"`
		Type        string            `json:"codec_type"`
		Codec       string            `json:"codec_name"`
		Profile     string            `json:"profile"`
		Duration    string            `json:"duration"`
		Frames      string            `json:"nb_frames"`
		Width       int               `json:"width"`
		Height      int               `json:"height"`
		PixelFormat string            `json:"pix_fmt"`
		FrameRate   string            `json:"avg_frame_rate"`
		BitDepth    string            `json:"bits_per_raw_sample"`
		Aspect      string            `json:"sample_aspect_ratio"`
		FieldOrder  string            `json:"field_order"`
		ColorRange  string            `json:"color_range"`
		ColorSpace  string            `json:"color_space"`
		Primaries   string            `json:"color_primaries"`
		Transfer    string            `json:"color_transfer"`
		SampleRate  string            `json:"sample_rate"`
		Channels    int               `json:"channels"`
		BitRate     string            `json:"bit_rate"`
		Disposition map[string]int    `json:"disposition"`
		Tags        map[string]string `json:"tags"`
		SideData    []struct {
			Rotation *float64 `json:"rotation"`
		} `json:"side_data_list"`
	} `json:"streams"`
	Chapters []struct {
		Start string            `json:"start_time"`
		End   string            `json:"end_time"`
		Tags  map[string]string `json:"tags"`
	} `json:"chapters"`
}

// ParseProbe reads the output of `ffprobe -print_format json -show_format
// -show_streams -show_chapters`.
func ParseProbe(out []byte) (*Probe, error) {
	var raw rawProbe
	if err := json.Unmarshal(out, &raw); err != nil {
		return nil, fmt.Errorf("ffprobe's answer is not the JSON that was asked for: %w", err)
	}
	return raw.probe(), nil
}

func (raw *rawProbe) probe() *Probe {
	p := &Probe{
		Format: Format{
			Name:     raw.Format.FormatName,
			Duration: seconds(raw.Format.Duration),
			Start:    number(raw.Format.Start),
			BitRate:  int64(number(raw.Format.BitRate)),
			Score:    raw.Format.Score,
		},
		Streams: []Stream{}, Chapters: []Chapter{},
	}
	for _, r := range raw.Streams {
		s := Stream{
			Index: r.Index, Type: r.Type, Codec: r.Codec, Profile: r.Profile,
			Duration: seconds(r.Duration), Frames: int64(number(r.Frames)),
			Width: r.Width, Height: r.Height, PixelFormat: r.PixelFormat,
			FrameRate: ratio(r.FrameRate), SampleRate: int(number(r.SampleRate)), Channels: r.Channels,
			BitDepth: int(number(r.BitDepth)), BitRate: int64(number(r.BitRate)),
			AttachedPicture: r.Disposition["attached_pic"] == 1,
			Language:        r.Tags["language"],
		}
		if s.Duration == 0 { // Matroska keeps it in a tag
			s.Duration = clockSeconds(r.Tags["DURATION"])
		}
		if s.Language == "und" {
			s.Language = ""
		}
		if a := r.Aspect; a != "1:1" && a != "0:1" && a != "N/A" {
			s.AspectRatio = a
		}
		if r.FieldOrder != "progressive" {
			s.Interlaced = known(r.FieldOrder)
		}
		s.Color = color(Color{
			Range: known(r.ColorRange), Space: known(r.ColorSpace), Primaries: known(r.Primaries), Transfer: known(r.Transfer),
		})
		rotation := number(r.Tags["rotate"])
		for _, side := range r.SideData {
			if side.Rotation != nil {
				rotation = *side.Rotation
			}
		}
		s.Rotation = quarterTurn(rotation)
		p.Streams = append(p.Streams, s)
	}
	for _, c := range raw.Chapters {
		p.Chapters = append(p.Chapters, Chapter{Start: number(c.Start), End: number(c.End), Title: clip(c.Tags["title"], 200)})
	}
	return p
}

// known is a name that says something.
func known(name string) string {
	if name == "unknown" || name == "N/A" || name == "reserved" {
		return ""
	}
	return name
}

// color is nil when nothing is said.
func color(c Color) *Color {
	if c == (Color{}) {
		return nil
	}
	c.HDR = c.Transfer == "smpte2084" || c.Transfer == "arib-std-b67"
	return &c
}

// quarterTurn brings an angle to one of 0, 90, 180, 270.
func quarterTurn(degrees float64) int {
	if math.IsNaN(degrees) || math.Abs(degrees) > 1e6 {
		return 0
	}
	q := int(math.Round(degrees/90)) % 4
	return (q + 4) % 4 * 90
}

// seconds reads a duration; what is not a finite positive number is 0.
func seconds(text string) float64 {
	v := number(text)
	if v < 0 {
		return 0
	}
	return v
}

func number(text string) float64 {
	v, _ := finite(text)
	return v
}

// finite reads a number; ok is false, and the number 0, for anything else.
func finite(text string) (v float64, ok bool) {
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, false
	}
	return v, true
}

// ratio reads "30000/1001"; 0 when it is not a rate.
func ratio(text string) float64 {
	n, d, ok := strings.Cut(text, "/")
	if !ok {
		return number(text)
	}
	if b := number(d); b > 0 {
		return number(n) / b
	}
	return 0
}

// clockSeconds reads "00:00:02.046000000"; 0 when it is not a time.
func clockSeconds(text string) float64 {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return 0
	}
	return number(parts[0])*3600 + number(parts[1])*60 + number(parts[2])
}

// extensionsOf lists the file name extensions that go with a container, by
// the first of ffmpeg's names for it. Containers that are not here have no
// wrong extension.
func extensionsOf(format string) []string {
	first, _, _ := strings.Cut(format, ",")
	switch first {
	case "mov":
		return []string{"mp4", "mov", "m4a", "m4v", "3gp", "3g2", "mj2", "f4v", "m4b", "qt"}
	case "matroska":
		return []string{"mkv", "webm", "mka", "mks", "mk3d"}
	case "mp3":
		return []string{"mp3"}
	case "mpegts":
		return []string{"ts", "m2ts", "mts", "mpegts"}
	case "avi":
		return []string{"avi"}
	case "wav":
		return []string{"wav"}
	case "flac":
		return []string{"flac"}
	case "ogg":
		return []string{"ogg", "ogv", "oga", "opus"}
	case "flv":
		return []string{"flv"}
	case "asf":
		return []string{"asf", "wmv", "wma"}
	default:
		return nil
	}
}

// WrongExtension tells whether a file's extension (with or without the dot)
// belongs to another container than the one found in it.
func (p *Probe) WrongExtension(extension string) bool {
	known := extensionsOf(p.Format.Name)
	return len(known) > 0 && !slices.Contains(known, strings.ToLower(strings.TrimPrefix(extension, ".")))
}

// ShortName is one name for the container: the extension's own where it is one
// of ffmpeg's names for the format, else the first that people know it by.
func (f Format) ShortName(extension string) string {
	names := strings.Split(f.Name, ",")
	if ext := strings.ToLower(strings.TrimPrefix(extension, ".")); slices.Contains(names, ext) {
		return ext
	}
	if names[0] == "mov" {
		return "mp4"
	}
	return names[0]
}
