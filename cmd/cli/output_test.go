package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"
	"pgregory.net/rapid"
)

// What is printed as YAML reads back as what is printed as JSON, whatever the
// texts look like.
func TestYAMLSaysWhatJSONSays(t *testing.T) {
	t.Parallel()
	tricky := rapid.SampledFrom([]string{"yes", "on", "null", "~", "1:30", "0777", "1e5", "2026-01-01", "- a", "a: b", "#", "", " ", "é\n\tb\n", "{{ ds }}", "|", "!!int 3", "\u2028", "<&>"})
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(tricky, rapid.String())
		value := map[string]any{
			"text": text.Draw(t, "text"), "list": []any{text.Draw(t, "item"), 1.5, true, nil},
			"object": map[string]any{"k" + text.Draw(t, "key"): text.Draw(t, "value")}, "empty": []any{},
		}
		var asJSON, asYAML bytes.Buffer
		require.NoError(t, printValue(&asJSON, "json", value))
		require.NoError(t, printValue(&asYAML, "yaml", value))
		var fromJSON, fromYAML any
		require.NoError(t, json.Unmarshal(asJSON.Bytes(), &fromJSON))
		require.NoError(t, yaml.Load(asYAML.Bytes(), &fromYAML), asYAML.String())
		require.Equal(t, fromJSON, fromYAML, asYAML.String())
	})
}

func TestRowsInEachForm(t *testing.T) {
	t.Parallel()
	type row struct {
		Name string     `json:"name"`
		At   *time.Time `json:"at"`
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.FixedZone("", 3600))
	rows := []row{{"a\tb\nc", &at}, {"", nil}}
	columns := []column[row]{
		col("name", func(r row) any { return r.Name }),
		col("at", func(r row) any { return r.At }),
	}
	printed := func(format string, rows []row) string {
		var b strings.Builder
		require.NoError(t, printRows(&b, format, rows, columns...))
		return b.String()
	}
	require.Equal(t, "name\tat\na\\tb\\nc\t2026-01-02 02:04:05\n-\t-\n", printed("plain", rows))
	require.JSONEq(t, `[{"name": "a\tb\nc", "at": "2026-01-02T03:04:05.000006+01:00"}, {"name": "", "at": null}]`, printed("json", rows))
	require.Equal(t, "- name: ''\n  at: null\n", printed("yaml", rows[1:]))
	require.Contains(t, printed("table", rows), "name")
	for _, format := range []string{"table", "plain"} {
		out := printed(format, []row{{"\x1b]0;gotcha\a", nil}})
		require.Contains(t, out, `\x1b]0;gotcha\a`)
		require.NotContains(t, out, "\x1b")
	}
	require.Equal(t, "[]\n", printed("json", nil), "an empty list is a list")
	require.Equal(t, "none\n", printed("table", nil))
}

func TestParseDate(t *testing.T) {
	t.Parallel()
	// Berlin is at +01:00 in winter.
	for text, want := range map[string]string{
		"2026-01-31":                       "2026-01-30T23:00:00Z",
		"2026-01-31T02:00":                 "2026-01-31T01:00:00Z",
		"2026-01-31 02:00:30":              "2026-01-31T01:00:30Z",
		"2026-01-31T02:00:30.25":           "2026-01-31T01:00:30.25Z",
		"2026-01-31T02:00:00Z":             "2026-01-31T02:00:00Z",
		"2026-01-31T02:00:00+05:30":        "2026-01-30T20:30:00Z",
		"2026-01-31T02:00:00.000001+00:00": "2026-01-31T02:00:00.000001Z",
	} {
		got, err := parseDate(text, "Europe/Berlin")
		require.NoError(t, err, text)
		require.Equal(t, want, got.Format(time.RFC3339Nano), text)
	}
	for _, text := range []string{"", "today", "2026-02-30", "31.01.2026", "2026-01-31T25:00"} {
		_, err := parseDate(text, "UTC")
		require.Error(t, err, text)
	}
}
