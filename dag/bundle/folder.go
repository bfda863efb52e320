package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/plainfile"
)

// MaxFileSize is the largest DAG file that is read, in bytes. A larger one is
// handed out with Err set.
const MaxFileSize = 5 << 20

// IgnoreFile is the name of the files that list what a scan leaves out.
const IgnoreFile = ".airflowignore"

// File is one YAML file of a bundle.
type File struct {
	// Path is relative to the root, with forward slashes.
	Path string
	// Data is the file's content; nil when Err is set. It is shared between
	// scans and must not be written to.
	Data []byte
	// Err says why the file could not be read: to be reported as a problem of
	// this file alone.
	Err error
	// Source says which state of the bundle the file is of: a commit; "" for a
	// plain folder.
	Source string
}

// Folder is a DAGs folder on disk. It remembers what it has read, so that a
// scan of an unchanged folder reads no file again. It is safe for concurrent
// use; scans take turns.
type Folder struct {
	root  string
	clock dag.Clock

	mu    sync.Mutex
	cache map[string]cached
}

type cached struct {
	size  int64
	mtime time.Time
	data  []byte
}

// NewFolder is the folder at root. The folder need not exist yet: Scan reports
// that.
func NewFolder(root string) *Folder {
	return &Folder{root: root, clock: dag.SystemClock{}, cache: map[string]cached{}}
}

// Root is the folder's path as it was given.
func (f *Folder) Root() string { return f.root }

// Scan lists every .yml and .yaml file below the root, sorted by path. Hidden
// files, editors' temporary files and what .airflowignore names are left out;
// links are followed, each folder once. A file that cannot be read is listed
// with Err set; only a root that cannot be read is an error.
func (f *Folder) Scan() ([]File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.root)
	if err != nil {
		return nil, &dag.Error{
			Code: dag.ErrNotFound, Op: "read the DAGs folder " + f.root, Err: err,
			Hint: "make the folder, or name another one with --dags-folder",
		}
	}
	if !info.IsDir() {
		return nil, &dag.Error{
			Code: dag.ErrInvalid, Op: "read the DAGs folder " + f.root, Err: errors.New("it is " + plainfile.KindOf(info.Mode())),
			Hint: "name the folder that holds it",
		}
	}
	s := &scan{folder: f, visited: map[string]bool{}, kept: map[string]cached{}}
	if err := s.dir(f.root, "", nil, 0); err != nil {
		return nil, &dag.Error{Code: dag.ErrInvalid, Op: "read the DAGs folder " + f.root, Err: err,
			Hint: "the user that runs airlock needs the right to list it"}
	}
	f.cache = s.kept
	sort.Slice(s.files, func(i, j int) bool { return s.files[i].Path < s.files[j].Path })
	return s.files, nil
}

// maxFolderDepth ends a walk that links lead ever deeper.
const maxFolderDepth = 64

// fresh is the age below which a file's time stamp says nothing about its
// content: clocks of file systems are that coarse.
const fresh = 2 * time.Second

type scan struct {
	folder  *Folder
	visited map[string]bool // real paths of folders, so that a loop of links ends
	kept    map[string]cached
	files   []File
}

// dir walks one folder. Its error is about that folder only; below the root
// the caller turns it into a File.
func (s *scan) dir(abs, rel string, rules []ignoreRule, depth int) error {
	if depth > maxFolderDepth {
		return fmt.Errorf("more than %d folders inside each other", maxFolderDepth)
	}
	realPath, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return err
	}
	if s.visited[realPath] {
		return nil
	}
	s.visited[realPath] = true
	entries, err := os.ReadDir(abs)
	if err != nil {
		return err
	}
	rules, err = addIgnoreFile(rules, abs, rel)
	if err != nil {
		s.files = append(s.files, File{Path: path.Join(rel, IgnoreFile), Err: err})
	}
	for _, e := range entries {
		s.entry(filepath.Join(abs, e.Name()), path.Join(rel, e.Name()), e, rules, depth)
	}
	return nil
}

func (s *scan) entry(abs, rel string, e fs.DirEntry, rules []ignoreRule, depth int) {
	name := e.Name()
	if strings.HasPrefix(name, ".") || isEditorFile(name) {
		return
	}
	isDir := e.IsDir()
	info, err := e.Info()
	if err == nil && e.Type()&fs.ModeSymlink != 0 {
		info, err = os.Stat(abs)
		isDir = err == nil && info.IsDir()
	}
	if ignored(rules, rel, isDir) {
		return
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && e.Type()&fs.ModeSymlink == 0:
		return // removed between the listing and now
	case err != nil:
		if isYAML(name) {
			s.files = append(s.files, File{Path: rel, Err: linkError(abs, err)})
		}
	case isDir:
		if name == "__pycache__" || name == "node_modules" {
			return
		}
		if err := s.dir(abs, rel, rules, depth+1); err != nil {
			s.files = append(s.files, File{Path: rel, Err: fmt.Errorf("folder cannot be read: %w", plain(err))})
		}
	case isYAML(name):
		s.file(abs, rel, info)
	}
}

func (s *scan) file(abs, rel string, info fs.FileInfo) {
	if err := plainfile.Check(info.Mode()); err != nil {
		s.files = append(s.files, File{Path: rel, Err: err})
		return
	}
	if info.Size() > MaxFileSize {
		s.files = append(s.files, File{Path: rel, Err: tooLarge(info.Size())})
		return
	}
	if c, ok := s.folder.cache[rel]; ok && c.size == info.Size() && c.mtime.Equal(info.ModTime()) {
		s.kept[rel] = c
		s.files = append(s.files, File{Path: rel, Data: c.data})
		return
	}
	data, err := plainfile.Read(abs, MaxFileSize)
	var large *plainfile.TooLargeError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case errors.As(err, &large): // it grew meanwhile
		s.files = append(s.files, File{Path: rel, Err: tooLarge(large.Size)})
		return
	case err != nil:
		s.files = append(s.files, File{Path: rel, Err: fmt.Errorf("cannot be read: %w", plain(err))})
		return
	}
	// A file that is being written right now is not remembered, so that the next
	// scan reads it again: its next change may leave size and time as they are.
	if int64(len(data)) == info.Size() && s.folder.clock.Now().Sub(info.ModTime()) > fresh {
		s.kept[rel] = cached{size: info.Size(), mtime: info.ModTime(), data: data}
	}
	s.files = append(s.files, File{Path: rel, Data: data})
}

func tooLarge(size int64) error {
	return fmt.Errorf("the file has %d bytes; at most %d (5 MB) are read: split it", size, MaxFileSize)
}

func linkError(abs string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		if target, e := os.Readlink(abs); e == nil {
			return fmt.Errorf("the link leads to %s, which does not exist", target)
		}
	}
	return fmt.Errorf("cannot be read: %w", plain(err))
}

// plain drops the absolute path that os errors carry: the problem names the
// file already.
func plain(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// isYAML tells whether a file's name is that of a DAG file.
func isYAML(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".yml", ".yaml":
		return true
	default:
		return false
	}
}

// isEditorFile tells whether the name is one that editors give to files that
// they keep for a moment: backups, swap files, lock files.
func isEditorFile(name string) bool {
	return strings.HasSuffix(name, "~") ||
		strings.HasPrefix(name, "#") ||
		strings.HasPrefix(name, "~$") ||
		strings.Contains(name, ".sw") && (strings.HasSuffix(name, ".swp") || strings.HasSuffix(name, ".swo") || strings.HasSuffix(name, ".swx")) ||
		strings.HasSuffix(name, ".tmp") ||
		strings.Contains(name, "___jb_")
}
