package load

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestThePageOfDAGFiles keeps docs/yaml.md true: it names every code, and
// every key that is read or warned about.
func TestThePageOfDAGFiles(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "yaml.md"))
	require.NoError(t, err)
	page := string(raw)
	codes, err := os.ReadFile("codes.go")
	require.NoError(t, err)
	known := map[string]bool{}
	for _, m := range regexp.MustCompile(`= "([a-z-]+)"`).FindAllStringSubmatch(string(codes), -1) {
		known[m[1]] = true
		require.Contains(t, page, "\n| `"+m[1]+"` | ", "a row for the code")
	}
	_, list, found := strings.Cut(page, "## Problem codes")
	require.True(t, found)
	for _, m := range regexp.MustCompile("\n\\| `([a-z-]+)` \\|").FindAllStringSubmatch(list, -1) {
		require.True(t, known[m[1]], "%s is not a code", m[1])
	}
	k := newKeyTables()
	for _, table := range []keyTable{k.dag, k.defaultArgs, k.task, k.group, k.policy} {
		for name, info := range table {
			if info.kind == refused || strings.HasSuffix(name, "_name") && strings.HasPrefix(name, "on_") || strings.HasSuffix(name, "_file") || strings.HasPrefix(name, "sla_miss") {
				continue
			}
			require.Contains(t, page, "`"+name+"`")
		}
	}
}
