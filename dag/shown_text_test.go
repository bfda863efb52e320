package dag_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

func TestShownText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                         "",
		"films/été.mkv: 3\n\tdone": "films/été.mkv: 3\n\tdone",
		"\x1b[31mred\x07\r":        `\x1b[31mred\a\r`,
		"\u009b2J":                 `\u009b2J`,
		"a\x00b\x7f":               `a\x00b\x7f`,
	} {
		require.Equal(t, want, dag.ShownText(in))
	}
}
