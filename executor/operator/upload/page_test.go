package upload_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/bundle"
	"github.com/airlock-dag/airlock/dag/load"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
)

const page = "../../../docs/operators/upload.md"

func TestPage(t *testing.T) {
	t.Parallel()
	operatortest.CheckPage(t, operator().Spec(), page)
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	_, block, found := strings.Cut(string(text), "```yaml\n")
	require.True(t, found)
	block, _, _ = strings.Cut(block, "```")
	dags, problems := loaded("    transcode: {operator: upload, path: a, target: b}\n" + indent(block))
	require.Len(t, dags, 1, "%v", problems)
	require.Equal(t, "transcode", dags[0].Task("upload").Expand.Args["path"].XCom)
	// Every code that the page names is one.
	_, errors, _ := strings.Cut(string(text), "## Errors")
	for line := range strings.Lines(errors) {
		if cells := strings.Split(line, "|"); len(cells) > 3 && strings.Contains(cells[1], "`") {
			for i, word := range strings.Split(cells[1], "`") {
				if i%2 == 1 && word != "Retry-After" {
					require.True(t, fault.Known(word), word)
				}
			}
		}
	}
}

func indent(block string) string {
	var b strings.Builder
	for line := range strings.Lines(block) {
		b.WriteString("    " + line)
	}
	return b.String()
}

func loaded(tasks string) ([]*dag.DAG, []dag.Problem) {
	text := "demo:\n  start_date: 2026-01-01\n  schedule: null\n  tasks:\n" + tasks
	got := load.Files([]bundle.File{{Path: "demo.yml", Data: []byte(text)}}, load.Options{Specs: []dag.OperatorSpec{operator().Spec()}})
	return got.DAGs, got.Problems
}

// Mistakes in a step are found when the file is loaded.
func TestMistakesInTheFile(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{operator: upload, target: out}":                                              "path",
		"{operator: upload, path: a}":                                                  "neither target nor conn_id",
		"{operator: upload, path: a, target: out, key: 'x/{hash}.mp4'}":                "{hash}",
		"{operator: upload, path: a, target: out, key: 'x/{sha256.mp4'}":               "without a }",
		"{operator: upload, path: a, target: out, verify: md5}":                        "md5",
		"{operator: upload, path: a, target: out, part_size: 1024}":                    "part_size is 1024",
		"{operator: upload, path: a, target: out, parallel: 0}":                        "parallel is 0",
		"{operator: upload, path: a, target: out, requests_per_second: -1}":            "requests_per_second is -1",
		"{operator: upload, path: a, target: out, stall_timeout: 0.5}":                 "stall_timeout is 0.5",
		"{operator: upload, path: a, target: 's33://films/x', conn_id: store}":         "did you mean s3?",
		"{operator: upload, path: a, target: 'ftp://films/x'}":                         "no kind of store",
		"{operator: upload, path: a, target: 's3://films/x'}":                          "no conn_id says with which keys",
		"{operator: upload, path: a, target: 's3://films/x', conn_id: store}":          "",
		"{operator: upload, path: a, target: 'https://host/films'}":                    "",
		"{operator: upload, path: a, target: out, overwrit: true}":                     "overwrite",
		"{operator: upload, path: a, target: out, key: '{profile}/{{ ds }}.mp4'}":      "",
		"{operator: upload, path: a, conn_id: store, key: '{stem}-{sha256}{ext}'}":     "",
		"{operator: upload, path: a, target: out, bytes_per_second: '{{ params.x }}'}": "",
	} {
		dags, problems := loaded("    t: " + text + "\n")
		var all []string
		for _, p := range problems {
			all = append(all, p.String())
		}
		if want == "" {
			require.Len(t, dags, 1, "%s %v", text, all)
			continue
		}
		require.Empty(t, dags, text)
		require.Contains(t, strings.Join(all, "\n"), want, text)
	}
}
