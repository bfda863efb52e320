package python_test

import (
	"bytes"
	"context"
	"encoding/json"
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
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
	"github.com/airlock-dag/airlock/executor/operator/python"
)

// fixture makes an attempt that calls f in a file with the given source.
func fixture(t *testing.T, source string, args map[string]any) *operatortest.Fixture {
	t.Helper()
	all := map[string]any{"python_callable_file": "steps.py", "python_callable_name": "f"}
	for k, v := range args {
		all[k] = v
	}
	f := operatortest.New(t, all)
	require.NoError(t, os.WriteFile(filepath.Join(f.Dir, "steps.py"), []byte(source), 0o644))
	return f
}

func call(t *testing.T, source string, args map[string]any) dag.Outcome {
	t.Helper()
	return python.New().Run(t.Context(), fixture(t, source, args).Task)
}

// asJSON compares values whatever Go types hold their numbers.
func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}

func TestReturnValues(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ expr, want string }{
		"nothing": {"None", "null"}, "text": {"'ü'", `"ü"`}, "list": {"(1, 2.5, None, True)", "[1,2.5,null,true]"},
		"mapping": {"{'a': {'b': []}}", `{"a":{"b":[]}}`}, "exact integer": {"2**70", "1180591620717411303424"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := call(t, "def f():\n    return "+tc.expr, nil)
			require.Equal(t, dag.OutcomeSuccess, out.Kind, "%v", out.Err)
			require.Equal(t, tc.want, asJSON(t, out.ReturnValue))
		})
	}
}

func TestArguments(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		source string
		args   map[string]any
		want   string
	}{
		"positional and named": {"def f(a, b, c=3): return [a, b, c]",
			map[string]any{"op_args": []any{json.Number("1")}, "op_kwargs": map[string]any{"b": "x"}}, `[1,"x",3]`},
		"context by name": {"def f(ds, ts, run_id, dag_id, task_id, try_number, map_index, params): return [ds, ts, run_id, dag_id, task_id, try_number, map_index, params]",
			nil, `["2026-03-01","2026-03-01T02:00:00+00:00","scheduled__2026-03-01T02:00:00+00:00","demo","work",1,-1,{"a":3,"b":2,"c":4}]`},
		"all of the context": {"def f(**context): return sorted(k for k in context if k.startswith('ds') or k == 'templates_dict')",
			map[string]any{"templates_dict": map[string]any{"q": "x"}}, `["ds","ds_nodash","templates_dict"]`},
		"dates are dates":       {"def f(logical_date): return logical_date.year + logical_date.utcoffset().seconds", nil, `2026`},
		"op_kwargs over":        {"def f(ds): return ds", map[string]any{"op_kwargs": map[string]any{"ds": "mine"}}, `"mine"`},
		"op_args over context":  {"def f(ds, **kwargs): return [ds, 'ds' in kwargs]", map[string]any{"op_args": []any{"x"}}, `["x",false]`},
		"unknown names dropped": {"def f(a=1): return a", map[string]any{"op_kwargs": map[string]any{"b": 2.0}}, `1`},
		"objects": {"def f(dag_run, dag, task, ti): return [dag_run.conf, dag_run.run_type, dag.dag_id, task.task_id, ti.try_number]",
			nil, `[{"a":3,"c":4},"scheduled","demo","work",1]`},
		"a coroutine":  {"async def f(): return 5", nil, `5`},
		"no signature": {"f = dict", map[string]any{"op_kwargs": map[string]any{"a": true}}, `{"a":true}`},
		"positional rest": {"def f(*args): return list(args)",
			map[string]any{"op_args": []any{"a", "b"}}, `["a","b"]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fixture(t, tc.source, tc.args)
			f.Task.DAG.Params = map[string]any{"a": 1, "b": 1}
			f.Def.Params = map[string]any{"b": 2}
			f.Task.Run.Conf = json.RawMessage(`{"a": 3, "c": 4}`)
			out := python.New().Run(t.Context(), f.Task)
			require.Equal(t, dag.OutcomeSuccess, out.Kind, "%v", out.Err)
			require.Equal(t, tc.want, asJSON(t, out.ReturnValue))
		})
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		source string
		args   map[string]any
		class  dag.ErrorClass
		code   string
		text   string
	}{
		"exception": {"def f(): raise ValueError('bad value')", nil, dag.ClassTransient, "PYTHON_EXCEPTION", "ValueError: bad value"},
		"fail exception": {"from airflow.exceptions import AirflowFailException\ndef f(): raise AirflowFailException('stop')", nil,
			dag.ClassPermanent, "PYTHON_FAIL", "AirflowFailException: stop"},
		"subclass of it": {"from airflow.sdk.exceptions import AirflowFailException\nclass Mine(AirflowFailException): pass\ndef f(): raise Mine()", nil,
			dag.ClassPermanent, "PYTHON_FAIL", "Mine"},
		"says so itself": {"class E(Exception):\n    error_class = 'poison'\n    error_code = 'BAD_ASSET'\ndef f(): raise E('no film')", nil,
			dag.ClassPoison, "BAD_ASSET", "E: no film"},
		"says nonsense": {"class E(Exception):\n    error_class = 'odd'\n    retry_after = float('nan')\ndef f(): raise E()", nil,
			dag.ClassTransient, "PYTHON_EXCEPTION", "E"},
		"import error":      {"import no_such_module_here\ndef f(): pass", nil, dag.ClassConfiguration, "IMPORT_ERROR", "ModuleNotFoundError: No module named 'no_such_module_here'"},
		"syntax error":      {"def f(:\n", nil, dag.ClassConfiguration, "IMPORT_ERROR", ""},
		"no such name":      {"def g(): pass", nil, dag.ClassConfiguration, "IMPORT_ERROR", ""},
		"not callable":      {"f = 1", nil, dag.ClassConfiguration, "IMPORT_ERROR", ""},
		"no such file":      {"", map[string]any{"python_callable_file": "gone.py"}, dag.ClassConfiguration, "IMPORT_ERROR", ""},
		"a device":          {"", map[string]any{"python_callable_file": "/dev/zero"}, dag.ClassConfiguration, "INVALID_ARGUMENT", "python_callable_file: /dev/zero: not a regular file but a device"},
		"fails while read":  {"1/0", nil, dag.ClassTransient, "PYTHON_EXCEPTION", "ZeroDivisionError: division by zero"},
		"missing argument":  {"def f(a): pass", nil, dag.ClassTransient, "PYTHON_EXCEPTION", ""},
		"given twice":       {"def f(a): pass", map[string]any{"op_args": []any{"x"}, "op_kwargs": map[string]any{"a": "y"}}, dag.ClassTransient, "PYTHON_EXCEPTION", ""},
		"value is no JSON":  {"def f(): return object()", nil, dag.ClassPermanent, "XCOM_NOT_JSON", ""},
		"value is NaN":      {"def f(): return float('nan')", nil, dag.ClassPermanent, "XCOM_NOT_JSON", ""},
		"value is a circle": {"def f():\n    a = []\n    a.append(a)\n    return a", nil, dag.ClassPermanent, "XCOM_NOT_JSON", ""},
		"exit":              {"import sys\ndef f(): sys.exit(75)", nil, dag.ClassTransient, "TEMPORARY_FAILURE", ""},
		"exit with success": {"import sys\ndef f(): sys.exit(0)", nil, dag.ClassTransient, "PYTHON_EXCEPTION", ""},
		"dies":              {"import os\ndef f(): os.kill(os.getpid(), 9)", nil, dag.ClassTransient, "KILLED_SIGNAL", "killed by signal 9 (SIGKILL)"},
		"dies afterwards":   {"import atexit, os\ndef f(): atexit.register(os.kill, os.getpid(), 11)", nil, dag.ClassTransient, "KILLED_SIGNAL", ""},
		"no interpreter":    {"def f(): pass", map[string]any{"python": "no-such-python"}, dag.ClassConfiguration, "COMMAND_NOT_FOUND", ""},
		"no callable":       {"", map[string]any{"python_callable_file": "", "python_callable_name": ""}, dag.ClassConfiguration, "INVALID_ARGUMENT", ""},
		"op_args no list":   {"def f(): pass", map[string]any{"op_args": "x"}, dag.ClassConfiguration, "INVALID_ARGUMENT", ""},
		"op_kwargs no map":  {"def f(): pass", map[string]any{"op_kwargs": []any{}}, dag.ClassConfiguration, "INVALID_ARGUMENT", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := call(t, tc.source, tc.args)
			require.Equal(t, dag.OutcomeFailed, out.Kind)
			require.Equal(t, tc.code, out.Err.Code, "%v", out.Err)
			require.Equal(t, tc.class, out.Err.Class)
			if tc.text != "" {
				require.Equal(t, tc.text, out.Err.Message)
			}
		})
	}
}

func TestTracebackAndOutput(t *testing.T) {
	t.Parallel()
	f := fixture(t, "import sys\ndef f():\n    print('to stdout')\n    print('to stderr', file=sys.stderr)\n    raise KeyError('k')\n", nil)
	f.Def.FailOn = []dag.ErrorRule{{Stderr: "KeyError: 'k'", ErrorCode: "NO_KEY"}}
	out := python.New().Run(t.Context(), f.Task)
	require.Equal(t, "NO_KEY", out.Err.Code)
	require.Equal(t, dag.ClassPermanent, out.Err.Class)
	require.Contains(t, out.Err.Stack, `steps.py", line 5, in f`)
	log := f.Output.String()
	require.Contains(t, log, "to stdout\n")
	require.Contains(t, log, "to stderr\n")
	require.Contains(t, log, "KeyError: 'k'\n")
}

func TestSkip(t *testing.T) {
	t.Parallel()
	out := call(t, "from airflow.exceptions import AirflowSkipException\ndef f(): raise AirflowSkipException('nothing new')", nil)
	require.Equal(t, dag.OutcomeSkipped, out.Kind)
	require.Equal(t, "AirflowSkipException: nothing new", out.Err.Message)
}

func TestRetryAfterOfAnException(t *testing.T) {
	t.Parallel()
	out := call(t, "class Busy(Exception):\n    retry_after = 30\ndef f(): raise Busy('later')", nil)
	require.Equal(t, 30*time.Second, out.Err.RetryAfter)
	require.Equal(t, dag.BudgetThrottling, out.Err.Budget)
	require.Equal(t, "PYTHON_EXCEPTION", out.Err.Code)
}

func TestDottedPaths(t *testing.T) {
	t.Parallel()
	f := operatortest.New(t, map[string]any{"python_callable": "jobs.daily.Loader.run", "op_args": []any{"x"}})
	root := f.Dir
	f.Task.DAG.FileLoc = "team/demo.yaml"
	f.Task.Dir = filepath.Join(root, "team")
	require.NoError(t, os.MkdirAll(filepath.Join(root, "jobs"), 0o755))
	require.NoError(t, os.MkdirAll(f.Task.Dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "jobs", "daily.py"),
		[]byte("class Loader:\n    @staticmethod\n    def run(x): return x + '!'\n"), 0o644))
	out := python.New().Run(t.Context(), f.Task)
	require.Equal(t, dag.Success("x!"), dag.Success(out.ReturnValue), "%v", out.Err)

	for _, path := range []string{"jobs.gone.f", "gone", "jobs.daily.nothing", "jobs.daily"} {
		f.Args["python_callable"] = path
		require.Equal(t, "IMPORT_ERROR", python.New().Run(t.Context(), f.Task).Err.Code, path)
	}
}

func TestXComs(t *testing.T) {
	t.Parallel()
	f := fixture(t, `
def f(ti):
    ti.xcom_push("count", 3)
    return [
        ti.xcom_pull("a"), ti.xcom_pull(task_ids=["a", "gone"]), ti.xcom_pull("a", key="k"),
        ti.xcom_pull("m", map_indexes=1), ti.xcom_pull("m", map_indexes=[1, 0]), ti.xcom_pull("gone", default=7),
    ]
`, nil)
	f.XComs["a/return_value"] = map[string]any{"n": 1}
	f.XComs["a/k"] = strings.Repeat("x", 300_000)
	f.XComs["m/return_value/0"] = "zero"
	f.XComs["m/return_value/1"] = "one"
	out := python.New().Run(t.Context(), f.Task)
	require.Equal(t, dag.OutcomeSuccess, out.Kind, "%v", out.Err)
	require.Equal(t, `[{"n":1},[{"n":1},null],"`+strings.Repeat("x", 300_000)+`","one",["one","zero"],7]`, asJSON(t, out.ReturnValue))
	require.Equal(t, `{"count":3}`, asJSON(t, out.XComs))
}

func TestXComsInADeepFolder(t *testing.T) {
	t.Parallel()
	f := fixture(t, "def f(ti): return ti.xcom_pull('a')", nil)
	f.Task.ScratchDir = filepath.Join(f.ScratchDir, strings.Repeat("d", 120))
	require.NoError(t, os.Mkdir(f.Task.ScratchDir, 0o755))
	f.XComs["a/return_value"] = 1
	require.Equal(t, `1`, asJSON(t, python.New().Run(t.Context(), f.Task).ReturnValue))
}

func TestMultipleOutputs(t *testing.T) {
	t.Parallel()
	for source, ok := range map[string]bool{"{'a': 1}": true, "[1]": false, "{1: 2}": false, "None": false} {
		f := fixture(t, "def f(): return "+source, nil)
		f.Def.MultipleOutputs = true
		out := python.New().Run(t.Context(), f.Task)
		require.Equal(t, ok, out.Kind == dag.OutcomeSuccess, source)
	}
}

func TestAValueThatNobodyKeepsMayBeAnything(t *testing.T) {
	t.Parallel()
	f := fixture(t, "def f(): return object()", nil)
	f.Def.DoXComPush = false
	require.Equal(t, dag.OutcomeSuccess, python.New().Run(t.Context(), f.Task).Kind)
}

func TestTruth(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]bool{"[]": false, "0": false, "None": false, "'False'": true, "object()": true, "{1: 2}": true} {
		reply, end := python.Call(t.Context(), fixture(t, "def f(): return "+expr, nil).Task, python.ModeTruth)
		require.Nil(t, end, expr)
		require.Equal(t, want, reply.Truth, expr)
	}
}

func TestATimeLimitEndsTheCallableAndItsChildren(t *testing.T) {
	t.Parallel()
	f := fixture(t, `
import subprocess, time, signal
def f(file):
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    p = subprocess.Popen(["sleep", "300"], start_new_session=True)
    with open(file, "w") as out: out.write("%d\n" % p.pid)
    time.sleep(300)
`, nil)
	file := filepath.Join(t.TempDir(), "pid")
	f.Args["op_args"] = []any{file}
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		for {
			if b, err := os.ReadFile(file); err == nil && bytes.HasSuffix(b, []byte("\n")) {
				cancel(operator.ErrTimeout)
				return
			}
			<-f.Clock.After(5 * time.Millisecond)
		}
	}()
	out := python.New().Run(ctx, f.Task)
	require.Equal(t, "TIMEOUT", out.Err.Code)
	left, err := proc.Leftovers(f.Marker)
	require.NoError(t, err)
	require.Empty(t, left)
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	require.NoError(t, err)
	if stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err == nil {
		require.Contains(t, string(stat), ") Z ")
	} else {
		require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	}
}

func TestSpec(t *testing.T) {
	t.Parallel()
	s := python.New().Spec()
	require.Equal(t, "python", s.Name)
	require.Contains(t, s.Aliases, "airflow.operators.python.PythonOperator")
	require.Empty(t, s.Validate(map[string]any{"python_callable": "a.b"}))
	require.Empty(t, s.Validate(map[string]any{"python_callable_file": "a", "python_callable_name": "b"}))
	require.Len(t, s.Validate(map[string]any{"python_callable_file": "a"}), 1)
	require.Len(t, s.Validate(map[string]any{"python_callable_name": "a"}), 1)
}
