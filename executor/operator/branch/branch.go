package branch

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/operator"
	"github.com/airlock-dag/airlock/executor/operator/condition"
	"github.com/airlock-dag/airlock/executor/operator/python"
)

// Operator chooses a path.
type Operator struct{}

// New makes the operator.
func New() Operator { return Operator{} }

// UsesScratch implements operator.Scratch.
func (Operator) UsesScratch() bool { return true }

// Spec implements operator.Operator.
func (Operator) Spec() dag.OperatorSpec {
	return dag.OperatorSpec{
		Name: "branch",
		Aliases: []string{
			"airflow.providers.standard.operators.python.BranchPythonOperator",
			"airflow.providers.standard.operators.python.BranchExternalPythonOperator",
			"airflow.operators.python.BranchPythonOperator",
			"airflow.operators.python.BranchExternalPythonOperator",
			"airflow.operators.python_operator.BranchPythonOperator",
		},
		Doc: "Follows some of the tasks or groups directly below it and skips the others.",
		Fields: append([]dag.Field{
			{Name: "branch", Type: dag.FieldAny, Templated: true, Mappable: true,
				Doc: "Id, or list of ids, of the tasks or groups to follow."},
			{Name: "choices", Type: dag.FieldAny, Templated: true,
				Doc: "List of {when, follow}; the first whose `when` is true is followed."},
			{Name: "else", Type: dag.FieldAny, Templated: true,
				Doc: "What to follow when no choice holds; nothing when not given."},
		}, python.Fields()...),
		OneOf:    [][]string{{"branch", "choices", "python_callable", "python_callable_file"}},
		Ignored:  python.IgnoredKeys(),
		Validate: validate, ValidateAt: python.MissingFile,
	}
}

func validate(args map[string]any) []dag.Problem {
	out := python.Validate(args)
	if choices, given := args["choices"]; given {
		if _, err := readChoices(choices); err != nil {
			out = append(out, dag.Problem{
				Path: "choices", Severity: dag.SeverityError, Code: "bad-value", Message: err.Error(),
				Hint: `write - {when: "{{ ... }}", follow: task_id}`,
			})
		}
	}
	if _, given := args["else"]; given && args["choices"] == nil {
		out = append(out, dag.Problem{
			Path: "else", Severity: dag.SeverityError, Code: "misplaced-key", Message: "else belongs to choices",
		})
	}
	return out
}

// Run implements operator.Operator.
func (Operator) Run(ctx context.Context, t *operator.Task) dag.Outcome {
	var chosen any
	var xcoms map[string]any
	switch {
	case given(t.Args, "branch"):
		chosen = t.Args["branch"]
	case given(t.Args, "choices"):
		var err error
		if chosen, err = choose(t.Args); err != nil {
			return dag.Failed(fault.New(fault.CodeInvalidArgument, err.Error()))
		}
	default:
		reply, end := python.Call(ctx, t, python.ModeChoice)
		if end != nil {
			return *end
		}
		chosen, xcoms = reply.Value, reply.XComs
	}
	follow, err := ids(chosen)
	if err != nil {
		return dag.Failed(fault.New(fault.CodeBranchUnknownTask, err.Error()))
	}
	skips, err := dag.BranchSkips(t.DAG, t.Def.ID, follow)
	if err != nil {
		return dag.Failed(fault.New(fault.CodeBranchUnknownTask, err.Error()))
	}
	fmt.Fprintf(t.Log, "airlock: follows %s; skips %s\n", listing(follow), listing(skips))
	out := dag.Success(chosen)
	out.Branch, out.XComs = &follow, xcoms
	return out
}

func given(args map[string]any, key string) bool {
	_, ok := args[key]
	return ok
}

func listing(ids []string) string {
	if len(ids) == 0 {
		return "nothing"
	}
	return strings.Join(ids, ", ")
}

// choice is one entry of `choices`.
type choice struct {
	when   any
	follow any
}

// readChoices checks the shape of `choices`.
func readChoices(v any) ([]choice, error) {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return nil, fmt.Errorf("choices is %s; it must be a list of mappings with when and follow", kind(v))
	}
	out := make([]choice, len(list))
	for i, item := range list {
		m, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("choices[%d] is %s; it must be a mapping with when and follow", i, kind(item))
		}
		for _, key := range []string{"when", "follow"} {
			if !given(m, key) {
				return nil, fmt.Errorf("choices[%d] has no %s", i, key)
			}
		}
		for key := range m {
			if key != "when" && key != "follow" {
				return nil, fmt.Errorf("choices[%d] has the key %q; allowed are when and follow", i, key)
			}
		}
		out[i] = choice{when: m["when"], follow: m["follow"]}
	}
	return out, nil
}

func kind(v any) string {
	switch x := v.(type) {
	case nil:
		return "null"
	case string:
		return "text"
	case []any:
		if len(x) == 0 {
			return "an empty list"
		}
		return "a list"
	case map[string]any:
		return "a mapping"
	default:
		return fmt.Sprintf("%v", x)
	}
}

// choose finds the first choice that holds.
func choose(args map[string]any) (any, error) {
	choices, err := readChoices(args["choices"])
	if err != nil {
		return nil, err
	}
	for _, c := range choices {
		if condition.True(c.when) {
			return c.follow, nil
		}
	}
	return args["else"], nil
}

// ids reads what a branch follows: nothing, one id, or several as a list or as
// a text with commas, also one that a template made of a list.
func ids(v any) ([]string, error) {
	out := []string{}
	add := func(id string) {
		id = strings.Trim(strings.TrimSpace(id), `'"`)
		if id != "" && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	switch x := v.(type) {
	case nil:
	case string:
		text := strings.TrimSpace(x)
		if l := strings.ToLower(text); l == "none" || l == "null" {
			return out, nil
		}
		if n := len(text); n >= 2 && (text[0] == '[' && text[n-1] == ']' || text[0] == '(' && text[n-1] == ')') {
			text = text[1 : n-1]
		}
		for part := range strings.SplitSeq(text, ",") {
			add(part)
		}
	case []any:
		for _, item := range x {
			id, ok := item.(string)
			if !ok {
				return nil, fmt.Errorf("a branch follows task ids; it was given %v", item)
			}
			add(id)
		}
	default:
		return nil, fmt.Errorf("a branch follows a task id or a list of them; it was given %v", v)
	}
	return out, nil
}
