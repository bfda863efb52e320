package transcode

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/ffmpeg"
)

//go:embed profiles.yml
var builtin []byte

// ProfilesFile is the name of the file with profiles beside a DAG's file.
const ProfilesFile = "profiles.yml"

// Profile says what an output is to be.
type Profile struct {
	Name      string        `json:"name"`
	Container string        `json:"container"` // mp4, mov, mkv, webm, m4a, opus
	Video     *VideoProfile `json:"video,omitempty"`
	Audio     *AudioProfile `json:"audio,omitempty"`
	// Pin says how much of the tools is part of the profile's digest: strict
	// (the default) names ffmpeg's version and libraries, loose does not.
	Pin string `json:"pin,omitempty"`
	// MaxDuration of an input in seconds; 24 hours when nothing is said.
	MaxDuration float64 `json:"max_duration,omitempty"`
	// Args are further arguments for ffmpeg, placed before the output.
	Args []string `json:"args,omitempty"`
}

// VideoProfile is the video part of a profile.
type VideoProfile struct {
	Codec string `json:"codec"` // h264, hevc, av1
	// MaxWidth and MaxHeight bound the size; nothing is made larger than it is.
	MaxWidth  int `json:"max_width,omitempty"`
	MaxHeight int `json:"max_height,omitempty"`
	// Quality is the encoder's constant quality: less is better.
	Quality     int    `json:"quality"`
	Preset      string `json:"preset,omitempty"` // x264's names, translated for other encoders
	PixelFormat string `json:"pixel_format,omitempty"`
	// FPSMode is vfr (each frame keeps its time), cfr or passthrough.
	FPSMode string  `json:"fps_mode,omitempty"`
	MaxFPS  float64 `json:"max_fps,omitempty"`
}

// AudioProfile is the audio part of a profile.
type AudioProfile struct {
	Codec      string `json:"codec"` // aac, opus
	Bitrate    string `json:"bitrate,omitempty"`
	Channels   int    `json:"channels,omitempty"`    // 0 keeps the input's
	SampleRate int    `json:"sample_rate,omitempty"` // 0 keeps the input's
	// Required makes an input without sound a failure.
	Required bool `json:"required,omitempty"`
}

// container is what the name of a container means to ffmpeg.
type container struct{ name, muxer, extension string }

func containers() []container {
	return []container{
		{"mp4", "mp4", ".mp4"}, {"mov", "mov", ".mov"}, {"mkv", "matroska", ".mkv"},
		{"webm", "webm", ".webm"}, {"m4a", "ipod", ".m4a"}, {"opus", "opus", ".opus"},
	}
}

func (p *Profile) container() container {
	for _, c := range containers() {
		if c.name == p.Container {
			return c
		}
	}
	return container{}
}

var safeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// normalise fills in defaults and finds what is wrong.
func (p *Profile) normalise() error {
	if !safeName.MatchString(p.Name) {
		return fmt.Errorf("name %q: letters, digits, dots, dashes and underscores only, 64 at most", p.Name)
	}
	if p.Container == "" {
		p.Container = "mp4"
		if p.Video == nil {
			p.Container = "m4a"
		}
	}
	if p.container().name == "" {
		var names []string
		for _, c := range containers() {
			names = append(names, c.name)
		}
		return fmt.Errorf("container %q: use one of %s", p.Container, strings.Join(names, ", "))
	}
	if p.Video == nil && p.Audio == nil {
		return errors.New("it has neither video nor audio")
	}
	if p.Pin == "" {
		p.Pin = "strict"
	}
	if p.Pin != "strict" && p.Pin != "loose" {
		return fmt.Errorf("pin %q: use strict or loose", p.Pin)
	}
	if p.MaxDuration == 0 {
		p.MaxDuration = (24 * time.Hour).Seconds()
	}
	if p.MaxDuration < 0 {
		return fmt.Errorf("max_duration %v: it must be positive", p.MaxDuration)
	}
	for _, a := range p.Args {
		// -x264-params and their like are fine; what opens files or decides the
		// output is the step's own.
		if slices.Contains([]string{"-i", "-y", "-n", "-f", "-map", "-protocol_whitelist", "-progress"}, a) {
			return fmt.Errorf("args: %s is set by the step itself", a)
		}
	}
	if err := p.Video.normalise(); err != nil {
		return fmt.Errorf("video: %w", err)
	}
	if err := p.Audio.normalise(); err != nil {
		return fmt.Errorf("audio: %w", err)
	}
	return nil
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
	case v.Quality < 0 || v.Quality > 63:
		return fmt.Errorf("quality %d: 0 to 63", v.Quality)
	case v.MaxWidth < 0 || v.MaxHeight < 0 || v.MaxWidth == 1 || v.MaxHeight == 1:
		return errors.New("max_width and max_height: 2 or more")
	case v.MaxFPS < 0:
		return errors.New("max_fps: it must be positive")
	}
	return nil
}

var bitrate = regexp.MustCompile(`^[1-9][0-9]{0,8}[kKmM]?$`)

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
	return nil
}

// presets are the names of presets, the fastest first.
func presets() []string {
	return []string{"ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow"}
}

func presetRank(name string) int { return slices.Index(presets(), name) }

// Digest names all that decides what the output is: the profile, how it is
// made repeatable, and (unless it is pinned loosely) the tools. Two outputs of
// one input and one digest may stand for each other.
func (p *Profile) Digest(v ffmpeg.Version, deterministic bool) (string, error) {
	content := map[string]any{"profile": p, "deterministic": deterministic}
	if p.Pin == "strict" {
		content["ffmpeg"] = v.Text
		content["libraries"] = v.Libraries
	}
	data, err := json.Marshal(content)
	if err != nil {
		return "", fmt.Errorf("write the profile as JSON: %w", err)
	}
	canonical, err := dag.CanonicalJSON(data)
	if err != nil {
		return "", fmt.Errorf("write the profile as JSON: %w", err)
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}

// Profiles reads the built-in profiles and those of the file beside the DAG,
// which may be missing.
func Profiles(dir string) (map[string]*Profile, error) {
	raw := map[string]map[string]any{}
	if err := yaml.Load(builtin, &raw); err != nil {
		return nil, fmt.Errorf("built-in profiles: %w", err)
	}
	path := filepath.Join(dir, ProfilesFile)
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if err == nil && len(bytes.TrimSpace(data)) > 0 {
		own := map[string]map[string]any{}
		if err := yaml.Load(data, &own); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		maps.Copy(raw, own)
	}
	out := map[string]*Profile{}
	for name, m := range raw {
		p, err := decodeProfile(name, m, raw)
		if err != nil {
			return nil, err
		}
		out[name] = p
	}
	return out, nil
}

// Inline reads a profile that stands in the step itself: it needs a name, and
// may extend one of the others.
func Inline(m map[string]any, dir string) (*Profile, error) {
	name, _ := m["name"].(string)
	known, err := Profiles(dir)
	if err != nil {
		return nil, err
	}
	raw := map[string]map[string]any{}
	for n, p := range known {
		data, err := json.Marshal(p)
		if err != nil {
			return nil, fmt.Errorf("write profile %s as JSON: %w", n, err)
		}
		var back map[string]any
		if err := json.Unmarshal(data, &back); err != nil {
			return nil, fmt.Errorf("read profile %s: %w", n, err)
		}
		raw[n] = back
	}
	return decodeProfile(name, m, raw)
}

// maxExtends bounds a chain of `extends`, so that a ring of them ends.
const maxExtends = 8

func decodeProfile(name string, m map[string]any, all map[string]map[string]any) (*Profile, error) {
	merged := maps.Clone(m)
	for depth := 0; merged["extends"] != nil; depth++ {
		base, _ := merged["extends"].(string)
		from, ok := all[base]
		if !ok {
			return nil, fmt.Errorf("profile %s: extends %q, which is no profile", name, base)
		}
		if depth == maxExtends {
			return nil, fmt.Errorf("profile %s: extends a profile that extends it", name)
		}
		delete(merged, "extends")
		merged = overlay(from, merged)
	}
	merged["name"] = name
	data, err := json.Marshal(merged)
	if err != nil {
		return nil, fmt.Errorf("profile %s: %w", name, err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	p := &Profile{}
	if err := dec.Decode(p); err != nil {
		return nil, fmt.Errorf("profile %s: %w", name, err)
	}
	if err := p.normalise(); err != nil {
		return nil, fmt.Errorf("profile %s: %w", name, err)
	}
	return p, nil
}

// overlay lays one mapping over another, mappings in them key by key; a null
// takes a part away.
func overlay(base, top map[string]any) map[string]any {
	out := maps.Clone(base)
	for k, v := range top {
		below, isMap := out[k].(map[string]any)
		above, isMapToo := v.(map[string]any)
		switch {
		case isMap && isMapToo:
			out[k] = overlay(below, above)
		case v == nil:
			delete(out, k)
		default:
			out[k] = v
		}
	}
	return out
}
