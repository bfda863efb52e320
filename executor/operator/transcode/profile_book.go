package transcode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/ffmpeg"
)

// profileBook remembers what was read of each folder while its file's content
// stays the same. The profiles are shared and are not to be changed.
type profileBook struct {
	mu    sync.Mutex
	known map[string]bookPage
	// digests by what they are made from: a second run over a catalogue asks for
	// one thousands of times.
	digests map[digestOf]string
}

type digestOf struct {
	profile       *Profile
	tools         string
	deterministic bool
	chunk         time.Duration
}

// digest is Profile.Digest, remembered.
func (b *profileBook) digest(p *Profile, v ffmpeg.Version, deterministic bool, chunk time.Duration) (string, error) {
	var tools strings.Builder
	tools.WriteString(v.Text)
	for _, name := range slices.Sorted(maps.Keys(v.Libraries)) {
		tools.WriteString("\x00" + name + "\x00" + v.Libraries[name])
	}
	key := digestOf{profile: p, tools: tools.String(), deterministic: deterministic, chunk: chunk}
	b.mu.Lock()
	digest, ok := b.digests[key]
	b.mu.Unlock()
	if ok {
		return digest, nil
	}
	digest, err := p.Digest(v, deterministic, chunk)
	if err != nil {
		return "", err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.digests == nil || len(b.digests) >= maxInline {
		b.digests = map[digestOf]string{}
	}
	b.digests[key] = digest
	return digest, nil
}

type bookPage struct {
	data     []byte
	profiles map[string]*Profile
	inline   map[string]*Profile // by the JSON of what stands in the step
}

// maxInline bounds what is remembered of profiles that stand in steps.
const maxInline = 1000

// find gives the profile that a step asks for, by its name or as a mapping.
func (b *profileBook) find(v any, dir string) (*Profile, error) {
	switch v := v.(type) {
	case string:
		all, err := b.read(dir)
		if err != nil {
			return nil, err
		}
		return named(all, v)
	case map[string]any:
		return b.inline(v, dir)
	default:
		return nil, fmt.Errorf("profile is %v, and must be a name or a mapping", v)
	}
}

// named looks a profile up.
func named(all map[string]*Profile, name string) (*Profile, error) {
	if p, ok := all[name]; ok {
		return p, nil
	}
	names := slices.Sorted(maps.Keys(all))
	hint := ""
	if near := dag.Nearest(name, names); near != "" {
		hint = fmt.Sprintf("did you mean %s? ", near)
	}
	return nil, fmt.Errorf("profile %q is not known; %sthere are %s", name, hint, strings.Join(names, ", "))
}

// inline is Inline, remembered likewise.
func (b *profileBook) inline(m map[string]any, dir string) (*Profile, error) {
	if _, err := b.read(dir); err != nil {
		return nil, err
	}
	text, err := json.Marshal(m)
	if err != nil {
		return Inline(m, dir)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	page := b.known[dir]
	if p, ok := page.inline[string(text)]; ok {
		return p, nil
	}
	p, err := Inline(m, dir)
	if err == nil && len(page.inline) < maxInline {
		page.inline[string(text)] = p
	}
	return p, err
}

func (b *profileBook) read(dir string) (map[string]*Profile, error) {
	data, err := profilesFile(dir)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if page, ok := b.known[dir]; ok && bytes.Equal(page.data, data) {
		return page.profiles, nil
	}
	all, err := parseProfiles(filepath.Join(dir, ProfilesFile), data)
	if err != nil {
		return nil, err
	}
	if b.known == nil || len(b.known) > 1000 {
		b.known = map[string]bookPage{}
	}
	b.known[dir] = bookPage{data: data, profiles: all, inline: map[string]*Profile{}}
	return all, nil
}
