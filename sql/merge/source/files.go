package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/airlock-dag/airlock/dag/plainfile"
	"github.com/airlock-dag/airlock/sql/merge/row"
)

// File is one file to read.
type File struct {
	// Path to open, and Name as messages and letters have it.
	Path, Name string
}

// Glob finds the files that match a pattern, sorted by name. A relative pattern
// starts in dir. Folders are left out. No match is ErrNotFound, and what is
// neither file nor folder ErrNotAFile.
func Glob(dir, pattern string) ([]File, error) {
	full := pattern
	if !filepath.IsAbs(full) {
		full = filepath.Join(dir, pattern)
	}
	paths := []string{full}
	if strings.ContainsAny(pattern, "*?[") {
		// A name with such characters that is there as it stands is meant as it
		// stands.
		if _, err := os.Lstat(full); err != nil {
			var bad error
			if paths, bad = filepath.Glob(full); bad != nil {
				return nil, fmt.Errorf("file pattern %q: %w", pattern, bad)
			}
		}
	}
	var out []File
	for _, p := range paths {
		info, err := os.Stat(p)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if info.IsDir() {
			continue
		}
		if !info.Mode().IsRegular() { // to open a pipe is to wait for its writer
			return nil, fmt.Errorf("%s: %w", p, ErrNotAFile)
		}
		name := p
		if !filepath.IsAbs(pattern) {
			if rel, err := filepath.Rel(dir, p); err == nil {
				name = filepath.ToSlash(rel)
			}
		}
		out = append(out, File{Path: p, Name: name})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: %w", full, ErrNotFound)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}

// OpenRows makes the reader for one opened, unpacked file.
type OpenRows func(r io.Reader, name string) (Reader, error)

// OpenParquet makes the reader for one opened Parquet file.
type OpenParquet func(r io.ReaderAt, size int64, name string) (Reader, error)

// Files reads several files one after the other, unpacking gzip, zstandard and
// bzip2 by their first bytes.
type Files struct {
	files []File
	open  OpenRows
	next  int
	cur   *openFile
	sums  []FileSum
	// Parquet, when set, says that the files are Parquet; open is not used then.
	Parquet OpenParquet
	// OnFile, when set, is called as each file is opened.
	OnFile func(f File, rows Reader)
}

// NewFiles reads the files in the given order.
func NewFiles(files []File, open OpenRows) *Files {
	return &Files{files: files, open: open}
}

// openFile is a file being read, with the hash of its bytes as they stand on disk.
type openFile struct {
	f      *os.File
	before os.FileInfo
	tee    io.Reader
	sum    hash.Hash
	rows   Reader
	done   func() // frees what unpacking holds
}

// Next implements Reader.
func (s *Files) Next(ctx context.Context) (*row.Record, error) {
	for {
		if s.cur == nil {
			if s.next == len(s.files) {
				return nil, io.EOF
			}
			if err := s.openNext(); err != nil {
				return nil, err
			}
		}
		rec, err := s.cur.rows.Next(ctx)
		if err == nil {
			return rec, nil
		}
		if !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, s.explain(err)
		}
		if err := s.finish(); err != nil {
			return nil, err
		}
	}
}

func (s *Files) openNext() error {
	file := s.files[s.next]
	s.next++
	f, err := plainfile.Open(file.Path)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return err
	}
	o := &openFile{f: f, before: info, sum: sha256.New(), done: func() {}}
	o.tee = io.TeeReader(f, o.sum)
	s.cur = o
	if o.rows, err = s.openRows(o, file); err != nil {
		return s.explain(err)
	}
	if s.OnFile != nil {
		s.OnFile(file, o.rows)
	}
	return nil
}

func (s *Files) openRows(o *openFile, file File) (Reader, error) {
	if s.Parquet != nil {
		// Parquet is read from its end: the hash is taken in a pass of its own.
		return s.Parquet(o.f, o.before.Size(), file.Name)
	}
	plain, done, err := unpack(o.tee, file.Name)
	if err != nil {
		return nil, err
	}
	o.done = done
	return s.open(plain, file.Name)
}

// Layout implements Laid: that of the file being read.
func (s *Files) Layout() Layout {
	if s.cur == nil {
		return Layout{}
	}
	if l, ok := s.cur.rows.(Laid); ok {
		return l.Layout()
	}
	return Layout{}
}

// explain names the file and what a broken archive means.
func (s *Files) explain(err error) error {
	name := s.files[s.next-1].Name
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s: %w", name, ErrTruncated)
	}
	if strings.HasPrefix(err.Error(), name) {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// finish closes the file that was read to its end, after a look at whether it
// was written to meanwhile.
func (s *Files) finish() error {
	o, file := s.cur, s.files[s.next-1]
	// What a packed file has behind its last member belongs to its hash.
	if _, err := io.Copy(io.Discard, o.tee); err != nil {
		return s.explain(err)
	}
	after, err := o.f.Stat()
	if err != nil {
		return s.explain(err)
	}
	if after.Size() != o.before.Size() || !after.ModTime().Equal(o.before.ModTime()) {
		return fmt.Errorf("%s: %w", file.Name, ErrChanged)
	}
	s.sums = append(s.sums, FileSum{Name: file.Name, SHA256: hex.EncodeToString(o.sum.Sum(nil))})
	return s.Close()
}

// FileSum is the hash of a file's bytes as they stand on disk.
type FileSum struct{ Name, SHA256 string }

// Sums are the hashes of the files that were read to their end.
func (s *Files) Sums() []FileSum { return s.sums }

// Close implements Reader.
func (s *Files) Close() error {
	if s.cur == nil {
		return nil
	}
	f := s.cur.f
	if s.cur.rows != nil {
		_ = s.cur.rows.Close()
	}
	s.cur.done()
	s.cur = nil
	return f.Close()
}

// until reads until a context is done: a large file takes minutes.
type until struct {
	ctx context.Context
	r   io.Reader
}

// Read implements io.Reader.
func (u until) Read(p []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.r.Read(p)
}

// SumFile is the hash of a file's bytes.
func SumFile(ctx context.Context, file File) (string, error) {
	f, err := plainfile.Open(file.Path)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	_, err = io.Copy(sum, until{ctx, f})
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", file.Name, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
