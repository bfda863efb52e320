package cli_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/cli"
)

func TestExportCountsItsEntries(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	h.ok("variables", "set", "region", "eu")
	require.Equal(t, "1 entry written to v.json\n", h.ok("variables", "export", "v.json").stdout)
	h.ok("variables", "set", "zone", "b")
	require.Equal(t, "2 entries written to v.json\n", h.ok("variables", "export", "v.json").stdout)
}

func TestVersionIsAFlagToo(t *testing.T) {
	t.Parallel()
	require.Equal(t, "1.2.3\n", newHouse(t, nil).ok("--version").stdout)
}

func TestClassifyRefusesWhatIsNoExitCode(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	for _, code := range []string{"-1", "256", "999"} {
		h.fails(cli.ExitUsage, []string{code + " is no exit code"}, "classify", "--exit-code="+code)
	}
	h.ok("classify", "--exit-code=255")
}

func TestMissingDagsFolderIsToldOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	require.NoError(t, os.Remove(h.path("dags")))
	r := h.run("dags", "list")
	require.Equal(t, cli.ExitUsage, r.code)
	require.Equal(t, 1, strings.Count(r.stderr, "read the DAGs folder"), r.stderr)
	require.Equal(t, 1, strings.Count(r.stderr, "--dags-folder"), r.stderr)
	r = h.run("dags", "test", "hello")
	require.NotEqual(t, cli.ExitDone, r.code)
	require.Equal(t, 1, strings.Count(r.stderr, "read the DAGs folder"), r.stderr)
}

func TestValidateRefusesFilesThatAreNoDagFiles(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"dags/hello.yml": hello, "dags/job.py": "print(1)"})
	h.fails(cli.ExitUsage, []string{"dags/job.py is no DAG file", ".yaml"}, "dags", "validate", "dags/job.py")
}

// Whoever tries one DAG is told what is wrong with its file, and not what is
// wrong with every other file of the folder.
func TestDagsTestTellsOfItsOwnFileOnly(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{
		"dags/mine.yml":  "mine:\n  orientation: LR\n  tasks: {a: {operator: empty}}\n",
		"dags/other.yml": "other:\n  orientation: LR\n  tasks: {a: {operator: empty}}\n",
		// The DAG's own lines are right; the block that it inherits is not.
		"dags/spoilt.yml": "default: {default_args: {retry_delay_sec: 3}}\nspoilt:\n  tasks: {a: {operator: empty}}\n",
	})
	r := h.ok("dags", "test", "mine")
	require.Contains(t, r.stdout, "mine.yml:2:3: warning")
	require.NotContains(t, r.stdout+r.stderr, "other.yml")
	require.NotContains(t, r.stdout+r.stderr, "spoilt.yml")
	h.fails(cli.ExitUsage, []string{"its file spoilt.yml has mistakes", "retry_delay_sec"}, "dags", "test", "spoilt")
}

// What a test run prints can be pasted as it stands: nothing hides its end.
func TestQueriesOfATestRunAreWholeStatements(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"dags/load.yml": `
load:
  tasks:
    rows:
      operator: merge
      conn_id: target
      source: {file: rows.csv}
      columns:
        id: {type: bigint, required: true}
        at: {type: timestamp, required: true, timezone: UTC}
      target: silver
      create_target: true
      key: [id]
      version: at
      watermark: {column: at, name: silver}
      bad_rows: {max: 10, max_ratio: 1}
`, "dags/rows.csv": "id,at\n1,2026-01-01T00:00:00Z\nx,2026-01-01T00:00:00Z\n"})
	h.ok("connections", "add", "target", "--conn-uri", "sqlite:///"+h.path("target.db"))
	out := h.ok("dags", "test", "load").stdout
	queries := 0
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "  SELECT ") {
			queries++
			require.True(t, strings.HasSuffix(line, ";\n"), line)
			require.NotContains(t, line, "--")
		}
	}
	require.Equal(t, 1, queries, out)
}

func TestWorkerRefusesNoPlacesAndNoQueue(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	h.fails(cli.ExitUsage, []string{"concurrency", "0"}, "worker", "-c", "0")
	h.fails(cli.ExitUsage, []string{"--queues is empty"}, "worker", "-q", "")
	h.fails(cli.ExitUsage, []string{"--queues is empty"}, "worker", "-q", "a,,b")
}

func TestWrongParamsAreToldWithOneHint(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"dags/p.yml": `
p:
  params: {limit: {__type__: airflow.sdk.Param, default: 1, type: integer, minimum: 1}}
  tasks: {a: {operator: empty}}
`})
	r := h.run("dags", "trigger", "p", "-c", `{"limit": 0}`)
	require.Equal(t, cli.ExitUsage, r.code)
	require.Contains(t, r.stderr, "limit")
	require.Equal(t, 1, strings.Count(r.stderr, "the run's conf"), r.stderr)
}

func TestStaleDagHasNoNextRun(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{
		"dags/gone.yml": "gone:\n  schedule: \"@daily\"\n  tasks: {a: {operator: empty}}\n",
		"dags/here.yml": "here:\n  tasks: {a: {operator: empty}}\n",
	})
	h.ok("dags", "test", "gone")
	require.NoError(t, os.Remove(h.path("dags/gone.yml")))
	h.ok("dags", "test", "here")
	require.Contains(t, h.ok("dags", "list", "-o", "plain").stdout, "@daily\ttrue\t-\ttrue\n")
}

func TestValidateCanLetUnknownOperatorsPass(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"dags/a.yml": `
known:
  schedule: null
  tasks:
    pod: {operator: airflow.providers.cncf.kubernetes.operators.pod.KubernetesPodOperator, image: x}
`})
	require.Equal(t, cli.ExitFailed, h.run("dags", "validate").code)
	r := h.run("dags", "validate", "--allow-unknown-operators")
	require.Equal(t, cli.ExitDone, r.code, r.stdout)
	require.Contains(t, r.stdout, "KubernetesPodOperator")
	require.Contains(t, r.stdout, "1 DAG, 0 errors")
	h.write("dags/b.yml", "bad:\n  schedule: null\n  tasks:\n    pod: {operator: some.Other, retires: 3}\n    a: {operator: bash, bash_command: x, dependencies: [ghost]}\n")
	r = h.run("dags", "validate", "--allow-unknown-operators")
	require.Equal(t, cli.ExitFailed, r.code, "the rest is still checked")
	require.Contains(t, r.stdout, "ghost")
}
