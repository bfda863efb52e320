package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/stretchr/testify/require"
)

// A table is as wide as the terminal at most, and what fits is left alone.
func TestTablesFitTheTerminal(t *testing.T) {
	t.Parallel()
	titles := func() []string { return []string{"id", "task", "error_code", "message"} }
	lines := func() [][]string {
		return [][]string{
			{"1", "nightly_catalogue.transcode[17]", "EXIT_CODE", "the encoder ended with 187: Conversion failed!\nand more"},
			{"2000", "d.a", "SQL_LOCK_WAIT_TIMEOUT", "日本語のメッセージはとても長いので切られます"},
		}
	}
	for _, width := range []int{200, 120, 80, 60, 40} {
		head, body := titles(), lines()
		fit(head, body, width)
		var out bytes.Buffer
		require.NoError(t, printTable(&out, head, body, 0))
		for line := range strings.Lines(out.String()) {
			require.LessOrEqual(t, text.StringWidth(strings.TrimRight(line, "\n")), width, "%d:\n%s", width, out.String())
		}
		require.Equal(t, "1", body[0][0], "short cells stay whole")
	}
	head, body := titles(), lines()
	fit(head, body, 1000)
	require.Equal(t, titles(), head)
	require.Equal(t, lines(), body, "nothing is cut where there is room")
	head, body = titles(), lines()
	fit(head, body, 80)
	require.True(t, strings.HasSuffix(body[0][3], "…"), body[0][3])
	require.Equal(t, "d.a", body[1][1])
	head, body = titles(), lines()
	fit(head, body, 5) // no terminal is as narrow: cells keep something to read
	require.Equal(t, "nightly_catalogue"[:leastCell-1]+"…", body[0][1])
}
