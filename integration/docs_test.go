package integration

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/app"
)

var markdownLink = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)

// TestLinksLeadSomewhere follows every link of every page to a file.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	for page := range trackedFiles(t) {
		if path.Ext(page) != ".md" || strings.Contains(page, "testdata/") {
			continue
		}
		for _, link := range markdownLink.FindAllStringSubmatch(read(t, page), -1) {
			if strings.Contains(link[1], "://") || strings.HasPrefix(link[1], "mailto:") {
				continue
			}
			_, err := os.Stat(filepath.Join(root, filepath.FromSlash(path.Join(path.Dir(page), link[1]))))
			require.NoErrorf(t, err, "%s links to %s", page, link[1])
		}
	}
}

// TestEveryPageIsInTheIndex asks for a line in docs/README.md, or for an
// operator in docs/operators.md.
func TestEveryPageIsInTheIndex(t *testing.T) {
	t.Parallel()
	pages, operators := read(t, "docs/README.md"), read(t, "docs/operators.md")
	for page := range trackedFiles(t) {
		below, ok := strings.CutPrefix(page, "docs/")
		if !ok || below == "README.md" || path.Ext(page) != ".md" {
			continue
		}
		if strings.HasPrefix(below, "operators/") {
			require.Contains(t, operators, "]("+below+")", "docs/operators.md")
		} else {
			require.Contains(t, pages, "]("+below+")", "docs/README.md")
		}
	}
}

// TestEveryOperatorIsDescribed asks for a page for each operator, with each of
// its keys.
func TestEveryOperatorIsDescribed(t *testing.T) {
	t.Parallel()
	for _, spec := range app.Operators().Specs() {
		page := read(t, "docs/operators/"+spec.Name+".md")
		for _, field := range spec.Fields {
			require.Containsf(t, page, "`"+field.Name+"`", "docs/operators/%s.md does not describe %s", spec.Name, field.Name)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	require.NoError(t, err)
	return string(content)
}
