package upload

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// renameNoReplace gives a file its name unless the name is taken: fs.ErrExist.
func renameNoReplace(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.ENOTSUP) {
		return linkNoReplace(from, to) // this file system has no such rename
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: fmt.Errorf("publish the copy: %w", err)}
	}
	return nil
}
