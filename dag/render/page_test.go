package render_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag/render"
)

// TestPage renders what docs/templates.md shows: every {{ }} of the page, and
// every expression of its tables of dates and macros.
func TestPage(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../docs/templates.md")
	require.NoError(t, err)
	page := string(raw)
	r := render.New(sample())
	for _, tpl := range regexp.MustCompile(`\{\{ [^}]+ \}\}`).FindAllString(page, -1) {
		_, err := r.String(tpl)
		if strings.Contains(tpl, "'a' + 1") || strings.Contains(tpl, "'10' > 5") {
			require.Error(t, err, "the page says that it is one: %s", tpl)
			continue
		}
		require.NoError(t, err, tpl)
	}
	cell := regexp.MustCompile("`((?:logical_date|data_interval_end|data_interval_start|macros|ti|conn|var|dag_run)[^`]*)`")
	shown := 0
	for _, line := range strings.Split(page, "\n") {
		if !strings.HasPrefix(line, "| `logical_date") && !strings.HasPrefix(line, "| `data_interval_end - ") && !strings.HasPrefix(line, "| `macros.") {
			continue
		}
		for _, m := range cell.FindAllStringSubmatch(line, -1) {
			expr := strings.NewReplacer("(text, form)", "('1', '%d')", "(text)", "('2026-01-31')", "(value)", "([1])", "(ds, days)", "(ds, 1)").Replace(m[1])
			if strings.HasPrefix(expr, "macros.json.loads") {
				expr = "macros.json.loads('[1]')"
			}
			_, err := r.String("{{ " + expr + " }}")
			require.NoError(t, err, expr)
			shown++
		}
	}
	require.Greater(t, shown, 15)
}
