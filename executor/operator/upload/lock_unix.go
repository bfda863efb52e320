//go:build unix

package upload

import (
	"os"
	"syscall"
)

// lockFile marks a temporary file as being written; the mark goes with its
// writer, however that ends.
func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// abandoned tells whether nobody writes to a temporary file any more. On a file
// system without locks nobody is taken for dead.
func abandoned(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return lockFile(f) == nil
}
