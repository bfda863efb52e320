package transcode_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/bundle"
	"github.com/airlock-dag/airlock/dag/load"
	probestep "github.com/airlock-dag/airlock/executor/operator/probe"
	"github.com/airlock-dag/airlock/executor/operator/transcode"
)

func specs() []dag.OperatorSpec {
	return []dag.OperatorSpec{(&probestep.Operator{}).Spec(), transcode.New().Spec()}
}

// The pages' tasks load, their profile is one, and each key has a line.
func TestPages(t *testing.T) {
	t.Parallel()
	for _, spec := range specs() {
		page, err := os.ReadFile(filepath.Join("../../../docs/operators", spec.Name+".md"))
		require.NoError(t, err)
		for _, f := range spec.Fields {
			require.Contains(t, string(page), "`"+f.Name+"`", spec.Name)
		}
		blocks := strings.Split(string(page), "```yaml\n")[1:]
		require.NotEmpty(t, blocks)
		for _, block := range blocks {
			task, _, _ := strings.Cut(block, "```")
			text := "demo:\n  start_date: 2026-01-01\n  schedule: null\n  params: {inbox: in, catalogue: out}\n  tasks:\n"
			for line := range strings.Lines(task) {
				text += "    " + line
			}
			if spec.Name == "transcode" {
				text += "    probe: {operator: probe, path: a.mp4}\n"
			}
			got := load.Files([]bundle.File{{Path: "demo.yml", Data: []byte(text)}}, load.Options{Specs: specs()})
			require.Len(t, got.DAGs, 1, "%v", got.Problems)
			for _, p := range got.Problems {
				require.NotContains(t, []string{"unknown-key", "ignored-key"}, p.Code, "%s", p)
			}
		}
	}
	page, err := os.ReadFile("../../../docs/operators/transcode.md")
	require.NoError(t, err)
	_, block, found := strings.Cut(string(page), "```yml\n")
	require.True(t, found)
	block, _, _ = strings.Cut(block, "```")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, transcode.ProfilesFile), []byte(block), 0o644))
	all, err := transcode.Profiles(dir)
	require.NoError(t, err)
	require.Equal(t, 640, all["preview"].Video.MaxWidth)
	require.Nil(t, all["preview"].Audio)
}

// Mistakes in a step are found when the file is loaded.
func TestMistakesInTheFile(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{operator: transcode, profile: h264-720p, output_dir: out}":                                             "asset",
		"{operator: transcode, path: a, asset: b, profile: h264-720p, output_dir: out}":                          "asset",
		"{operator: transcode, path: a, profile: h264-720p}":                                                     "output_dir",
		"{operator: transcode, path: a, profile: h264-720p, output_dir: out, accelerator: tpu}":                  "tpu",
		"{operator: transcode, path: a, profile: h264-720p, output_dir: out, verifi: full}":                      "verify",
		"{operator: transcode, path: a, profile: {name: x, video: {codec: theora}}, output_dir: out}":            "h264, hevc or av1",
		"{operator: transcode, path: a, profile: {name: x, extends: h264-720p, args: [-i, b]}, output_dir: out}": "-i is set by the step itself",
		"{operator: probe}":                         "path",
		"{operator: probe, path: a, require: both}": "both",
	} {
		file := "demo:\n  start_date: 2026-01-01\n  schedule: null\n  tasks:\n    t: " + text + "\n"
		got := load.Files([]bundle.File{{Path: "demo.yml", Data: []byte(file)}}, load.Options{Specs: specs()})
		require.Empty(t, got.DAGs, text)
		var all []string
		for _, p := range got.Problems {
			all = append(all, p.String())
		}
		require.Contains(t, strings.Join(all, "\n"), want, text)
	}
}

// The example loads; operators that this package does not see are passed over.
func TestExampleLoads(t *testing.T) {
	t.Parallel()
	var files []bundle.File
	for _, name := range []string{"media_ingest.yml", "policies.yml"} {
		data, err := os.ReadFile(filepath.Join("../../../examples", name))
		require.NoError(t, err)
		files = append(files, bundle.File{Path: name, Data: data})
	}
	got := load.Files(files, load.Options{Specs: specs(), AllowUnknownOperators: true})
	require.Len(t, got.DAGs, 1, "%v", got.Problems)
	require.Equal(t, 3, got.DAGs[0].Task("transcode").Retry.Retries, "from the queue's policy")
	require.Equal(t, "probe", got.DAGs[0].Task("transcode").Expand.Args["asset"].XCom)
}
