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
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/plainfile"
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
	// Subtitles is none, or text: those that are text, as the container has them.
	Subtitles string           `json:"subtitles,omitempty"`
	Metadata  *MetadataProfile `json:"metadata,omitempty"`
	// Pin says how much of the tools is part of the profile's digest: strict
	// (the default) names ffmpeg's version and libraries, loose does not.
	Pin string `json:"pin,omitempty"`
	// MaxDuration of an input in seconds; 24 hours when nothing is said.
	MaxDuration float64 `json:"max_duration,omitempty"`
	// Args are further arguments for ffmpeg, placed before the output.
	Args []string `json:"args,omitempty"`
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
		switch {
		case p.Video == nil && p.Audio != nil && p.Audio.Codec == "opus":
			p.Container = "opus"
		case p.Video == nil:
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
	if err := p.fits(); err != nil {
		return err
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
	if err := p.Metadata.normalise(); err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	switch {
	case p.Subtitles == "", p.Subtitles == subtitlesNone:
		p.Subtitles = ""
	case p.Subtitles != subtitlesText:
		return fmt.Errorf("subtitles %q: use none or text", p.Subtitles)
	case p.Video == nil || p.container().subtitleCodec() == "":
		return fmt.Errorf("subtitles: a file of %s takes none", p.Container)
	}
	return nil
}

// fits tells whether the container takes the codecs.
func (p *Profile) fits() error {
	switch {
	case p.Video != nil && (p.Container == "m4a" || p.Container == "opus"):
		return fmt.Errorf("container %s: it takes no video", p.Container)
	case p.Video != nil && p.Container == "webm" && p.Video.Codec != "av1":
		return errors.New("container webm: of the video codecs here it takes av1 only")
	case p.Audio != nil && p.Container == "m4a" && p.Audio.Codec != "aac":
		return errors.New("container m4a: it takes aac only")
	case p.Audio != nil && (p.Container == "opus" || p.Container == "webm") && p.Audio.Codec != "opus":
		return fmt.Errorf("container %s: it takes opus only", p.Container)
	default:
		return nil
	}
}

// presets are the names of presets, the fastest first.
func presets() []string {
	return []string{"ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow"}
}

func presetRank(name string) int { return slices.Index(presets(), name) }

// Digest names all that decides what the output is: the profile, how it is
// made repeatable (chunk is the length of its pieces then, else 0), and (unless it is pinned loosely) the tools. Two outputs of
// one input and one digest may stand for each other.
func (p *Profile) Digest(v ffmpeg.Version, deterministic bool, chunk time.Duration) (string, error) {
	content := map[string]any{"profile": p, "deterministic": deterministic}
	if chunk > 0 {
		content["chunk_seconds"] = chunk.Seconds()
	}
	if p.Pin == "strict" || deterministic { // other tools make other bytes
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
	data, err := profilesFile(dir)
	if err != nil {
		return nil, err
	}
	return parseProfiles(filepath.Join(dir, ProfilesFile), data)
}

// profilesFile is the file's content, empty when there is none.
func profilesFile(dir string) ([]byte, error) {
	path := filepath.Join(dir, ProfilesFile)
	data, err := plainfile.Read(path, 0)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return data, nil
}

func parseProfiles(path string, data []byte) (map[string]*Profile, error) {
	raw := map[string]map[string]any{}
	if err := yaml.Load(builtin, &raw); err != nil {
		return nil, fmt.Errorf("built-in profiles: %w", err)
	}
	if len(bytes.TrimSpace(data)) > 0 {
		own := map[string]map[string]any{}
		if err := yaml.Unmarshal(data, &own); err != nil { // nothing but comments is nothing
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		maps.Copy(raw, own)
	}
	out := map[string]*Profile{}
	for name, m := range raw {
		p, err := decodeProfile(name, m, raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out[name] = p
	}
	return out, nil
}

// Inline reads a profile that stands in the step itself: it needs a name, and
// may extend one of the others.
func Inline(m map[string]any, dir string) (*Profile, error) {
	known, err := Profiles(dir)
	if err != nil {
		return nil, err
	}
	return inlineOver(m, known)
}

// inlineOver is Inline over profiles that have been read.
func inlineOver(m map[string]any, known map[string]*Profile) (*Profile, error) {
	name, _ := m["name"].(string)
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
	if err := knownKeys(m, "", reflect.TypeFor[Profile](), "extends"); err != nil {
		return nil, fmt.Errorf("profile %s: %w", name, err)
	}
	merged := maps.Clone(m)
	for depth := 0; merged["extends"] != nil; depth++ {
		base, _ := merged["extends"].(string)
		from, ok := all[base]
		if !ok {
			hint := ""
			if near := dag.Nearest(base, slices.Collect(maps.Keys(all))); near != "" {
				hint = fmt.Sprintf("; did you mean %s?", near)
			}
			return nil, fmt.Errorf("profile %s: extends: %q is no profile%s", name, base, hint)
		}
		if depth == maxExtends {
			return nil, fmt.Errorf("profile %s: extends: %q extends it", name, base)
		}
		delete(merged, "extends")
		if v, ok := merged["video"].(map[string]any); ok && v["bitrate"] != nil && v["quality"] == nil {
			from = overlay(from, map[string]any{"video": map[string]any{"quality": nil}}) // the other way to decide the size
		}
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
		return nil, fmt.Errorf("profile %s: %w", name, plainType(err))
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
