package proc_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag/proc"
)

func TestTailKeepsTheEnd(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		limit  int
		writes []string
		want   string
		lines  int64
		cut    bool
	}{
		"nothing":    {4, nil, "", 0, false},
		"short":      {4, []string{"ab"}, "ab", 0, false},
		"full":       {4, []string{"ab", "cd"}, "abcd", 0, false},
		"over":       {4, []string{"ab", "cd", "e"}, "bcde", 0, true},
		"one large":  {4, []string{"abcdefgh\n"}, "fgh\n", 1, true},
		"many small": {3, strings.Split("a\nb\nc\nd\ne\nf\n", ""), "\nf\n", 6, true},
		"no limit":   {0, []string{"ab"}, "b", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tail := proc.NewTail(tc.limit)
			var total int64
			for _, w := range tc.writes {
				n, err := tail.Write([]byte(w))
				require.NoError(t, err)
				require.Equal(t, len(w), n)
				total += int64(n)
			}
			require.Equal(t, tc.want, tail.String())
			require.Equal(t, tc.lines, tail.Lines())
			require.Equal(t, total, tail.Written())
			require.Equal(t, tc.cut, tail.Cut())
		})
	}
}

type line struct {
	text string
	cut  int64
}

func TestLineWriterSplitsWhateverTheWrites(t *testing.T) {
	t.Parallel()
	input := "one\ntwo\r\n\n" + strings.Repeat("x", 25) + "\nlast"
	want := []line{{"one", 0}, {"two", 0}, {"", 0}, {"xxxxxxxxxx", 15}, {"last", 0}}
	for size := 1; size <= len(input); size++ {
		var got []line
		w := proc.NewLineWriter(10, func(b []byte, cut int64) { got = append(got, line{string(b), cut}) })
		for rest := []byte(input); len(rest) > 0; {
			n, err := w.Write(rest[:min(size, len(rest))])
			require.NoError(t, err)
			rest = rest[n:]
		}
		w.Flush()
		w.Flush() // a second one has nothing to deliver
		require.Equal(t, want, got, "writes of %d bytes", size)
	}
}

func TestLineWriterTakesAHundredThousandLines(t *testing.T) {
	t.Parallel()
	var n int
	w := proc.NewLineWriter(0, func([]byte, int64) { n++ })
	_, err := w.Write(bytes.Repeat([]byte("a line\n"), 100_000))
	require.NoError(t, err)
	require.Equal(t, 100_000, n)
}

func TestPrintableHoldsAnyBytes(t *testing.T) {
	t.Parallel()
	require.Equal(t, "plain ü", proc.Printable([]byte("plain ü")))
	require.Equal(t, "a\uFFFDb", proc.Printable([]byte("a\xff\xfeb")))
	require.Equal(t, "a\u2400b", proc.Printable([]byte("a\x00b")))
}
