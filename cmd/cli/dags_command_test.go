package cli_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	"github.com/airlock-dag/airlock/cmd/cli"
	"github.com/airlock-dag/airlock/dag/dagtest"
)

func TestValidateReportsEveryMistakeWithItsPlace(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"dags/hello.yml": hello, "dags/sub/broken.yml": broken})

	r := h.run("dags", "validate")
	require.Equal(t, cli.ExitFailed, r.code)
	require.Contains(t, r.stdout, "dags/sub/broken.yml:3:")
	require.Contains(t, r.stdout, "dags/sub/broken.yml:6:")
	require.Contains(t, r.stdout, "bash_command", "the right key is named")
	require.Contains(t, r.stdout, "1 DAG, ")
	require.Empty(t, r.stderr)

	var problems []map[string]any
	r = h.run("dags", "validate", "dags/sub", "-o", "json")
	require.Equal(t, cli.ExitFailed, r.code)
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &problems))
	require.GreaterOrEqual(t, len(problems), 2)
	for _, p := range problems {
		require.Equal(t, "dags/sub/broken.yml", p["file"])
		require.NotZero(t, p["line"])
		require.NotEmpty(t, p["message"])
	}

	require.Contains(t, h.ok("dags", "validate", "dags/hello.yml").stdout, "1 DAG, 0 errors, ")
	h.write("elsewhere/other.yml", strings.ReplaceAll(hello, "hello:", "other:"))
	require.Contains(t, h.ok("dags", "validate", h.path("elsewhere/other.yml"), "dags/hello.yml").stdout, "2 DAGs, 0 errors, ")
	require.NoDirExists(t, h.path("home"), "validation needs no database")
}

func TestListShowAndNextExecution(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"dags/hello.yml": hello, "dags/doomed.yml": doomed, "dags/broken.yml": broken})
	h.clock = dagtest.NewClock(time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC))

	require.Equal(t, []any{"doomed", "hello"}, column(h.list("dags", "list"), "dag_id"))
	r := h.ok("dags", "list")
	require.Contains(t, r.stdout, "0 2 * * *")
	require.Contains(t, r.stderr, "1 file has mistakes")
	require.Contains(t, h.ok("dags", "list", "-o", "plain").stdout, "hello\thello.yml\tops\t0 2 * * *\ttrue\t")

	r = h.run("dags", "test", "nothing")
	require.Equal(t, cli.ExitFailed, r.code)
	require.Contains(t, r.stderr, "`airlock dags validate` shows those of broken.yml", "a file that cannot be read may be the one that is meant")

	for i := range 6 {
		h.write(fmt.Sprintf("dags/z%d.yml", i), broken)
	}
	r = h.run("dags", "test", "nothing")
	require.Contains(t, r.stderr, "broken.yml, z0.yml, z1.yml, z2.yml, z3.yml and 2 more files")

	shown := h.show("dags", "show", "hello")
	require.Equal(t, "hello", shown["dag_id"])
	require.Len(t, shown["tasks"], 3)
	text := h.ok("dags", "show", "hello").stdout
	require.Contains(t, text, "says hello")
	require.Contains(t, text, "greet")
	var tree map[string]any
	require.NoError(t, yaml.Load([]byte(h.ok("dags", "show", "hello", "-o", "yaml").stdout), &tree))
	require.Equal(t, "hello", tree["dag_id"])

	// Catch-up begins at the start date: the first ticks at 02:00 are those of
	// the 1st and the 2nd of January.
	next := h.list("dags", "next-execution", "hello", "-n", "2")
	require.Equal(t, []any{"2026-01-01T02:00:00Z", "2026-01-02T02:00:00Z"}, column(next, "logical_date"))
	require.Equal(t, "scheduled__2026-01-01T02:00:00+00:00", next[0]["run_id"])
	require.Empty(t, h.list("dags", "next-execution", "doomed"), "no schedule, no next run")

	require.Equal(t, []any{"greet", "count", "last"}, column(h.list("tasks", "list", "hello"), "task_id"))
	h.fails(cli.ExitFailed, []string{"there is none of this name", "did you mean hello?"}, "dags", "show", "helo")
	h.fails(cli.ExitFailed, []string{"broken.yml has mistakes", "airlock dags validate"}, "dags", "show", "broken")
	h.fails(cli.ExitFailed, []string{"airlock dags list"}, "tasks", "list", "something_else")
}

func TestPauseTriggerAndListRuns(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"dags/hello.yml": hello})

	require.Empty(t, h.list("dags", "list-runs", "hello"))
	require.Equal(t, "hello is unpaused now\n", h.ok("dags", "unpause", "hello").stdout)
	require.Equal(t, "hello was unpaused already\n", h.ok("dags", "unpause", "hello").stdout)
	require.Equal(t, false, h.list("dags", "list")[0]["is_paused"])
	require.Equal(t, "hello is paused now\n", h.ok("dags", "pause", "hello").stdout)
	h.fails(cli.ExitFailed, []string{"did you mean hello?"}, "dags", "pause", "hallo")

	r := h.ok("dags", "trigger", "hello", "-c", `{"episode": 7}`, "-e", "2026-02-03", "--note", "by hand", "-o", "json")
	require.Contains(t, r.stderr, "airlock dags unpause hello")
	runs := h.list("dags", "list-runs", "hello")
	require.Len(t, runs, 1)
	runID := runs[0]["run_id"].(string)
	require.True(t, strings.HasPrefix(runID, "manual__"), runID)
	require.Equal(t, "queued", runs[0]["state"])
	require.Equal(t, map[string]any{"episode": 7.0}, runs[0]["conf"])
	require.Equal(t, "2026-02-03T00:00:00Z", runs[0]["logical_date"])
	h.fails(cli.ExitFailed, []string{"--run-id"}, "dags", "trigger", "hello", "-e", "2026-02-03")

	h.ok("dags", "trigger", "hello", "-r", "mine")
	require.Len(t, h.list("dags", "list-runs", "hello", "--state", "queued"), 2)
	require.Len(t, h.list("dags", "list-runs", "hello", "--limit", "1"), 1)
	require.Empty(t, h.list("dags", "list-runs", "hello", "--state", "failed"))

	// A run is found by its id or by its logical date.
	for _, run := range []string{runID, "2026-02-03"} {
		instances := h.list("tasks", "states-for-dag-run", "hello", run)
		require.ElementsMatch(t, []any{"greet", "count", "last"}, column(instances, "task_id"))
		require.Equal(t, []any{"none", "none", "none"}, column(instances, "state"))
	}
	h.fails(cli.ExitFailed, []string{"did you mean mine?"}, "tasks", "states-for-dag-run", "hello", "mien")
	h.fails(cli.ExitFailed, []string{"airlock dags list"}, "tasks", "states-for-dag-run", "nothing", "x")
}

func TestARunFromBeginningToEnd(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"dags/hello.yml": hello})
	report := h.show("dags", "test", "hello", "2026-02-03")
	require.Equal(t, "success", report["run"].(map[string]any)["state"])

	r := h.ok("dags", "test", "hello", "2026-02-04")
	require.Contains(t, r.stdout, "success")
	states := h.list("tasks", "states-for-dag-run", "hello", "2026-02-04")
	require.Equal(t, []any{"success", "success", "success"}, column(states, "state"))
	require.Contains(t, h.ok("tasks", "logs", "hello", "2026-02-04", "greet").stdout, "hello, 2026-02-04")
	require.Contains(t, h.ok("tasks", "logs", "hello", "2026-02-04", "count", "--try", "1").stdout, "17 letters", `"hello, 2026-02-04" has 17`)
	h.fails(cli.ExitFailed, []string{"log of"}, "tasks", "logs", "hello", "2026-02-04", "count", "--try", "9")
	h.fails(cli.ExitFailed, []string{"did you mean greet?"}, "tasks", "logs", "hello", "2026-02-04", "gret")
	h.ok("db", "check")
}

// A date can be tested as often as one likes, each time with the file as it is.
func TestADateIsTestedAfresh(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"dags/doomed.yml": doomed})
	require.Equal(t, cli.ExitFailed, h.run("dags", "test", "doomed", "2026-02-03").code)
	require.Len(t, h.list("dlq", "list"), 1)
	h.write("dags/doomed.yml", strings.ReplaceAll(doomed, "exit 65", "echo mended"))
	h.ok("dags", "test", "doomed", "2026-02-03")
	h.ok("dags", "test", "doomed", "2026-02-03")
	require.Equal(t, "resolved", h.show("dlq", "show", "1")["status"])
	runs := h.list("dags", "list-runs", "doomed")
	require.Equal(t, []any{"success", "success", "failed"}, column(runs, "state"))
	dates := column(runs, "logical_date")
	require.Contains(t, dates[0], "2026-02-03")
	require.Equal(t, []any{nil, nil}, dates[1:])
	require.Contains(t, h.ok("tasks", "logs", "doomed", "2026-02-03", "read").stdout, "mended")
	h.ok("db", "check")
}

func TestAFailedRunIsSealedShownAndCleared(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"dags/doomed.yml": doomed})
	r := h.run("dags", "test", "doomed", "2026-02-03")
	require.Equal(t, cli.ExitFailed, r.code)
	require.Contains(t, r.stdout, "DATA_ERROR")

	letters := h.list("dlq", "list")
	require.Len(t, letters, 1)
	require.Equal(t, "permanent", letters[0]["error_class"])
	require.Equal(t, "DATA_ERROR", letters[0]["error_code"])
	require.InDelta(t, 1, letters[0]["attempt_count"], 0, "a permanent error is not retried")
	require.Equal(t, "sealed", letters[0]["status"])
	require.Empty(t, h.list("dlq", "list", "--dag", "other"))
	require.Len(t, h.list("dlq", "list", "--error-code", "DATA_ERROR", "--since", "1h"), 1)
	require.Contains(t, h.ok("dlq", "list").stdout, "doomed")

	letter := h.show("dlq", "show", "1")
	require.Equal(t, "doomed", letter["dag_id"])
	require.Equal(t, "read", letter["task_id"])
	require.Contains(t, h.ok("dlq", "show", "1").stdout, "this input is wrong")
	stats := h.list("dlq", "stats")
	require.Len(t, stats, 1)
	require.InDelta(t, 1, stats[0]["count"], 0)
	h.fails(cli.ExitFailed, []string{"airlock dlq list"}, "dlq", "show", "99")

	// Nobody is there to answer, so it must be said with --yes.
	h.fails(cli.ExitUsage, []string{"--yes"}, "tasks", "clear", "doomed", "-r", "2026-02-03", "-t", "read")
	would := h.list("tasks", "clear", "doomed", "-r", "2026-02-03", "-t", "read", "-d", "--dry-run")
	require.ElementsMatch(t, []any{"after", "read"}, column(would, "task_id"))
	require.Len(t, h.list("tasks", "clear", "doomed", "-s", "2026-02-01", "-e", "2026-02-28", "-f", "-t", "^read$", "-y"), 1)
	states := map[any]any{}
	for _, row := range h.list("tasks", "states-for-dag-run", "doomed", "2026-02-03") {
		states[row["task_id"]] = row["state"]
	}
	require.Equal(t, "none", states["read"])
	require.Equal(t, "resolved", h.show("dlq", "show", "1")["status"])
	h.ok("db", "check")
}

func TestTryingOneTaskRecordsNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"dags/hello.yml": hello, "dags/doomed.yml": doomed})
	r := h.ok("tasks", "test", "hello", "greet", "2026-02-03")
	require.Contains(t, r.stdout, "hello, 2026-02-03")
	require.Contains(t, r.stdout, "success")
	require.Equal(t, "hello, 2026-02-03", h.show("tasks", "test", "hello", "greet", "2026-02-03")["return_value"])

	h.fails(cli.ExitFailed, []string{"would be failed"}, "tasks", "test", "doomed", "read")
	h.fails(cli.ExitFailed, []string{"did you mean read?"}, "tasks", "test", "doomed", "raed")
	require.Empty(t, h.list("dlq", "list"))
	require.Empty(t, h.list("dags", "list-runs", "hello"))
}

func TestRetrySchedule(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"dags/hello.yml": hello, "dags/doomed.yml": doomed})
	h.clock = dagtest.NewClock(time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC))
	// retry_delay 30s without back-off: each retry waits 30 s.
	plan := h.list("tasks", "retry-schedule", "hello", "greet", "--failed-at", "2026-01-01T00:00:00Z")
	require.Equal(t, []any{30.0, 30.0}, column(plan, "max_delay"))
	require.Equal(t, []any{"2026-01-01T00:00:30Z", "2026-01-01T00:01:00Z"}, column(plan, "due"))
	require.Contains(t, h.ok("tasks", "retry-schedule", "hello", "greet").stdout, "30s")
	require.Contains(t, h.ok("tasks", "retry-schedule", "doomed", "after").stderr, "no retries")
	h.fails(cli.ExitFailed, []string{"did you mean greet?"}, "tasks", "retry-schedule", "hello", "great")
}

func TestATestTellsOfCallbacksThatReachedNobody(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"dags/d.yml": `
d:
  schedule: null
  on_success_callback: {callback: slack, slack_conn_id: nope, text: x}
  tasks:
    a:
      operator: bash
      bash_command: "true"
      on_success_callback: [{callback: webhook, url: "http://127.0.0.1:1/x"}, {callback: command, command: "true"}]
`})
	out := h.ok("dags", "test", "d")
	said := out.stdout + out.stderr
	require.Contains(t, said, "a: webhook: callback not delivered; it will be tried again: ")
	require.Contains(t, said, "run: slack: callback given up; it is kept as dead: the connection \"nope\" does not exist")
	require.NotContains(t, said, "command:", "what arrived is not told")
}
