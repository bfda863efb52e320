package fault_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
)

var update = flag.Bool("update", false, "write docs/error-codes.md anew from the tables")

const classes = `# Error classes and codes

The tables of this page are generated from package ` + "`executor/fault`; `go test ./executor/fault -run TestErrorCodesPage -update`" + ` writes it anew.

Every failed attempt has an error class, which says what can be done about it, and an error code, which says what happened. Both are closed lists, so that
they can stand in rules, filters and metrics. A code of a step's own (from a rule or a control line) may be added to them.

## Classes

| class | what becomes of the task |
|---|---|
| ` + "`transient`" + ` | tried again after the retry delay, while its budget lasts |
| ` + "`permanent`" + ` | sealed as a dead letter at once: trying again would not help |
| ` + "`poison`" + ` | sealed at once: this payload or row can never succeed |
| ` + "`configuration`" + ` | sealed at once, with a hint: somebody has to change a file, a setting or the machine |
| ` + "`capability`" + ` | sealed at once, with a hint, or put off where the step says so: the machine lacks something |
| ` + "`exhausted`" + ` | given at sealing: transient, and the failures budget is used up |
| ` + "`crash_loop`" + ` | given at sealing: the crash budget is used up |

## Budgets

| budget | limit | what spends it |
|---|---|---|
| failures | ` + "`retries`" + ` | an attempt that failed and could say why |
| crashes | ` + "`max_crashes`, 3" + ` | the worker or its child died and nobody can say why |
| throttling | ` + "`max_throttle_time`, 1 h" + ` | a server that said when to come back; no attempt is spent |

## How a failure is classified

The first of these that applies decides:

1. What Airlock did itself: time limit, lost lease, shutdown, clear. What the process says then does not count.
2. A signal that ended the process and that Airlock did not send: ` + "`KILLED_SIGNAL`, or `OOM_KILLED`" + ` when the kernel's record of the worker's cgroup says so.
3. The step's own word: a **control line**, see below.
4. The table of the program that the step runs (ffmpeg, for one).
5. The HTTP status or the number of the database error.
6. The conventions for exit codes.
7. Otherwise it is transient.

The step's own ` + "`fail_on` and `retry_on`" + ` rules are then asked about the result, unless the step spoke for itself. ` + "`airlock classify`" + ` shows these steps for a case.

### Rules of a step

` + "```yaml" + `
report:
  operator: bash
  bash_command: ./report.sh --day {{ ds }}
  retry_on: [{exit_code: [1, 2]}, {stderr: "(?i)connection reset"}, {code: "HTTP_5*"}]
  fail_on:  [{exit_code: 3, error_code: BAD_CONFIG}]
` + "```" + `

| key | what must hold |
|---|---|
| ` + "`exit_code`" + ` | the process exited with this code, or one of the list |
| ` + "`code`" + ` | the error code is this, or one of the list; a star at the end stands for any ending |
| ` + "`stderr`" + ` | this regular expression (Go's syntax) matches the last 64 KiB of stderr |
| ` + "`error_code`" + ` | no condition: the code that the failure gets |

All conditions of an entry must hold. ` + "`fail_on`" + ` is asked first; the first entry that matches decides. ` + "`fail_on`" + ` makes a failure permanent,
` + "`retry_on`" + ` makes it transient. What Airlock ended itself, and what a signal ended, is matched by its code only.

### The control line

A command can say what its failure is. The last line of its stderr that is not empty must be:

` + "```" + `
airlock: {"error_class": "transient", "error_code": "QUOTA", "retry_after": 30, "message": "out of quota"}
` + "```" + `

| key | meaning |
|---|---|
| ` + "`error_class`" + ` | transient, permanent, poison, configuration or capability; the code's own class when not given |
| ` + "`error_code`" + ` | capital letters, digits and underscores, at most 64; ` + "`EXIT_CODE`" + ` when not given |
| ` + "`retry_after`" + ` | seconds, at most 3600: waits that long and spends the throttling budget |
| ` + "`message`, `hint`" + ` | what happened and what to do about it, for people |

A line that cannot be read is passed over, and ` + "`airlock classify`" + ` says why.
`

func errorCodesPage() string {
	var b strings.Builder
	b.WriteString(classes)
	b.WriteString("\n### Exit codes\n\nExit code 99 is no failure: a bash step with it is skipped (`skip_on_exit_code`).\n\n")
	b.WriteString("| exit code | code | class | meaning |\n|---|---|---|---|\n")
	for _, r := range fault.ExitTable() {
		c, _ := fault.Lookup(r.Code)
		fmt.Fprintf(&b, "| %d | `%s` | %s | %s |\n", r.Exit, r.Code, c.Class, r.Meaning)
	}
	b.WriteString("| other | `EXIT_CODE` | transient | no meaning of its own |\n")
	b.WriteString("\n## Codes\n\n| code | class | budget | meaning | what to do |\n|---|---|---|---|---|\n")
	for _, c := range fault.Codes() {
		budget := c.Budget
		if budget == "" {
			budget = dag.BudgetFailures
		}
		if c.Class != dag.ClassTransient {
			budget = ""
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", c.Code, c.Class, budget, c.Meaning, c.Hint)
	}
	b.WriteString("\n## HTTP statuses\n\nStatus 429, and 503 with a `Retry-After` (seconds or a date, at most one hour), spend the throttling budget.\n\n")
	b.WriteString("| status | code | class | meaning |\n|---|---|---|---|\n")
	for _, r := range fault.HTTPTable() {
		status := "other"
		if r.Status != 0 {
			status = fmt.Sprint(r.Status)
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", status, r.Code, r.Class, r.Meaning)
	}
	b.WriteString("\n## Families\n\nThese beginnings belong to codes that the pages of their operators list.\n\n| beginning | codes of |\n|---|---|\n")
	for _, f := range fault.Families() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", f.Code, f.Meaning)
	}
	return b.String()
}

func TestErrorCodesPage(t *testing.T) {
	t.Parallel()
	page := filepath.Join("..", "..", "docs", "error-codes.md")
	want := errorCodesPage()
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o644))
	}
	got, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, want, string(got), "run: go test ./executor/fault -run TestErrorCodesPage -update")
}
