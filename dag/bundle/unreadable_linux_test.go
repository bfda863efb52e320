package bundle_test

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag/bundle"
)

// nobody is the user whose rights a test as root takes on for a while.
const nobody = 65534

func TestScanReportsAFileWithoutReadRight(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	p := write(t, root, "secret.yml", "a: 1\n")
	require.NoError(t, os.Chmod(p, 0))
	if os.Geteuid() == 0 { // root reads everything: this thread looks at files as somebody else
		require.NoError(t, os.Chmod(filepath.Dir(root), 0o755))
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		require.NoError(t, syscall.Setfsuid(nobody))
		defer func() { require.NoError(t, syscall.Setfsuid(0)) }()
	}
	require.Equal(t, []string{"secret.yml: cannot be read: permission denied"}, scan(t, bundle.NewFolder(root)))
}
