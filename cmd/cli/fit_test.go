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
		fit(head, body, make([]int, 4), width)
		var out bytes.Buffer
		require.NoError(t, printTable(&out, head, body, 0))
		for line := range strings.Lines(out.String()) {
			require.LessOrEqual(t, text.StringWidth(strings.TrimRight(line, "\n")), width, "%d:\n%s", width, out.String())
		}
		require.Equal(t, "1", body[0][0], "short cells stay whole")
	}
	head, body := titles(), lines()
	fit(head, body, make([]int, 4), 1000)
	require.Equal(t, titles(), head)
	require.Equal(t, lines(), body, "nothing is cut where there is room")
	head, body = titles(), lines()
	fit(head, body, make([]int, 4), 80)
	require.True(t, strings.HasSuffix(body[0][3], "…"), body[0][3])
	require.Equal(t, "d.a", body[1][1])
	head, body = titles(), lines()
	fit(head, body, make([]int, 4), 5) // no terminal is as narrow: cells keep something to read
	require.Equal(t, "nightly_catalogue"[:leastCell-1]+"…", body[0][1])
}

// A run's id is there to be copied: everything else gives way to it.
func TestNarrowTablesKeepWhatIsCopied(t *testing.T) {
	t.Parallel()
	const id = "manual__2026-11-30T19:10:55.732006+00:00"
	titles := func() []string {
		return []string{"dag_id", "run_id", "state", "logical_date", "start_date", "reason", "note"}
	}
	lines := func() [][]string {
		return [][]string{
			{"hello", id, "success", "2026-11-30 19:10:55", "2026-11-30 19:10:56", "success", "-"},
			{"hello", id, "queued", "-", "-", "-", "-"},
		}
	}
	fits := func() []int { return []int{3, keptFit, 0, 1, 0, 2, 0} }
	tests := map[string]struct {
		width int
		head  []string
		first []string
	}{
		"all of it": {
			200, titles(), lines()[0],
		},
		"without what is empty": { // 6+40+7+19+19+7 characters, and 19 of the frame
			117, titles()[:6], lines()[0][:6],
		},
		"without years": {
			116, titles()[:6], []string{"hello", id, "success", "11-30 19:10:55", "11-30 19:10:56", "success"},
		},
		"without what can be spared, the highest rank first": {
			100, []string{"run_id", "state", "logical_date", "start_date", "reason"},
			[]string{id, "success", "11-30 19:10:55", "11-30 19:10:56", "success"},
		},
		"and in 80 columns": {
			80, []string{"run_id", "state", "start_date"}, []string{id, "success", "11-30 19:10:56"},
		},
		"cut, but for what is kept": {
			64, []string{"run_id", "state", "start_…"}, []string{id, "success", "11-30 …"}, // 40+7+7 and 10 of the frame
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			head, body := narrow(titles(), lines(), fits(), tt.width)
			require.LessOrEqual(t, tableWidth(cellWidths(head, body)), tt.width)
			require.Equal(t, tt.head, head)
			require.Equal(t, tt.first, body[0])
		})
	}
	head, body := narrow(titles(), lines(), fits(), 20)
	require.Len(t, head, 3, "what is left has something to read")
	require.Equal(t, "manua…", body[0][0])
}
