package branch_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/operator/branch"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
)

// fixture puts the branch "work" above a, b and c, and a join below them.
func fixture(t *testing.T, args map[string]any) *operatortest.Fixture {
	t.Helper()
	f := operatortest.New(t, args)
	for _, id := range []string{"a", "b", "g.c"} {
		task := dag.Task{ID: id, Operator: "empty", Upstream: []string{"work"}}
		if id == "g.c" {
			task.GroupID = "g"
		}
		f.Task.DAG.Tasks = append(f.Task.DAG.Tasks, task)
	}
	f.Task.DAG.Groups = []dag.Group{{ID: "g"}}
	f.Task.DAG.Tasks = append(f.Task.DAG.Tasks, dag.Task{ID: "join", Operator: "empty", Upstream: []string{"a", "b", "g.c"}})
	f.Task.Def = &f.Task.DAG.Tasks[0]
	return f
}

func TestWhatABranchFollows(t *testing.T) {
	t.Parallel()
	choices := []any{
		map[string]any{"when": "False", "follow": "a"},
		map[string]any{"when": "1", "follow": []any{"b", "g"}},
		map[string]any{"when": "True", "follow": "a"},
	}
	for name, tc := range map[string]struct {
		args map[string]any
		want []string
	}{
		"one id":              {map[string]any{"branch": "a"}, []string{"a"}},
		"white space":         {map[string]any{"branch": " a\n"}, []string{"a"}},
		"a list":              {map[string]any{"branch": []any{"a", "b", "a"}}, []string{"a", "b"}},
		"a rendered list":     {map[string]any{"branch": "['a', 'b']"}, []string{"a", "b"}},
		"a JSON list":         {map[string]any{"branch": `["a"]`}, []string{"a"}},
		"commas":              {map[string]any{"branch": "a, b"}, []string{"a", "b"}},
		"a group":             {map[string]any{"branch": "g"}, []string{"g"}},
		"nothing":             {map[string]any{"branch": ""}, []string{}},
		"None":                {map[string]any{"branch": "None"}, []string{}},
		"null":                {map[string]any{"branch": nil}, []string{}},
		"first true choice":   {map[string]any{"choices": choices}, []string{"b", "g"}},
		"else":                {map[string]any{"choices": choices[:1], "else": "b"}, []string{"b"}},
		"no choice, no else":  {map[string]any{"choices": choices[:1]}, []string{}},
		"choice over else":    {map[string]any{"choices": choices, "else": "a"}, []string{"b", "g"}},
		"an empty list":       {map[string]any{"branch": "[]"}, []string{}},
		"a tuple of a native": {map[string]any{"branch": "('b',)"}, []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := branch.New().Run(t.Context(), fixture(t, tc.args).Task)
			require.Equal(t, dag.OutcomeSuccess, out.Kind, "%v", out.Err)
			require.Equal(t, tc.want, *out.Branch)
		})
	}
}

func TestWhatABranchRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args map[string]any
		code string
	}{
		"unknown task":     {map[string]any{"branch": "z"}, "BRANCH_UNKNOWN_TASK"},
		"a number":         {map[string]any{"branch": 1.0}, "BRANCH_UNKNOWN_TASK"},
		"list of numbers":  {map[string]any{"branch": []any{1.0}}, "BRANCH_UNKNOWN_TASK"},
		"choices are text": {map[string]any{"choices": "a"}, "INVALID_ARGUMENT"},
		"nothing said":     {map[string]any{}, "INVALID_ARGUMENT"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := branch.New().Run(t.Context(), fixture(t, tc.args).Task)
			require.Equal(t, dag.OutcomeFailed, out.Kind)
			require.Equal(t, tc.code, out.Err.Code)
			require.Equal(t, dag.ClassConfiguration, out.Err.Class)
		})
	}
}

func TestPythonForm(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string][]string{"'a'": {"a"}, "['a', 'b']": {"a", "b"}, "None": {}} {
		f := fixture(t, map[string]any{"python_callable_file": "f.py", "python_callable_name": "pick"})
		f.Def.DoXComPush = false // the choice counts all the same
		require.NoError(t, os.WriteFile(filepath.Join(f.Dir, "f.py"), []byte("def pick(): return "+expr), 0o644))
		out := branch.New().Run(t.Context(), f.Task)
		require.Equal(t, dag.OutcomeSuccess, out.Kind, "%v", out.Err)
		require.Equal(t, want, *out.Branch)
	}
}

func TestSpec(t *testing.T) {
	t.Parallel()
	s := branch.New().Spec()
	require.Contains(t, s.Aliases, "airflow.operators.python.BranchPythonOperator")
	for name, tc := range map[string]struct {
		args     map[string]any
		problems int
	}{
		"fine":               {map[string]any{"branch": "a"}, 0},
		"fine choices":       {map[string]any{"choices": []any{map[string]any{"when": true, "follow": "a"}}, "else": nil}, 0},
		"choices are empty":  {map[string]any{"choices": []any{}}, 1},
		"choice is text":     {map[string]any{"choices": []any{"a"}}, 1},
		"choice lacks when":  {map[string]any{"choices": []any{map[string]any{"follow": "a"}}}, 1},
		"choice misspelt":    {map[string]any{"choices": []any{map[string]any{"when": "1", "follow": "a", "folow": "b"}}}, 1},
		"else alone":         {map[string]any{"branch": "a", "else": "b"}, 1},
		"half a callable":    {map[string]any{"python_callable_name": "a"}, 1},
		"choices are a text": {map[string]any{"choices": "x"}, 1},
	} {
		require.Len(t, s.Validate(tc.args), tc.problems, name)
	}
}
