package cli_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/cli"
)

func TestWrongUseEndsWithTwoAndAHint(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"dags/hello.yml": hello})
	for name, tc := range map[string]struct {
		args  []string
		words []string
	}{
		"unknown command":        {[]string{"dag"}, []string{"unexpected argument dag", "airlock --help"}},
		"no sub-command":         {[]string{"dags"}, []string{"airlock dags --help"}},
		"missing argument":       {[]string{"dags", "show"}, []string{"<dag>", "airlock dags show --help"}},
		"unknown flag":           {[]string{"dags", "list", "--all"}, []string{"unknown flag --all"}},
		"unknown output":         {[]string{"dags", "list", "-o", "xml"}, []string{"table", "xml"}},
		"number expected":        {[]string{"dlq", "show", "first"}, []string{"first"}},
		"conf is no object":      {[]string{"dags", "trigger", "hello", "-c", "[1]"}, []string{"no JSON object", "hint:"}},
		"no date":                {[]string{"dags", "test", "hello", "yesterday"}, []string{`"yesterday" is no date`, "hint:"}},
		"unknown run state":      {[]string{"dags", "list-runs", "hello", "--state", "done"}, []string{"queued, running, success or failed"}},
		"unknown error class":    {[]string{"dlq", "list", "--error-class", "fatal"}, []string{"crash_loop"}},
		"unknown status":         {[]string{"dlq", "stats", "--status", "open"}, []string{"sealed"}},
		"database without form":  {[]string{"dags", "list", "--database", "airlock.db"}, []string{"--database", "sqlite:///path"}},
		"unknown level":          {[]string{"dags", "list", "--log-level", "loud"}, []string{"--log-level", "debug, info, warn, error"}},
		"validate nothing":       {[]string{"dags", "validate", "nowhere.yml"}, []string{"nowhere.yml"}},
		"clear without a run":    {[]string{"tasks", "clear", "hello"}, []string{"--run-id"}},
		"two forms":              {[]string{"connections", "add", "c", "--conn-uri", "a://", "--conn-type", "b"}, []string{"can't be used together"}},
		"no form":                {[]string{"connections", "add", "c"}, []string{"--conn-uri"}},
		"negative slots":         {[]string{"pools", "set", "p", "--", "-2"}, nil},
		"nothing to classify":    {[]string{"classify"}, []string{"--exit-code"}},
		"too many next runs":     {[]string{"dags", "next-execution", "hello", "-n", "0"}, []string{"1 to 10000"}},
		"import of a lost file":  {[]string{"variables", "import", "lost.json"}, []string{"lost.json"}},
		"unknown file format":    {[]string{"variables", "export", "v.toml"}, []string{".toml"}},
		"env file with pools":    {[]string{"pools", "export", "p.env"}, []string{"json or yaml"}},
		"worker without a queue": {[]string{"worker", "--concurrency", "-1"}, []string{"--concurrency"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own := *h
			own.t, own.dir = t, h.dir
			own.fails(cli.ExitUsage, tc.words, tc.args...)
		})
	}
}

func TestHelpIsPrintedAndEndsWithZero(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	for _, args := range [][]string{
		{"--help"}, {"dags", "--help"}, {"dags", "validate", "--help"}, {"tasks", "clear", "--help"}, {"dlq", "list", "--help"},
		{"connections", "add", "--help"}, {"worker", "--help"}, {"classify", "--help"},
	} {
		r := h.ok(args...)
		require.Contains(t, r.stdout, "Usage: airlock")
		require.Empty(t, r.stderr)
	}
	require.NoDirExists(t, h.path("home"), "asking for help leaves nothing behind")
}

func TestVersionAndConfigNeedNoDatabase(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	require.Equal(t, "1.2.3\n", h.ok("version").stdout)
	h.env = append(h.env, "AIRLOCK__WORKER__CONCURRENCY=3", "AIRLOCK__DATABASE__DSN=mysql://me:s3cret@db/airlock")
	settings := map[any]map[string]any{}
	for _, row := range h.list("config", "list") {
		settings[row["section"].(string)+"."+row["key"].(string)] = row
	}
	require.Equal(t, "3", settings["worker.concurrency"]["value"])
	require.Equal(t, "AIRLOCK__WORKER__CONCURRENCY", settings["worker.concurrency"]["source"])
	require.Equal(t, "flag", settings["core.dags_folder"]["source"])
	out := h.ok("config", "list").stdout
	require.Contains(t, out, "mysql://me:***@db/airlock")
	require.NotContains(t, out, "s3cret")
	require.NoDirExists(t, h.path("home"))
}

func TestMigrateCheckAndInfo(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	require.Equal(t, cli.ExitFailed, h.run("db", "migrate", "--check").code, "an empty database has no schema")
	info := h.show("info")
	require.Equal(t, "1.2.3", info["version"])
	require.Zero(t, info["schema_version"])
	require.Contains(t, h.ok("info").stdout, "airlock db migrate")
	require.NotEmpty(t, info["ffmpeg"])
	require.NotContains(t, info, "encoders")

	require.Contains(t, h.ok("db", "migrate").stdout, "schema version 0 -> ")
	require.Contains(t, h.ok("db", "migrate").stdout, "nothing to do")
	h.ok("db", "migrate", "--check")
	info = h.show("info")
	require.Equal(t, info["schema_version_wanted"], info["schema_version"])
	require.Contains(t, h.ok("db", "check").stdout, "every promise holds")
	require.Empty(t, h.list("db", "check"))
}

func TestClassify(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{
		"dags/rules.yml": `
rules:
  schedule: null
  default_args: {start_date: 2026-01-01}
  tasks:
    fetch: {operator: bash, bash_command: "true", fail_on: [{exit_code: 3, error_code: BAD_CONFIG}]}
`,
		"stderr.txt": "curl: (56) connection reset by peer\n",
	})
	for name, tc := range map[string]struct {
		args        []string
		class, code string
		retried     bool
	}{
		"EX_TEMPFAIL":   {[]string{"--exit-code", "75"}, "transient", "TEMPORARY_FAILURE", true},
		"EX_DATAERR":    {[]string{"--exit-code", "65"}, "permanent", "DATA_ERROR", false},
		"unknown":       {[]string{"--exit-code", "42", "--stderr-file", "stderr.txt"}, "transient", "EXIT_CODE", true},
		"signal":        {[]string{"--signal", "KILL"}, "transient", "KILLED_SIGNAL", true},
		"throttled":     {[]string{"--http", "429", "--retry-after", "30"}, "transient", "HTTP_429", true},
		"not allowed":   {[]string{"--http", "403"}, "configuration", "HTTP_403", false},
		"a step's rule": {[]string{"--exit-code", "3", "--dag", "rules", "--task", "fetch"}, "permanent", "BAD_CONFIG", false},
		"deadlock":      {[]string{"--mysql", "1213"}, "transient", "MYSQL_1213", true},
		"duplicate key": {[]string{"--mariadb", "1062"}, "permanent", "MYSQL_1062", false},
		"busy":          {[]string{"--sqlite", "5"}, "transient", "SQLITE_5", true},
		"its own word":  {[]string{"--exit-code", "1", "--stderr", `airlock: {"error_class": "permanent", "error_code": "DATA_ERROR"}`}, "permanent", "DATA_ERROR", false},
	} {
		t.Run(name, func(t *testing.T) {
			own := *h
			own.t = t
			got := own.show(append([]string{"classify"}, tc.args...)...)
			require.Equal(t, tc.class, got["error_class"])
			require.Equal(t, tc.code, got["error_code"])
			require.Equal(t, tc.retried, got["retried"])
			require.NotEmpty(t, got["why"])
		})
	}
	require.InDelta(t, 30, h.show("classify", "--http", "429", "--retry-after", "30")["retry_after"], 0, "seconds")
	require.Contains(t, h.ok("classify", "--exit-code", "65").stdout, "sealed at once")
	h.fails(cli.ExitFailed, []string{"did you mean fetch?"}, "classify", "--exit-code", "1", "--dag", "rules", "--task", "fetsh")
}

// TestInfoTriesEncoders: ffmpeg's own list is not believed; the software
// encoder of the tests' ffmpeg works, and says that it was the processor.
func TestInfoTriesEncoders(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	list, ok := h.show("info", "--encoders")["encoders"].([]any)
	require.True(t, ok)
	require.Contains(t, list, map[string]any{"codec": "h264", "encoder": "libx264", "device": "", "works": true})
}

// A misspelt DAGs folder is refused before anything starts. One that was there
// when the state database learnt of its DAGs is away for a while: that is tried
// in package app.
func TestAServiceWantsItsDAGsFolder(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	require.NoError(t, os.Remove(h.path("dags")))
	for _, service := range []string{"standalone", "scheduler"} {
		h.fails(cli.ExitUsage, []string{h.path("dags"), "no such file", "--dags-folder"}, service, "--metrics-address", "off")
	}
	h.write("dags", "a file")
	h.fails(cli.ExitUsage, []string{"is no folder"}, "standalone", "--metrics-address", "off")
}
