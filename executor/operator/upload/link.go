package upload

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// linkNoReplace gives a file a second name, which fails when the name is taken,
// and takes the first away. Where there are no hard links it looks first and
// renames then: two workers in the same instant could replace each other there.
func linkNoReplace(from, to string) error {
	err := os.Link(from, to)
	switch {
	case err == nil:
		return os.Remove(from)
	case errors.Is(err, fs.ErrExist):
		return err
	}
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("publish the copy: %w", fs.ErrExist)
	}
	return os.Rename(from, to)
}
