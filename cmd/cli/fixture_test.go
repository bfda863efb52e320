package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/cli"
	"github.com/airlock-dag/airlock/dag"
)

// house is a home folder, a DAGs folder and the command line over them.
type house struct {
	t     *testing.T
	dir   string
	env   []string
	clock dag.Clock
	stdin string
}

func newHouse(t *testing.T, files map[string]string) *house {
	t.Helper()
	h := &house{t: t, dir: t.TempDir()}
	h.env = []string{"AIRLOCK_HOME=" + filepath.Join(h.dir, "home"), "HOME=" + h.dir, "PATH=" + os.Getenv("PATH")}
	require.NoError(t, os.Mkdir(filepath.Join(h.dir, "dags"), 0o755))
	for name, content := range files {
		h.write(name, content)
	}
	return h
}

func (h *house) path(name string) string { return filepath.Join(h.dir, name) }

func (h *house) write(name, content string) {
	h.t.Helper()
	require.NoError(h.t, os.MkdirAll(filepath.Dir(h.path(name)), 0o755))
	require.NoError(h.t, os.WriteFile(h.path(name), []byte(content), 0o600))
}

// result is what one command line printed and returned.
type result struct {
	code           int
	stdout, stderr string
}

// run runs a command line over the house's folders.
func (h *house) run(args ...string) result {
	h.t.Helper()
	var stdout, stderr bytes.Buffer
	code := cli.Run(h.t.Context(), append(args, "--dags-folder", "dags"), cli.Env{
		Stdin: strings.NewReader(h.stdin), Stdout: &stdout, Stderr: &stderr,
		Environ: h.env, WorkDir: h.dir, Version: "1.2.3", User: "alice", Clock: h.clock,
	})
	return result{code, stdout.String(), stderr.String()}
}

// ok runs a command line that must be done without a fault.
func (h *house) ok(args ...string) result {
	h.t.Helper()
	r := h.run(args...)
	require.Equalf(h.t, cli.ExitDone, r.code, "%v\n%s%s", args, r.stdout, r.stderr)
	return r
}

// fails runs a command line that must end with a code, and an error that says
// all the words.
func (h *house) fails(code int, words []string, args ...string) {
	h.t.Helper()
	r := h.run(args...)
	require.Equalf(h.t, code, r.code, "%v\n%s%s", args, r.stdout, r.stderr)
	for _, w := range words {
		require.Containsf(h.t, r.stderr, w, "%v", args)
	}
}

// list runs a command line with -o json and reads the list that it prints.
func (h *house) list(args ...string) []map[string]any {
	h.t.Helper()
	var rows []map[string]any
	out := h.ok(append(args, "-o", "json")...).stdout
	require.NoErrorf(h.t, json.Unmarshal([]byte(out), &rows), "%v printed %s", args, out)
	return rows
}

// show runs a command line with -o json and reads the object that it prints.
func (h *house) show(args ...string) map[string]any {
	h.t.Helper()
	var object map[string]any
	out := h.ok(append(args, "-o", "json")...).stdout
	require.NoErrorf(h.t, json.Unmarshal([]byte(out), &object), "%v printed %s", args, out)
	return object
}

// column collects one key of all rows.
func column(rows []map[string]any, key string) []any {
	values := make([]any, len(rows))
	for i, row := range rows {
		values[i] = row[key]
	}
	return values
}

// hello is a DAG whose tasks work.
const hello = `
hello:
  description: says hello
  schedule: "0 2 * * *"
  catchup: true
  tags: [demo]
  default_args: {owner: ops, start_date: 2026-01-01, retries: 2, retry_delay: 30s}
  tasks:
    greet: {operator: bash, bash_command: "echo hello, {{ ds }}"}
    count: {operator: bash, bash_command: "echo {{ ti.xcom_pull(task_ids='greet') | length }} letters", dependencies: [greet]}
    last: {operator: empty, dependencies: [count]}
`

// doomed is a DAG whose first task is sealed at once: 65 is EX_DATAERR.
const doomed = `
doomed:
  schedule: null
  default_args: {start_date: 2026-01-01}
  tasks:
    read: {operator: bash, bash_command: "echo this input is wrong >&2; test -e mended || exit 65", retries: 3}
    after: {operator: empty, dependencies: [read]}
`

// broken has two mistakes.
const broken = `
broken:
  schedule: "61 2 * * *"
  default_args: {start_date: 2026-01-01}
  tasks:
    greet: {operator: bash, bash_comand: "echo"}
`
