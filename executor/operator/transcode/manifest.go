package transcode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/airlock-dag/airlock/dag/plainfile"
	"github.com/airlock-dag/airlock/executor/ffmpeg"
)

// ManifestVersion is the form of the manifests that this code writes.
const ManifestVersion = 1

// Manifest is the proof beside an output of what it is: {asset_sha256}.json.
type Manifest struct {
	SchemaVersion int    `json:"schema_version"`
	AssetSHA256   string `json:"asset_sha256"`
	// Input describes the source as it was read.
	Input         ManifestFile    `json:"input"`
	Profile       *Profile        `json:"profile"`
	ProfileDigest string          `json:"profile_digest"`
	Encoder       string          `json:"encoder"`
	Device        string          `json:"device,omitempty"`
	Tools         ffmpeg.Version  `json:"tools"`
	Output        ManifestFile    `json:"output"`
	DurationS     float64         `json:"duration_s"`
	DecodeErrors  int             `json:"decode_errors"`
	Verified      string          `json:"verified"` // duration, packets, full
	Streams       []ffmpeg.Stream `json:"streams"`  // of the output
	CreatedAt     time.Time       `json:"created_at"`
	// Chunks are the boundaries of the pieces that the video was encoded in, in
	// seconds of the input; none for one piece.
	Chunks []float64 `json:"chunks,omitempty"`
	// MadeBy is the task instance and its try.
	MadeBy string `json:"made_by"`
}

// ManifestFile is one file in a manifest.
type ManifestFile struct {
	// Name is the file's name without its folder: a catalogue may be moved.
	Name      string `json:"name"`
	SHA256    string `json:"sha256"`
	Size      int64  `json:"size"`
	Container string `json:"container,omitempty"`
	Codec     string `json:"codec,omitempty"`
}

// target is where one output of one input belongs.
type target struct {
	dir  string // of the profile, in the catalogue
	name string // of the output
	key  string // derived/{profile}/{sha256}.mp4
}

func newTarget(outputDir string, p *Profile, sha256 string) target {
	name := sha256 + p.container().extension
	return target{
		dir:  filepath.Join(outputDir, "derived", p.Name),
		name: name,
		key:  "derived/" + p.Name + "/" + name,
	}
}

func (t target) output() string   { return filepath.Join(t.dir, t.name) }
func (t target) manifest() string { return filepath.Join(t.dir, t.stem()+".json") }
func (t target) lock() string     { return filepath.Join(t.dir, "."+t.name+".lock") }

// chunkDir is where the pieces of the output lie until it is published.
func (t target) chunkDir() string { return filepath.Join(t.dir, "."+t.name+".chunks") }

func (t target) stem() string { return t.name[:len(t.name)-len(filepath.Ext(t.name))] }

// temporary is a name that only this attempt uses.
func (t target) temporary(attempt string) string {
	return filepath.Join(t.dir, "."+t.name+"."+attempt+".part")
}

func (t target) temporaryManifest(attempt string) string {
	return filepath.Join(t.dir, "."+t.stem()+".json."+attempt+".part")
}

// removeLeftovers deletes the temporary files that earlier attempts at this key
// left. The caller holds the key's lock, so nobody is writing to them.
func (t target) removeLeftovers() (removed []string, err error) {
	for _, pattern := range []string{"." + t.name + ".*.part", "." + t.stem() + ".json.*.part"} {
		found, globErr := filepath.Glob(filepath.Join(t.dir, pattern))
		if globErr != nil {
			return removed, fmt.Errorf("look for leftovers: %w", globErr)
		}
		for _, path := range found {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return removed, fmt.Errorf("remove a leftover: %w", err)
			}
			removed = append(removed, path)
		}
	}
	return removed, nil
}

// wanted is what an output must be to count as done.
type wanted struct {
	assetSHA256, digest, encoder string
}

// proof is what of a manifest decides whether its output is done, and what the
// result tells of it: a second run over a catalogue reads thousands.
type proof struct {
	SchemaVersion int          `json:"schema_version"`
	AssetSHA256   string       `json:"asset_sha256"`
	ProfileDigest string       `json:"profile_digest"`
	Encoder       string       `json:"encoder"`
	Output        ManifestFile `json:"output"`
	DurationS     float64      `json:"duration_s"`
	DecodeErrors  int          `json:"decode_errors"`
}

// done tells whether the target holds a proved output; why says what is wrong
// when it does not, "" when there is nothing at all. The error is the cause of
// ctx, or one of the file system.
func (t target) done(ctx context.Context, hashes *ffmpeg.HashCache, w wanted) (m *Manifest, why string, err error) {
	data, err := plainfile.Read(t.manifest(), 0)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(t.output()); err == nil {
			return nil, "there is a file without a manifest", nil
		}
		return nil, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("read the manifest: %w", err)
	}
	var p proof
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, "the manifest cannot be read: " + err.Error(), nil //nolint:nilerr // a manifest that is broken is made anew
	}
	m = &Manifest{
		SchemaVersion: p.SchemaVersion, AssetSHA256: p.AssetSHA256, ProfileDigest: p.ProfileDigest, Encoder: p.Encoder,
		Output: p.Output, DurationS: p.DurationS, DecodeErrors: p.DecodeErrors,
	}
	switch {
	case m.SchemaVersion != ManifestVersion:
		return nil, fmt.Sprintf("the manifest has form %d", m.SchemaVersion), nil
	case m.AssetSHA256 != w.assetSHA256:
		return nil, "the manifest is of another input", nil
	case m.Output.Name != t.name:
		return nil, "the manifest is of another file", nil
	case m.ProfileDigest != w.digest:
		return nil, "the profile or the tools have changed since", nil
	case w.encoder != "" && m.Encoder != w.encoder:
		return nil, fmt.Sprintf("it was made with %s, and %s is required", m.Encoder, w.encoder), nil
	}
	info, err := os.Lstat(t.output())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, "the manifest's file is not there", nil
	case err != nil:
		return nil, "", fmt.Errorf("look at the output: %w", err)
	case !info.Mode().IsRegular():
		return nil, "the output is no regular file", nil
	case info.Size() != m.Output.Size:
		return nil, fmt.Sprintf("the output has %d bytes, its manifest says %d", info.Size(), m.Output.Size), nil
	}
	in, err := hashes.ReadSeen(ctx, t.output(), info)
	if err != nil {
		return nil, "", err
	}
	if in.SHA256 != m.Output.SHA256 {
		return nil, "the output's hash is not the manifest's", nil
	}
	return m, "", nil
}
