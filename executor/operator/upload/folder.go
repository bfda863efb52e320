package upload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/airlock-dag/airlock/dag/plainfile"
	"github.com/airlock-dag/airlock/executor/fault"
)

// folderStore is a folder of the worker's file system. A file is written under
// a hidden temporary name beside its own, synced, read back and renamed.
type folderStore struct {
	a    *attempt
	dir  string
	done func()
	// published is the key whose copy was proved and renamed.
	published string
}

func (o *Operator) openFolder(a *attempt, dir string) store {
	b, done := o.limits.take("file://"+dir, a.s.bytesPerSecond, 0)
	a.m.budget = b
	return &folderStore{a: a, dir: dir, done: done}
}

func (s *folderStore) close() { s.done() }

func (s *folderStore) path(key string) string { return filepath.Join(s.dir, filepath.FromSlash(key)) }

func (s *folderStore) address(key string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(s.path(key))}).String()
}

func (s *folderStore) look(_ context.Context, key string) (*found, error) {
	info, err := os.Lstat(s.path(key))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, targetError(err)
	case !info.Mode().IsRegular():
		return nil, fault.New(fault.CodeObjectExists, s.path(key)+" is no regular file")
	}
	return &found{size: info.Size(), proved: key == s.published}, nil
}

func (s *folderStore) read(_ context.Context, key string) (io.ReadCloser, error) {
	f, err := plainfile.Open(s.path(key))
	if err != nil {
		return nil, targetError(err)
	}
	return f, nil
}

// put copies, verifies and renames. The copy is compared before it gets its
// name, so that what is published is proved.
func (s *folderStore) put(ctx context.Context, p put) error {
	final := s.path(p.key)
	dir := filepath.Dir(final)
	if err := makeDirs(dir); err != nil {
		return targetError(err)
	}
	ti := s.a.t.TI
	temporary := filepath.Join(dir, fmt.Sprintf(".%s.%d-%d-%d.part", shortName(filepath.Base(final)), ti.ID, ti.Fence, os.Getpid()))
	out, err := os.OpenFile(temporary, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o644) // a catalogue is for others to read
	if err != nil {
		return targetError(err)
	}
	defer os.Remove(temporary) //nolint:errcheck // it is not there when all went well
	defer out.Close()
	_ = lockFile(out) // says that its writer lives
	if err := s.copy(ctx, out, p.content); err != nil {
		return err
	}
	if err := out.Sync(); err != nil {
		return targetError(err)
	}
	if _, err := out.Seek(0, io.SeekStart); err != nil {
		return targetError(err)
	}
	sum, n, err := hashOf(ctx, out, s.a.m.advance)
	if err != nil {
		return err
	}
	if sum != p.content.sha256 || n != p.content.size {
		return fault.New(fault.CodeUploadMismatch, fmt.Sprintf("the copy in %s is not what was read from %s; nothing was published", dir, p.content.path))
	}
	if err := p.commit(ctx); err != nil {
		return err
	}
	if p.replace {
		err = os.Rename(temporary, final)
	} else {
		err = renameNoReplace(temporary, final)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return errTaken
	case err != nil:
		return targetError(err)
	}
	s.published = p.key
	return targetError(syncDir(dir))
}

func (s *folderStore) copy(ctx context.Context, out io.Writer, c *content) error {
	in, err := plainfile.Open(c.path)
	if err != nil {
		return sourceError(err, c.path)
	}
	defer in.Close()
	buf := make([]byte, 256<<10)
	r := &body{ReadSeeker: in, ctx: ctx, m: s.a.m}
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := r.Read(buf)
		if _, err := out.Write(buf[:n]); err != nil {
			return targetError(err)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return sourceError(err, c.path)
		}
	}
}

// sweep removes temporary files of the key whose writer is dead.
func (s *folderStore) sweep(_ context.Context, key string, _ bool) (int, error) {
	final := s.path(key)
	entries, err := os.ReadDir(filepath.Dir(final))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	removed := 0
	for _, e := range entries {
		if ok, _ := filepath.Match("."+escapeGlob(shortName(filepath.Base(final)))+".*-*-*.part", e.Name()); !ok || !e.Type().IsRegular() {
			continue
		}
		path := filepath.Join(filepath.Dir(final), e.Name())
		if !abandoned(path) {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, err
		}
		removed++
	}
	return removed, nil
}

// shortName leaves room in a name of at most 255 bytes for what a temporary
// name adds.
func shortName(name string) string {
	const room = 180
	if len(name) > room {
		return name[:room]
	}
	return name
}

func escapeGlob(s string) string {
	out := make([]byte, 0, len(s))
	for i := range len(s) {
		if c := s[i]; c == '*' || c == '?' || c == '[' || c == '\\' {
			out = append(out, '\\')
		}
		out = append(out, s[i])
	}
	return string(out)
}

// makeDirs makes a folder and those above it, and syncs each that got a new
// entry: a published file must not vanish with its folder.
func makeDirs(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := makeDirs(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // a catalogue is for others to read
		return err
	}
	return syncDir(filepath.Dir(dir))
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// targetError names an error about the target's files; nil for none.
func targetError(err error) error {
	if err == nil {
		return nil
	}
	e := fault.Error(err)
	switch e.Code {
	case fault.CodeInternal:
		e = fault.New(fault.CodeIOError, err.Error())
	case fault.CodeFileNotFound:
		e = fault.New("OUTPUT_DIR_MISSING", err.Error())
		e.Hint = "somebody removed the target's folder while the step ran"
	}
	return e
}
