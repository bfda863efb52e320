package load_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag/bundle"
	"github.com/airlock-dag/airlock/dag/load"
)

// BenchmarkLoad1000Files reads and checks a thousand files of ten tasks each.
func BenchmarkLoad1000Files(b *testing.B) {
	files := []bundle.File{
		{Path: "defaults.yml", Data: []byte("tags: [bench]\ndefault_args: {owner: me, retries: 2, retry_delay: 30s}\n")},
		{Path: "policies.yml", Data: []byte(policies)},
	}
	for i := range 1000 {
		text := fmt.Sprintf("dag_%d:\n  schedule: \"%d 2 * * *\"\n  timezone: Europe/Berlin\n  start_date: 2026-01-01\n  params: {inbox: ./in, n: 5}\n  tasks:\n    t0: {operator: bash, bash_command: echo}\n", i, i%60)
		for t := 1; t < 10; t++ {
			text += fmt.Sprintf("    t%d:\n      operator: airflow.operators.bash.BashOperator\n      bash_command: \"echo {{ ds }} %d\"\n      env: {A: b, C: \"1\"}\n      queue: gpu\n      dependencies: [t%d]\n", t, t, t-1)
		}
		files = append(files, bundle.File{Path: fmt.Sprintf("d%d/dag_%d.yml", i%20, i), Data: []byte(text)})
	}
	for b.Loop() {
		res := load.Files(files, options())
		require.Len(b, res.DAGs, 1000)
		require.Empty(b, res.Problems)
	}
}

// BenchmarkLoadCorpus reads files as people write them: those of the folder that
// AIRLOCK_TEST_CORPUS names, else this project's examples and test cases, right
// ones and wrong ones.
func BenchmarkLoadCorpus(b *testing.B) {
	var files []bundle.File
	if root := os.Getenv(corpusEnv); root != "" {
		files = folder(b, root)
	} else {
		files = append(folder(b, filepath.Join(projectRoot(b), "examples")), folder(b, "testdata/cases")...)
	}
	bytes := 0
	for _, f := range files {
		bytes += len(f.Data)
	}
	require.NotEmpty(b, files)
	b.SetBytes(int64(bytes))
	dags := 0
	for b.Loop() {
		dags = len(load.Files(files, options()).DAGs)
	}
	b.ReportMetric(float64(len(files)), "files")
	b.ReportMetric(float64(dags), "dags")
}
