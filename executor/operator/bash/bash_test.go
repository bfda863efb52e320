package bash_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/proc"
	"github.com/airlock-dag/airlock/executor/operator"
	"github.com/airlock-dag/airlock/executor/operator/bash"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
)

func run(t *testing.T, args map[string]any) (dag.Outcome, *operatortest.Fixture) {
	t.Helper()
	f := operatortest.New(t, args)
	return bash.New().Run(t.Context(), f.Task), f
}

func TestCommandSucceeds(t *testing.T) {
	t.Parallel()
	out, f := run(t, map[string]any{"bash_command": "echo first; echo warning >&2; echo 'last  '"})
	require.Equal(t, dag.Success("last"), out)
	require.Contains(t, f.Output.String(), "first\n")
	require.Contains(t, f.Output.String(), "warning\n")

	out, _ = run(t, map[string]any{"bash_command": "true"})
	require.Equal(t, dag.Success(""), out)
}

func TestCommandRunsInItsOwnFolder(t *testing.T) {
	t.Parallel()
	out, f := run(t, map[string]any{"bash_command": "pwd -P"})
	scratch, err := filepath.EvalSymlinks(f.ScratchDir)
	require.NoError(t, err)
	require.Equal(t, scratch, out.ReturnValue)

	f = operatortest.New(t, map[string]any{"bash_command": "pwd -P", "cwd": "sub"})
	sub := filepath.Join(f.Dir, "sub")
	require.NoError(t, os.Mkdir(sub, 0o755))
	sub, err = filepath.EvalSymlinks(sub)
	require.NoError(t, err)
	require.Equal(t, sub, bash.New().Run(t.Context(), f.Task).ReturnValue)

	out, _ = run(t, map[string]any{"bash_command": "pwd", "cwd": "/no/such/folder"})
	require.Equal(t, dag.ClassConfiguration, out.Err.Class)
	require.Equal(t, "FILE_NOT_FOUND", out.Err.Code)
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	f := operatortest.New(t, map[string]any{
		"bash_command": `echo "$A|$N|$B|$L|$E|$HOME|$AIRFLOW_CTX_DAG_ID|$AIRFLOW_CTX_TASK_ID|$AIRFLOW_CTX_DAG_RUN_ID|$AIRFLOW_CTX_TRY_NUMBER|$AIRFLOW_CTX_LOGICAL_DATE|$AIRLOCK_MAP_INDEX|$AIRLOCK_ATTEMPT"`,
		"env":          map[string]any{"A": "x y", "N": json.Number("12345678901234567890"), "B": true, "L": []any{"a"}, "E": nil},
	})
	out := bash.New().Run(t.Context(), f.Task)
	require.Equal(t, `x y|12345678901234567890|true|["a"]|||demo|work|scheduled__2026-03-01T02:00:00+00:00|1|2026-03-01T02:00:00+00:00|-1|`+f.Marker, out.ReturnValue)

	out, _ = run(t, map[string]any{"bash_command": `echo "$A|${PATH:+path}"`, "append_env": true, "env": map[string]any{"A": "1"}})
	require.Equal(t, "1|path", out.ReturnValue)
	out, _ = run(t, map[string]any{"bash_command": `echo "${HOME:-none}"`, "env": map[string]any{}})
	require.Equal(t, "none", out.ReturnValue)
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args  map[string]any
		kind  dag.OutcomeKind
		class dag.ErrorClass
		code  string
	}{
		"failure":         {map[string]any{"bash_command": "echo no >&2; exit 1"}, dag.OutcomeFailed, dag.ClassTransient, "EXIT_CODE"},
		"skipped":         {map[string]any{"bash_command": "exit 99"}, dag.OutcomeSkipped, "", "EXIT_CODE"},
		"no skip code":    {map[string]any{"bash_command": "exit 99", "skip_on_exit_code": nil}, dag.OutcomeFailed, dag.ClassTransient, "EXIT_CODE"},
		"own skip code":   {map[string]any{"bash_command": "exit 7", "skip_on_exit_code": 7.0}, dag.OutcomeSkipped, "", "EXIT_CODE"},
		"own skip codes":  {map[string]any{"bash_command": "exit 8", "skip_on_exit_code": []any{7.0, json.Number("8")}}, dag.OutcomeSkipped, "", "EXIT_CODE"},
		"tempfail":        {map[string]any{"bash_command": "exit 75"}, dag.OutcomeFailed, dag.ClassTransient, "TEMPORARY_FAILURE"},
		"dataerr":         {map[string]any{"bash_command": "exit 65"}, dag.OutcomeFailed, dag.ClassPermanent, "DATA_ERROR"},
		"no such command": {map[string]any{"bash_command": "no-such-command-here"}, dag.OutcomeFailed, dag.ClassConfiguration, "COMMAND_NOT_FOUND"},
		"control line": {map[string]any{"bash_command": `echo 'airlock: {"error_class": "poison", "error_code": "BAD_ROW"}' >&2; exit 1`},
			dag.OutcomeFailed, dag.ClassPoison, "BAD_ROW"},
		"syntax error":   {map[string]any{"bash_command": "if"}, dag.OutcomeFailed, dag.ClassTransient, "EXIT_CODE"},
		"bad skip code":  {map[string]any{"bash_command": "true", "skip_on_exit_code": "often"}, dag.OutcomeFailed, dag.ClassConfiguration, "INVALID_ARGUMENT"},
		"not text":       {map[string]any{"bash_command": []any{"true"}}, dag.OutcomeFailed, dag.ClassConfiguration, "INVALID_ARGUMENT"},
		"no command":     {map[string]any{}, dag.OutcomeFailed, dag.ClassConfiguration, "INVALID_ARGUMENT"},
		"NUL in command": {map[string]any{"bash_command": "echo a\x00b"}, dag.OutcomeFailed, dag.ClassConfiguration, "INVALID_ARGUMENT"},
		"env is a list":  {map[string]any{"bash_command": "true", "env": []any{"A=1"}}, dag.OutcomeFailed, dag.ClassConfiguration, "INVALID_ARGUMENT"},
		"env has a NUL":  {map[string]any{"bash_command": "true", "env": map[string]any{"A": "\x00"}}, dag.OutcomeFailed, dag.ClassConfiguration, "INVALID_ARGUMENT"},
		"env has a =":    {map[string]any{"bash_command": "true", "env": map[string]any{"A=B": "1"}}, dag.OutcomeFailed, dag.ClassConfiguration, "INVALID_ARGUMENT"},
		"killed itself":  {map[string]any{"bash_command": "kill -9 $$"}, dag.OutcomeFailed, dag.ClassTransient, "KILLED_SIGNAL"},
		"killed child":   {map[string]any{"bash_command": "(kill -9 $BASHPID); exit $?"}, dag.OutcomeFailed, dag.ClassTransient, "KILLED_SIGNAL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, _ := run(t, tc.args)
			require.Equal(t, tc.kind, out.Kind)
			require.Equal(t, tc.class, out.Err.Class)
			require.Equal(t, tc.code, out.Err.Code)
			if tc.code == "KILLED_SIGNAL" {
				require.Equal(t, dag.BudgetCrashes, out.Err.Budget)
			}
		})
	}
}

func TestStepRulesHold(t *testing.T) {
	t.Parallel()
	f := operatortest.New(t, map[string]any{"bash_command": "echo Connection RESET by peer >&2; exit 65"})
	f.Def.RetryOn = []dag.ErrorRule{{Stderr: "(?i)connection reset"}}
	require.Equal(t, dag.ClassTransient, bash.New().Run(t.Context(), f.Task).Err.Class)
}

func TestScripts(t *testing.T) {
	t.Parallel()
	f := operatortest.New(t, map[string]any{"bash_command": "jobs/run.sh"})
	require.NoError(t, os.Mkdir(filepath.Join(f.Dir, "jobs"), 0o755))
	file := filepath.Join(f.Dir, "jobs", "run.sh")
	require.NoError(t, os.WriteFile(file, []byte("echo from the file; exit 4"), 0o644))
	out := bash.New().Run(t.Context(), f.Task)
	require.Equal(t, 4, *out.Err.ExitCode)
	require.Contains(t, f.Output.String(), "from the file\n")

	f.Args["bash_command"] = file
	f.Task.Render = func(text string) (string, error) { return strings.ReplaceAll(text, "exit 4", "exit 5"), nil }
	require.Equal(t, 5, *bash.New().Run(t.Context(), f.Task).Err.ExitCode)

	f.Task.Render = func(string) (string, error) { return "", errors.New("undefined name") }
	require.Equal(t, "TEMPLATE_ERROR", bash.New().Run(t.Context(), f.Task).Err.Code)

	f.Args["bash_command"] = "gone.sh"
	out = bash.New().Run(t.Context(), f.Task)
	require.Equal(t, "FILE_NOT_FOUND", out.Err.Code)
	require.Equal(t, dag.ClassConfiguration, out.Err.Class)

	pipe := filepath.Join(f.Dir, "pipe.sh")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	f.Args["bash_command"] = "pipe.sh"
	out = bash.New().Run(t.Context(), f.Task)
	require.Equal(t, "FILE_NOT_FOUND", out.Err.Code)
	require.Equal(t, "bash_command: open "+pipe+": not a regular file but a named pipe", out.Err.Message)

	f.Args["bash_command"] = "gone.sh " // with a space it is a command
	require.Equal(t, "COMMAND_NOT_FOUND", bash.New().Run(t.Context(), f.Task).Err.Code)
}

func TestAVeryLongCommandRuns(t *testing.T) {
	t.Parallel()
	out, _ := run(t, map[string]any{"bash_command": "x='" + strings.Repeat("y", 1<<20) + "'; echo ${#x}"})
	require.Equal(t, dag.Success(strconv.Itoa(1<<20)), out)
}

// longOutput prints one line of 200 KB, then five short ones.
const longOutput = `head -c 200000 /dev/zero | tr '\0' 'y'; echo; for i in 1 2 3 4 5; do echo "line $i"; done`

func TestAVeryLongLineDoesNotStopTheStep(t *testing.T) {
	t.Parallel()
	out, f := run(t, map[string]any{"bash_command": longOutput})
	require.Equal(t, dag.Success("line 5"), out)
	text := f.Output.String()
	require.Contains(t, text, fmt.Sprintf("[... %d bytes left out ...]\nline 1\nline 2\nline 3\nline 4\nline 5\n", 200000-proc.DefaultLineLimit))
	require.Less(t, len(text), 100_000)
}

func TestALastLineThatIsTooLongIsNotKept(t *testing.T) {
	t.Parallel()
	out, f := run(t, map[string]any{"bash_command": `head -c 1100000 /dev/zero | tr '\0' 'y'`})
	require.Equal(t, dag.Success(nil), out)
	require.Contains(t, f.Output.String(), "is not kept as XCom")
}

func TestOddBytesInTheOutput(t *testing.T) {
	t.Parallel()
	out, f := run(t, map[string]any{"bash_command": `printf 'a\0b\n\377\376 \303\251\r\n'`})
	require.Equal(t, dag.Success("\uFFFD é"), out)
	require.Contains(t, f.Output.String(), "a\u2400b\n\uFFFD é\n")
}

func TestManyLines(t *testing.T) {
	t.Parallel()
	out, f := run(t, map[string]any{"bash_command": "seq 1 100000"})
	require.Equal(t, dag.Success("100000"), out)
	require.Equal(t, 100000, strings.Count(f.Output.String(), "\n"))
}

func pidFrom(t *testing.T, file string) int {
	t.Helper()
	var pid int
	require.Eventually(t, func() bool {
		b, err := os.ReadFile(file)
		if err != nil || !bytes.HasSuffix(b, []byte("\n")) {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(b)))
		return err == nil
	}, 20*time.Second, 5*time.Millisecond)
	return pid
}

// alive tells whether a process runs, and is more than a status that nobody
// has collected.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.HasPrefix(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " Z")
}

// A time limit ends the command and everything that it started.
func TestATimeLimitLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"background child": `sleep 300 & echo $! > "$PIDFILE"; sleep 300; echo done`,
		"new session":      `setsid sleep 300 & echo $! > "$PIDFILE"; sleep 300`,
		"daemon":           `setsid bash -c 'setsid sleep 300 & echo $! > "$PIDFILE"'; sleep 300`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "pid")
			f := operatortest.New(t, map[string]any{
				"bash_command": script, "env": map[string]any{"PIDFILE": file}, "append_env": true,
			})
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				pidFrom(t, file)
				cancel(operator.ErrTimeout)
			}()
			out := bash.New().Run(ctx, f.Task)
			require.Equal(t, dag.OutcomeFailed, out.Kind)
			require.Equal(t, "TIMEOUT", out.Err.Code)
			require.Equal(t, dag.ClassTransient, out.Err.Class)
			left, err := proc.Leftovers(f.Marker)
			require.NoError(t, err)
			require.Empty(t, left)
			require.False(t, alive(pidFrom(t, file)))
		})
	}
}

// A step killed from outside says by which signal, and spends the crash budget.
func TestAChildKilledFromOutside(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	f := operatortest.New(t, map[string]any{
		"bash_command": `echo $$ > "$PIDFILE"; exec sleep 60`, "env": map[string]any{"PIDFILE": file}, "append_env": true,
	})
	go func() { _ = syscall.Kill(pidFrom(t, file), syscall.SIGKILL) }()
	out := bash.New().Run(t.Context(), f.Task)
	require.Equal(t, dag.OutcomeFailed, out.Kind)
	require.Equal(t, "killed by signal 9 (SIGKILL)", out.Err.Message)
	require.Equal(t, dag.BudgetCrashes, out.Err.Budget)
	require.Equal(t, dag.ClassTransient, out.Err.Class)
}

func TestAHostShortOfMemory(t *testing.T) {
	t.Parallel()
	out, _ := run(t, map[string]any{"bash_command": `ulimit -v 100000; x=$(head -c 300000000 /dev/zero | tr '\0' 'y'); echo ${#x}`})
	require.Equal(t, dag.OutcomeFailed, out.Kind)
	require.Equal(t, dag.ClassTransient, out.Err.Class)
}

func TestSpec(t *testing.T) {
	t.Parallel()
	s := bash.New().Spec()
	require.Equal(t, "bash", s.Name)
	require.Contains(t, s.Aliases, "airflow.operators.bash.BashOperator")
	require.Empty(t, s.Validate(map[string]any{"bash_command": "x"}))
	require.Len(t, s.Validate(map[string]any{"skip_on_exit_code": "x"}), 1)
}
