package transcode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/airlock-dag/airlock/dag/crashpoint"
	"github.com/airlock-dag/airlock/executor/ffmpeg"
)

// publish makes a verified temporary file the public one. The media file goes
// first: between the two renames the manifest is missing or disagrees, and the
// file does not count as done.
func (t target) publish(ctx context.Context, temporary, attempt string, m *Manifest, stillMine func(context.Context) error) error {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("write the manifest as JSON: %w", err)
	}
	manifest := t.temporaryManifest(attempt)
	defer os.Remove(manifest) //nolint:errcheck // it is not there when all went well
	if err := writeSynced(manifest, append(data, '\n')); err != nil {
		return err
	}
	if err := syncFile(temporary); err != nil {
		return err
	}
	crashpoint.Point("file: before it asks for the lease")
	if err := stillMine(ctx); err != nil {
		return err
	}
	if err := os.Rename(temporary, t.output()); err != nil {
		return fmt.Errorf("publish the output: %w", err)
	}
	if err := syncDir(t.dir); err != nil {
		return err
	}
	crashpoint.Point("file: between the two renames")
	if err := os.Rename(manifest, t.manifest()); err != nil {
		return fmt.Errorf("publish the manifest: %w", err)
	}
	crashpoint.Point("file: renamed")
	return syncDir(t.dir)
}

func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644) // a catalogue is for others to read
	if err != nil {
		return fmt.Errorf("make %s: %w", filepath.Base(path), err)
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}

// syncFile brings a file that another process wrote to the disk.
func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open the output: %w", err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync the output: %w", err)
	}
	return nil
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open the output's folder: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync the output's folder: %w", err)
	}
	return nil
}

// newManifest describes an output.
func newManifest(s *settings, in ffmpeg.Input, source *ffmpeg.Probe, r *encoded) *Manifest {
	return &Manifest{
		SchemaVersion: ManifestVersion,
		AssetSHA256:   in.SHA256,
		Input: ManifestFile{
			Name: filepath.Base(in.Path), SHA256: in.SHA256, Size: in.Size,
			Container: source.Format.ShortName(filepath.Ext(in.Path)), Codec: source.MainCodec(),
		},
		Profile:      s.profile,
		Encoder:      r.encoder,
		Device:       r.device,
		DurationS:    r.probe.Duration(),
		DecodeErrors: r.decodeErrors,
		Chunks:       r.chunks,
		Verified:     s.verify,
		Streams:      r.probe.Streams,
		Output: ManifestFile{
			SHA256: r.sha256, Size: r.size, Codec: r.probe.MainCodec(), Container: s.profile.Container,
		},
	}
}
