package shortcircuit_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
	"github.com/airlock-dag/airlock/executor/operator/shortcircuit"
)

// fixture puts "work" above a, a above b, and a teardown beside b.
func fixture(t *testing.T, args map[string]any) *operatortest.Fixture {
	t.Helper()
	f := operatortest.New(t, args)
	f.Task.DAG.Tasks = append(f.Task.DAG.Tasks,
		dag.Task{ID: "a", Operator: "empty", Upstream: []string{"work"}},
		dag.Task{ID: "b", Operator: "empty", Upstream: []string{"a"}, TriggerRule: dag.AllDone},
	)
	f.Task.Def = &f.Task.DAG.Tasks[0]
	return f
}

func TestCondition(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args map[string]any
		skip []string
	}{
		"true":               {map[string]any{"condition": "True"}, nil},
		"native true":        {map[string]any{"condition": true}, nil},
		"false skips all":    {map[string]any{"condition": "False"}, []string{"a", "b"}},
		"null":               {map[string]any{"condition": nil}, []string{"a", "b"}},
		"false, by the word": {map[string]any{"condition": "0", "ignore_downstream_trigger_rules": true}, []string{"a", "b"}},
		"only the direct":    {map[string]any{"condition": "", "ignore_downstream_trigger_rules": false}, []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := shortcircuit.New().Run(t.Context(), fixture(t, tc.args).Task)
			require.Equal(t, dag.OutcomeSuccess, out.Kind)
			require.Equal(t, tc.skip, out.SkipTasks)
			require.Equal(t, tc.skip == nil, out.ReturnValue)
		})
	}
}

func TestPythonForm(t *testing.T) {
	t.Parallel()
	for expr, skip := range map[string][]string{"[0]": nil, "[]": {"a", "b"}, "object()": nil, "1/0": nil} {
		f := fixture(t, map[string]any{"python_callable_file": "f.py", "python_callable_name": "go_on"})
		require.NoError(t, os.WriteFile(filepath.Join(f.Dir, "f.py"), []byte("def go_on(): return "+expr), 0o644))
		out := shortcircuit.New().Run(t.Context(), f.Task)
		require.Equal(t, expr != "1/0", out.Kind == dag.OutcomeSuccess, "%s: %v", expr, out.Err)
		require.Equal(t, skip, out.SkipTasks, expr)
	}
}

func TestSpec(t *testing.T) {
	t.Parallel()
	s := shortcircuit.New().Spec()
	require.Equal(t, "short_circuit", s.Name)
	require.Contains(t, s.Aliases, "airflow.operators.python.ShortCircuitOperator")
}
