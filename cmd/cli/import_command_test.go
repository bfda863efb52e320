package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/cli"
)

const adfPipeline = `{"name": "P", "properties": {"activities": [{"name": "Run it", "type": "Script",
 "linkedServiceName": {"referenceName": "W"}, "typeProperties": {"scripts": [{"type": "NonQuery", "text": "DELETE FROM t"}]},
 "policy": {"timeout": "00:05:00", "retry": 2}}]}}`

func TestImportOfAPipelineCanBeValidated(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"p.json": adfPipeline, "bad.json": `{"name": "P", "properties": {"activities": [{"name": "x", "type": "Script",
 "policy": {"retries": 2}}]}}`, "no.json": "{"})
	require.Contains(t, h.ok("import", "adf", "p.json").stdout, "execution_timeout: 5m")
	require.Contains(t, h.ok("import", "adf", "p.json", "--out", "dags/p.yml").stderr, "dags validate dags/p.yml")
	require.Contains(t, h.ok("dags", "validate", "dags/p.yml").stdout, "1 DAG, 0 errors")
	h.fails(cli.ExitFailed, []string{"bad.json:2:13: error", `did you mean "retry"?`, "nothing was written"}, "import", "adf", "bad.json", "--out", "dags/q.yml")
	require.NoFileExists(t, h.path("dags/q.yml"))
	h.fails(cli.ExitUsage, []string{"no.json", "not JSON"}, "import", "adf", "no.json")
}
