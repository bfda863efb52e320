package column

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestQuickTimeReadsAsTheLayoutsDo holds the quick reading against Go's own, for
// good texts and for texts with one byte changed.
func TestQuickTimeReadsAsTheLayoutsDo(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	good := 0
	for range 50000 {
		at := time.Unix(r.Int64N(4e9)-1e9, r.Int64N(1e9)).UTC()
		layout := []string{"2006-01-02 15:04:05", "2006-01-02T15:04:05Z", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.000Z", "2006-01-02T15:04:05.0"}[r.IntN(5)]
		text := []byte(at.Format(layout))
		if r.IntN(2) == 0 {
			text[r.IntN(len(text))] = "0123456789-:.TZ x"[r.IntN(17)]
		}
		got, zoned, ok := quickTime(string(text))
		if !ok {
			continue
		}
		good++
		layouts := plainLayouts
		if zoned {
			layouts = zonedLayouts
		}
		found := false
		for _, l := range layouts {
			if want, err := time.Parse(l, string(text)); err == nil {
				require.True(t, want.Equal(got), "%s: %s and %s", text, want, got)
				found = true
				break
			}
		}
		require.True(t, found, "%s is none", text)
		require.Equal(t, got.Truncate(time.Microsecond).Format(TimestampLayout), stamp(got))
	}
	require.Greater(t, good, 25000)
	for _, none := range []string{"2026-02-30 00:00:00", "2026-13-01 00:00:00", "2026-01-01 24:00:00", "2026-01-01 00:00:60", "2026-01-01 00:00:00.", "2026-01-01 00:00:00.1234567890", "2026-01-01", "2026-00-10 00:00:00"} {
		_, _, ok := quickTime(none)
		require.False(t, ok, none)
	}
}
