//go:build !unix

package bundle

import (
	"fmt"
	"os"
	"path/filepath"
)

// lockClone makes the folder for clones. Here a clone must not be shared by
// processes.
func lockClone(clone string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(clone), 0o750); err != nil {
		return nil, fmt.Errorf("make the folder for clones: %w", err)
	}
	return func() {}, nil
}
