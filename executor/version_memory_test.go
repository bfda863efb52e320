package executor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhatNobodyAsksForIsForgotten(t *testing.T) {
	t.Parallel()
	var m versionMemory[string]
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	has := func(id int64) bool {
		_, ok := m.get(id, now)
		return ok
	}
	for id := range int64(3) {
		require.False(t, has(id))
		m.put(id, "v")
	}
	for range 5 { // 1 is asked for every 20 hours, 0 and 2 are not
		now = now.Add(20 * time.Hour)
		require.True(t, has(1))
	}
	require.False(t, has(0))
	require.False(t, has(2))
	require.LessOrEqual(t, len(m.fresh)+len(m.old), 2)

	now = now.Add(-time.Hour) // a clock that jumps back forgets nothing at once
	require.True(t, has(1))
	now = now.Add(1000 * time.Hour)
	require.True(t, has(1), "one turn at a time")
	now = now.Add(1000 * time.Hour)
	now = now.Add(1000 * time.Hour)
	require.True(t, has(1))
}
