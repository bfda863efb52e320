package load_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/bundle"
	"github.com/airlock-dag/airlock/dag/load"
)

// TestBadFiles loads one small file for each mistake. Each line of the .want
// file beside it is one problem in order: line:column, severity, code, and a
// part of the text.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("testdata/bad/*.yml")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".yml"), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			wanted, err := os.ReadFile(strings.TrimSuffix(name, ".yml") + ".want")
			require.NoError(t, err)
			want := strings.Split(strings.TrimSpace(string(wanted)), "\n")
			res := load.Files([]bundle.File{{Path: filepath.Base(name), Data: data}}, options())
			require.Len(t, res.Problems, len(want), lines(res.Problems))
			errors := 0
			for i, p := range res.Problems {
				head, text := splitWant(want[i])
				require.Equal(t, head, fmt.Sprintf("%d:%d %s %s", p.Line, p.Column, p.Severity, p.Code), lines(res.Problems))
				require.Contains(t, p.Message+"; "+p.Hint, text)
				if p.Severity == dag.SeverityError {
					errors++
				}
			}
			if errors > 0 {
				require.Empty(t, res.DAGs, "a file with an error gives no DAG")
				require.Equal(t, []string{filepath.Base(name)}, res.Broken)
			}
		})
	}
}

// splitWant parts a wanted line into its head of three words and the text.
func splitWant(line string) (head, text string) {
	words := strings.SplitN(line, " ", 4)
	if len(words) == 4 {
		text = words[3]
	}
	return strings.Join(words[:min(3, len(words))], " "), text
}

// A key in double quotes can hold what acts on a terminal, and line ends.
func TestAKeyThatWouldActOnATerminal(t *testing.T) {
	t.Parallel()
	res := loadText(t, "d:\n  schedule: none\n  \"\\e[31mred\\nx\": 1\n  tasks: {a: {operator: empty}}\n")
	require.Len(t, res.Problems, 1)
	require.Equal(t, `d.\x1b[31mred\nx`, res.Problems[0].Path)
	require.NotContains(t, res.Problems[0].String(), "\x1b")
	require.NotContains(t, res.Problems[0].String(), "\n")
}
