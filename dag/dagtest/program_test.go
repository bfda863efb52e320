package dagtest_test

import (
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag/dagtest"
)

// TestAProgramRunsWhileOthersAreStarted writes and runs programs beside others
// that do the same: the children of one are born while the next is written.
func TestAProgramRunsWhileOthersAreStarted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var all sync.WaitGroup
	failed := make([]error, 8)
	for i := range failed {
		all.Go(func() {
			path := filepath.Join(dir, string(rune('a'+i)))
			for range 12 {
				dagtest.Program(t, path, "#!/bin/sh\nexit 0\n")
				if err := exec.Command(path).Run(); err != nil {
					failed[i] = err
					return
				}
			}
		})
	}
	all.Wait()
	for _, err := range failed {
		require.NoError(t, err)
	}
}
