package plainfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// ErrNotPlain is in the error about a path that leads to no regular file.
var ErrNotPlain = errors.New("not a regular file")

// NotPlainError says what was found in place of a file. It matches ErrNotPlain.
type NotPlainError struct {
	// Kind is what was found: "a folder", "a named pipe", "a socket", "a device"
	// or "something else".
	Kind string
}

// Error implements error.
func (e *NotPlainError) Error() string { return ErrNotPlain.Error() + " but " + e.Kind }

// Is tells that every NotPlainError is ErrNotPlain.
func (e *NotPlainError) Is(target error) bool { return target == ErrNotPlain }

// TooLargeError is a file with more bytes than the reader takes.
type TooLargeError struct {
	// Size is what was seen of the file and Limit what is read, in bytes.
	Size, Limit int64
}

// Error implements error.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("has %d bytes; at most %d are read", e.Size, e.Limit)
}

// KindOf is what a mode stands for, with its article: "a file" for a regular one.
func KindOf(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "a file"
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	default:
		return "something else"
	}
}

// Check is nil for the mode of a regular file, else a *NotPlainError.
func Check(mode fs.FileMode) error {
	if mode.IsRegular() {
		return nil
	}
	return &NotPlainError{Kind: KindOf(mode)}
}

// Open opens a regular file, or one that a link leads to, for reading. It never
// waits. The error is a *fs.PathError, with a *NotPlainError inside for all else.
func Open(path string) (*os.File, error) {
	// Looked at before it is opened: opening alone does something to some devices.
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if err := Check(info.Mode()); err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f, err := os.OpenFile(path, os.O_RDONLY|dontWait, 0)
	if err != nil {
		return nil, err
	}
	// And again, because the name may lead elsewhere by now.
	if info, err = f.Stat(); err == nil {
		if err = Check(info.Mode()); err != nil {
			err = &fs.PathError{Op: "open", Path: path, Err: err}
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// Read reads a regular file as a whole: limit bytes at most, or any number with
// limit 0. The error is a *fs.PathError, with a *NotPlainError or a *TooLargeError
// inside where that is the reason.
func Read(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if limit <= 0 {
		return io.ReadAll(f)
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		size := int64(len(data))
		if info, serr := f.Stat(); serr == nil {
			size = max(size, info.Size())
		}
		return nil, &fs.PathError{Op: "read", Path: path, Err: &TooLargeError{Size: size, Limit: limit}}
	}
	return data, err
}
