package ffmpeg

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/plainfile"
)

// Input is what reading a file once tells of it.
type Input struct {
	Path string
	// SHA256 of the whole content, in lower-case hexadecimal.
	SHA256  string
	Size    int64
	Content Content
	ModTime time.Time
}

// ReadInput reads a file once, from end to end, and hashes it on the way. The
// error is a *dag.TaskError, with the hash where there is one, or the cause of
// ctx. A file that grows or changes meanwhile is INPUT_CHANGING: its producer
// has not finished.
func ReadInput(ctx context.Context, path string) (Input, error) {
	file, err := plainfile.Open(path)
	var not *plainfile.NotPlainError
	if errors.As(err, &not) {
		return Input{}, notAFile(path, not)
	}
	if err != nil {
		return Input{}, FileError(err, path)
	}
	defer file.Close()
	before, err := file.Stat()
	if err != nil {
		return Input{}, FileError(err, path)
	}
	head := make([]byte, 0, SniffSize)
	hash := sha256.New()
	buf := make([]byte, min(max(before.Size()+1, SniffSize), 1<<20)) // most of what is read again is small
	var size int64
	for {
		if ctx.Err() != nil {
			return Input{}, context.Cause(ctx)
		}
		n, err := file.Read(buf)
		hash.Write(buf[:n])
		size += int64(n)
		if room := SniffSize - len(head); room > 0 {
			head = append(head, buf[:min(room, n)]...)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Input{}, FileError(err, path)
		}
	}
	in := Input{
		Path: path, SHA256: hex.EncodeToString(hash.Sum(nil)), Size: size,
		Content: Sniff(head), ModTime: before.ModTime(),
	}
	after, err := os.Stat(path)
	if err != nil {
		return Input{}, FileError(err, path)
	}
	if after.Size() != size || !after.ModTime().Equal(before.ModTime()) {
		return in, &dag.TaskError{
			Class: dag.ClassTransient, Code: CodeInputChanging,
			Message: fmt.Sprintf("%s changed while it was read", path),
			Hint:    "wait until its producer has finished, or let it rename the finished file into place",
		}
	}
	return in, nil
}

func notAFile(path string, not *plainfile.NotPlainError) *dag.TaskError {
	return &dag.TaskError{
		Class: dag.ClassPermanent, Code: CodeNotMedia, Message: fmt.Sprintf("%s is no regular file: it is %s", path, not.Kind), Hint: "name a file",
	}
}

// Refuse gives the reason not to show an input to ffmpeg at all; nil for none.
func (in Input) Refuse() *dag.TaskError {
	fail := &dag.TaskError{Class: dag.ClassPermanent, AssetSHA256: in.SHA256}
	switch in.Content {
	case ContentEmpty:
		fail.Code, fail.Message = CodeInputEmpty, in.Path+" is empty"
		fail.Hint = "it is the usual sign of an upload that has not finished; send the file again"
	case ContentPlaylist:
		fail.Code, fail.Message = CodePlaylistRefused, in.Path+" is a playlist: it names other files or addresses"
		fail.Hint = "fetch what it names in a step of its own"
	case ContentText:
		fail.Code, fail.Message = CodeNotMedia, in.Path+" is a text file"
		fail.Hint = "check what the producer sent under this name"
	case ContentUnknown:
		return nil
	default:
		return nil
	}
	return fail
}

// FileError names an error of the file system.
func FileError(err error, path string) *dag.TaskError {
	fail := &dag.TaskError{Class: dag.ClassTransient, Code: CodeIOError, Message: err.Error()}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		fail.Class, fail.Code = dag.ClassPermanent, CodeInputMissing
		fail.Message, fail.Hint = path+" does not exist", "check the path; a relative one starts at the DAG file's folder"
		if to, err := os.Readlink(path); err == nil {
			fail.Message, fail.Hint = fmt.Sprintf("%s is a link to %s, which does not exist", path, to), "mend the link"
		}
		if strings.ContainsRune(path, utf8.RuneError) {
			fail.Hint = "a name that is no UTF-8 cannot be passed on: rename the file; else check the path"
		}
	case errors.Is(err, fs.ErrPermission):
		fail.Class, fail.Code = dag.ClassConfiguration, CodePermissionDenied
		fail.Hint = "give the worker's user the right to the file"
	case isNoSpace(err):
		fail.Code = CodeNoSpace
		fail.Hint = "make room on the file system"
	}
	return fail
}
