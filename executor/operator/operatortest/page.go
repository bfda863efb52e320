package operatortest

import (
	"os"
	"strings"
	"testing"

	"github.com/airlock-dag/airlock/dag"
)

// CheckPage fails the test when an operator's page in docs/ lacks something
// that its description has: a key (as the first cell of a table's row, with its
// type as the second), an alias, an ignored key. path is that of the page,
// relative to the test's package.
func CheckPage(t testing.TB, spec dag.OperatorSpec, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("the operator has no page: %v", err)
	}
	page := string(b)
	for _, f := range spec.Fields {
		row := "| `" + f.Name + "` | " + string(f.Type) + " |"
		if !strings.Contains(page, row) {
			t.Errorf("%s lacks the row %q", path, row)
		}
	}
	for _, words := range [][]string{spec.Aliases, spec.Ignored} {
		for _, w := range words {
			if !strings.Contains(page, "`"+w+"`") {
				t.Errorf("%s lacks `%s`", path, w)
			}
		}
	}
}
