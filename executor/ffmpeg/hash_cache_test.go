package ffmpeg

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag/dagtest"
)

// What is remembered is not read again, what has just changed is not
// remembered, and the oldest goes first.
func TestHashCacheRemembers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.bin")
	require.NoError(t, os.WriteFile(path, []byte("aaaa"), 0o600))
	clock := dagtest.NewClock(time.Now())
	c := &HashCache{Clock: clock}
	_, err := c.ReadInput(t.Context(), path)
	require.NoError(t, err)
	require.Empty(t, c.known, "it may change again within the same tick")
	clock.Advance(time.Minute)
	_, err = c.ReadInput(t.Context(), path)
	require.NoError(t, err)
	require.Len(t, c.known, 1)
	for id := range c.known {
		c.known[id] = Input{SHA256: "from memory"}
	}
	in, err := c.ReadInput(t.Context(), path)
	require.NoError(t, err)
	require.Equal(t, "from memory", in.SHA256)
	for i := range maxHashes {
		c.put(identity{inode: uint64(i), device: 1 << 60}, Input{})
	}
	require.Len(t, c.known, maxHashes)
	in, err = c.ReadInput(t.Context(), path)
	require.NoError(t, err)
	require.Len(t, in.SHA256, 64)
}
