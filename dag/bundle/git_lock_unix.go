//go:build unix

package bundle

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lockClone lets one process at a time change or read a clone. The lock goes
// with the process.
func lockClone(clone string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(clone), 0o750); err != nil {
		return nil, fmt.Errorf("make the folder for clones: %w", err)
	}
	f, err := os.OpenFile(clone+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the clone: %w", err)
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if err != syscall.EINTR { //nolint:errorlint // a plain errno
			break
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock the clone: %w", err)
	}
	return func() { _ = f.Close() }, nil
}
