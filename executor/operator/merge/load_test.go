package merge_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/bundle"
	"github.com/airlock-dag/airlock/dag/load"
	mergeop "github.com/airlock-dag/airlock/executor/operator/merge"
	"github.com/airlock-dag/airlock/sql/merge"
)

func loadProblems(t *testing.T, task string) []dag.Problem {
	t.Helper()
	text := "demo:\n  start_date: 2026-01-01\n  schedule: null\n  tasks:\n    m:\n" + task
	got := load.Files([]bundle.File{{Path: "demo.yaml", Data: []byte(text)}}, load.Options{Specs: []dag.OperatorSpec{mergeop.New(nil).Spec()}})
	return got.Problems
}

func TestMistakesAreToldOnceWithTheirPlace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		task  string
		paths []string
	}{
		{`      operator: merge
      conn_id: w
      source: {file: x.csv, formt: csv, unknown_fields: maybe}
      columns: {id: {type: int}}
      target: t
      key: [id]
      when_not_matched: no
      duplicates: old
      watermark: {colum: id, name: w}
      chunk: x
`, []string{"source.formt", "source.unknown_fields", "when_not_matched", "duplicates", "watermark.colum", "watermark", "chunk"}},
		{`      operator: merge
      conn_id: w
      source: {file: x.csv, query: SELECT 1}
      columns:
        id: {type: bigit}
        a: {type: int, requird: true, check: "b > 1"}
        z: {type: timestamp, timezone: Mars}
      target: t
      key: [idd]
      when_matched: replace
      bad_rows: {max_ratio: 5}
`, []string{"source", "columns.id.type", "columns.a.requird", "columns.a.check", "columns.z.timezone", "when_matched", "bad_rows.max_ratio", "key"}},
		{`      operator: merge
      conn_id: w
      source: {file: x.csv}
      columns:
        id: {type: bigit}
        n: bigint
      target: t
      key: [id]
`, []string{"columns.id.type"}},
		{"      operator: merge\n", []string{"", "key", "target"}},
		{"      operator: merge\n      conn_id: w\n      sql: MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN UPDATE\n      target: t\n", []string{"sql", "target"}},
	} {
		seen := map[string]string{}
		for _, p := range loadProblems(t, c.task) {
			require.Positive(t, p.Line, p.String())
			path := strings.TrimPrefix(strings.TrimPrefix(p.Path, "demo.tasks.m"), ".")
			if path != "" {
				require.Empty(t, seen[path], "told twice: %s", p)
			}
			seen[path] = p.Message
		}
		for _, path := range c.paths {
			require.Contains(t, seen, path, "%v", seen)
		}
		require.Len(t, seen, len(c.paths), "%v", seen)
	}
}

// The order of a table that the step makes is the file's.
func TestColumnsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	text := "demo:\n  start_date: 2026-01-01\n  schedule: null\n  tasks:\n    m:\n      operator: merge\n      conn_id: w\n      source: {file: x.csv}\n" +
		"      columns: {zeta: bigint, name: text, alpha: {type: 'decimal(8,2)', format: '%Y'}}\n      target: t\n      key: [zeta]\n"
	got := load.Files([]bundle.File{{Path: "demo.yaml", Data: []byte(text)}}, load.Options{Specs: []dag.OperatorSpec{mergeop.New(nil).Spec()}})
	require.Empty(t, got.Problems)
	spec, problems := merge.ParseSpec(got.DAGs[0].Task("m").Args)
	require.Empty(t, problems)
	var names []string
	for _, c := range spec.Columns {
		names = append(names, c.Name+" "+c.Type.String())
	}
	require.Equal(t, []string{"zeta bigint", "name text", "alpha decimal(8,2)"}, names)
	for format, word := range map[string]string{"YYYY-MM-DD": "%Y-%m-%d", "%Y-%q": "%q is not known"} {
		broken := strings.Replace(text, "'%Y'", "'"+format+"'", 1)
		got := load.Files([]bundle.File{{Path: "demo.yaml", Data: []byte(broken)}}, load.Options{Specs: []dag.OperatorSpec{mergeop.New(nil).Spec()}})
		require.Len(t, got.Problems, 1)
		require.Equal(t, "demo.tasks.m.columns.alpha.format", got.Problems[0].Path)
		require.Equal(t, 9, got.Problems[0].Line)
		require.Contains(t, got.Problems[0].Message, word)
	}
}

// The key null is a word of YAML; the loader reads it as the text it is.
func TestContractExampleLoads(t *testing.T) {
	t.Parallel()
	indented := "      operator: merge\n"
	for line := range strings.Lines(strings.TrimPrefix(ordersStep, "\n")) {
		indented += "      " + line
	}
	require.Empty(t, loadProblems(t, indented))
}

func TestExamplesOnThePageLoad(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/operators/merge.md")
	require.NoError(t, err)
	blocks := strings.Split(string(page), "```yaml\n")[1:]
	require.Len(t, blocks, 2)
	for _, block := range blocks {
		tasks, _, _ := strings.Cut(block, "```")
		_, body, _ := strings.Cut(tasks, "\n")
		indented := ""
		for line := range strings.Lines(body) {
			indented += "    " + line
		}
		require.Empty(t, loadProblems(t, indented), indented)
	}
}
