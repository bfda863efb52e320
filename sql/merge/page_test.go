package merge_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/merge"
	"github.com/airlock-dag/airlock/sql/merge/row"
)

// TestPageNamesEveryCodeAndKey holds docs/operators/merge.md against the code.
func TestPageNamesEveryCodeAndKey(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/operators/merge.md")
	require.NoError(t, err)
	text := string(page)
	for _, c := range row.Codes() {
		require.True(t, strings.Contains(text, "`"+string(c)+"`"), "the page lacks %s", string(c))
	}
	source, err := os.ReadFile("problem.go")
	require.NoError(t, err)
	codes := regexp.MustCompile(`= "([A-Z_]+)"`).FindAllStringSubmatch(string(source), -1)
	require.Greater(t, len(codes), 10)
	for _, m := range codes {
		if m[1] != merge.CodeInvalid {
			require.True(t, strings.Contains(text, "`"+m[1]+"`"), "the page lacks %s", m[1])
		}
	}
	for _, k := range append(merge.Keys(), merge.SourceKeys()...) {
		require.True(t, strings.Contains(text, "`"+k+"`"), "the page lacks %s", k)
	}
}
