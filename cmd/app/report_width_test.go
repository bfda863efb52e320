package app_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/app"
	"github.com/airlock-dag/airlock/dag"
)

// The tables of a report are no wider than the terminal, and the file stays in sight.
func TestReportFitsTheTerminal(t *testing.T) {
	t.Parallel()
	report := app.TestReport{
		Merges: []app.MergeReport{{TaskID: "load_orders", Read: 46, Merged: 40, WatermarkTo: "2025-11-29 10:00:00.000000"}},
		Letters: []dag.DeadLetter{{
			TaskInstanceKey: dag.TaskInstanceKey{DagID: "films", TaskID: "transcode", MapIndex: 4}, ErrorCode: "DURATION_MISMATCH", AttemptCount: 1,
			ErrorMessage: "the input's video ends after 3.04 s of 6.00 s: 76 of 150 packets are there", Payload: json.RawMessage(`{"asset": {"path": "/films/truncated.mp4"}}`),
		}},
	}
	widest := func(width int) (string, int) {
		var out bytes.Buffer
		report.Print(&out, "sqlite:///a.db", width)
		longest := 0
		for line := range strings.Lines(out.String()) {
			longest = max(longest, utf8.RuneCountInString(strings.TrimRight(line, "\n")))
		}
		return out.String(), longest
	}
	text, longest := widest(80)
	require.LessOrEqual(t, longest, 80, text)
	require.Contains(t, text, "truncated.mp4: the input")
	text, longest = widest(0)
	require.Greater(t, longest, 110, text)
	require.Contains(t, text, "76 of 150 packets")
	require.Contains(t, text, "2025-11-29 10:00:00.000000")
}
