package operator_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/bundle"
	"github.com/airlock-dag/airlock/dag/load"
	"github.com/airlock-dag/airlock/executor/operator"
	"github.com/airlock-dag/airlock/executor/operator/bash"
	"github.com/airlock-dag/airlock/executor/operator/branch"
	"github.com/airlock-dag/airlock/executor/operator/empty"
	"github.com/airlock-dag/airlock/executor/operator/externaltasksensor"
	"github.com/airlock-dag/airlock/executor/operator/filesensor"
	httpop "github.com/airlock-dag/airlock/executor/operator/http"
	"github.com/airlock-dag/airlock/executor/operator/httpcall"
	"github.com/airlock-dag/airlock/executor/operator/httpsensor"
	"github.com/airlock-dag/airlock/executor/operator/python"
	"github.com/airlock-dag/airlock/executor/operator/shortcircuit"
	"github.com/airlock-dag/airlock/executor/operator/sqlsensor"
	"github.com/airlock-dag/airlock/executor/operator/triggerdagrun"
)

// TestExamplesOnThePagesLoad reads every YAML block of the operators' pages as
// the tasks of a DAG.
func TestExamplesOnThePagesLoad(t *testing.T) {
	t.Parallel()
	calls := httpcall.New()
	registry := operator.NewRegistry(
		bash.New(), branch.New(), empty.New(), python.New(), shortcircuit.New(), triggerdagrun.New(),
		externaltasksensor.New(), filesensor.New(), httpop.New(calls), httpsensor.New(calls), sqlsensor.New(),
	)
	for _, page := range []string{
		"operators/bash.md", "operators/branch.md", "operators/empty.md", "operators/python.md",
		"operators/short_circuit.md", "operators/trigger_dag_run.md", "operators/external_task_sensor.md", "operators/file_sensor.md", "operators/http.md",
		"operators/http_sensor.md", "operators/sql_sensor.md", "error-codes.md",
	} {
		b, err := os.ReadFile(filepath.Join("..", "..", "docs", filepath.FromSlash(page)))
		require.NoError(t, err)
		blocks := strings.Split(string(b), "```yaml\n")[1:]
		require.NotEmpty(t, blocks, page)
		for _, block := range blocks {
			tasks, _, found := strings.Cut(block, "```")
			require.True(t, found)
			text := "demo:\n  start_date: 2026-01-01\n  schedule: null\n  tasks:\n"
			for line := range strings.Lines(tasks) {
				text += "    " + line
			}
			// What the examples stand after and before.
			for _, id := range []string{"probe", "path_a", "path_b"} {
				text += "    " + id + ": {operator: empty}\n"
			}
			got := load.Files([]bundle.File{{Path: "demo.yaml", Data: []byte(text)}}, load.Options{Specs: registry.Specs()})
			for _, p := range got.Problems {
				require.NotEqual(t, dag.SeverityError, p.Severity, "%s: %s\n%s", page, p, text)
				require.NotContains(t, []string{"unknown-key", "ignored-key"}, p.Code, "%s: %s", page, p)
			}
			require.Len(t, got.DAGs, 1, page)
		}
	}
}
