package dialect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// FuzzParseStamp: the quick way reads what the slow way reads, and nothing else.
func FuzzParseStamp(f *testing.F) {
	for _, s := range []string{
		"2026-06-10 12:00:00.123456", "2024-02-29 23:59:59.999999", "2026-02-29 00:00:00.000000", "0001-01-01 00:00:00.000000", "9999-12-31 23:59:59.000001",
		"2026-13-01 00:00:00.000000", "2026-00-10 00:00:00.000000", "2026-01-00 00:00:00.000000", "2026-04-31 00:00:00.000000", "2026-01-01 24:00:00.000000",
		"2026-01-01 00:60:00.000000", "2026-01-01 00:00:60.000000", "2026-01-01T00:00:00.000000", "2026-01-01 00:00:00,000000", "2026-01-01 00:00:00.00000x",
		"2026-01-01 00:00:00", "", "-026-01-01 00:00:00.000000", "2026-01-01 00:00:00.0000000", "2026-1-001 00:00:00.000000",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := parseStamp(s)
		want, err := time.Parse(StampLayout, s)
		if ok {
			require.NoError(t, err, s)
			require.Equal(t, want.UTC(), got)
			require.Equal(t, s, Stamp(got))
		} else if err == nil {
			require.NotEqual(t, s, Stamp(want), "this is what Stamp writes")
		}
	})
}
