package source_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/merge/source"
)

func TestSetFields(t *testing.T) {
	t.Parallel()
	semicolons := source.Layout{Format: "csv", Columns: []string{"id", "name", "n"}, Delimiter: ";", Quote: "'"}
	for _, c := range []struct {
		layout    source.Layout
		raw, want string
		set       map[string]string
		fails     string
	}{
		{source.Layout{Format: "csv", Columns: []string{"id", "name"}}, `1,"a ""b"""`, `1,"x, y"`, map[string]string{"name": "x, y"}, ""},
		{source.Layout{Format: "csv", Columns: []string{"id", "name"}}, `1,"a ""b"""`, `2,a "b"`, map[string]string{"id": "2"}, ""},
		{semicolons, "1;'a;b';x", "1;'a;b';5", map[string]string{"n": "5"}, ""},
		{semicolons, "1;2", "", map[string]string{"n": "5"}, "as a whole"},
		{semicolons, "1;2;3", "", map[string]string{"nn": "5"}, `no column "nn"`},
		{source.Layout{Format: "csv", Columns: []string{"a", "b"}, Encoding: source.UTF16LE}, "1\x00,\x00\xe9\x00", "5\x00,\x00\xe9\x00", map[string]string{"a": "5"}, ""},
		{source.Layout{Format: "csv", Columns: []string{"a", "b"}, Encoding: source.Windows1252}, "1,\xe9", "\x80,\xe9", map[string]string{"a": "€"}, ""},
		{source.Layout{Format: "csv", Columns: []string{"a", "b"}, Encoding: source.Latin1}, "1,\xe9", "", map[string]string{"a": "€"}, "no character of iso-8859-1"},
		{source.Layout{Format: "jsonl"}, `{"id": 9007199254740993, "a": {"x":1.50}}`, `{"id":9007199254740993,"a":7,"n":"Zoë","z":null}`, map[string]string{"a": "7", "n": "Zoë", "z": "null"}, ""},
		{source.Layout{Format: "jsonl"}, `{"id": }`, "", map[string]string{"a": "7"}, "as a whole"},
		{source.Layout{}, "1,2", "", map[string]string{"a": "7"}, "as a whole"},
	} {
		got, err := source.SetFields(t.Context(), c.layout, c.raw, c.set)
		if c.fails != "" {
			require.ErrorContains(t, err, c.fails, c.raw)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	require.Equal(t, "id;name;n", source.HeaderLine(semicolons))
	require.Empty(t, source.HeaderLine(source.Layout{Format: "jsonl"}))
}
