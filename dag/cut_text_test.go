package dag_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/airlock-dag/airlock/dag"
)

func TestCutText(t *testing.T) {
	t.Parallel()
	require.Equal(t, "short", dag.CutText("short", 5))
	require.Empty(t, dag.CutText("", 5))
	require.Empty(t, dag.CutText("x", 0))
	require.Empty(t, dag.CutText("x", -1))
	require.Equal(t, "a\uFFFDb\uFFFDc", dag.CutText("a\x00b\xffc", 100), "NUL and broken bytes")
	require.Equal(t, "abc", dag.CutText("abcdef", 3), "no room for a mark")
	require.Equal(t, "é", dag.CutText("éé", 3), "a character is not split")

	long := strings.Repeat("a", 500) + strings.Repeat("z", 500)
	got := dag.CutText(long, 100)
	require.LessOrEqual(t, len(got), 100)
	require.True(t, strings.HasPrefix(got, "aaa"))
	require.True(t, strings.HasSuffix(got, "zzz"))
	kept := strings.Count(got, "a") + strings.Count(got, "z")
	kept -= strings.Count("bytes left out", "a")
	require.Contains(t, got, fmt.Sprintf("[... %d bytes left out ...]", 1000-kept))
}

func TestCutTextAlwaysFits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		s := string(rapid.SliceOfN(rapid.Byte(), 0, 400).Draw(r, "bytes"))
		if rapid.Bool().Draw(r, "text") {
			s = rapid.StringN(0, 200, 400).Draw(r, "text")
		}
		limit := rapid.IntRange(-1, 300).Draw(r, "limit")
		got := dag.CutText(s, limit)
		if len(got) > max(0, limit) || !utf8.ValidString(got) || strings.Contains(got, "\x00") {
			r.Fatalf("CutText(%q, %d) = %q (%d bytes)", s, limit, got, len(got))
		}
		if utf8.ValidString(s) && !strings.Contains(s, "\x00") && len(s) <= limit && got != s {
			r.Fatalf("%q was changed to %q", s, got)
		}
	})
}
