package shortcircuit

import (
	"context"
	"fmt"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/operator"
	"github.com/airlock-dag/airlock/executor/operator/condition"
	"github.com/airlock-dag/airlock/executor/operator/python"
)

// Operator goes on only when a condition holds.
type Operator struct{}

// New makes the operator.
func New() Operator { return Operator{} }

// UsesScratch implements operator.Scratch.
func (Operator) UsesScratch() bool { return true }

// Spec implements operator.Operator.
func (Operator) Spec() dag.OperatorSpec {
	return dag.OperatorSpec{
		Name: "short_circuit",
		Aliases: []string{
			"airflow.providers.standard.operators.python.ShortCircuitOperator",
			"airflow.operators.python.ShortCircuitOperator",
			"airflow.operators.python_operator.ShortCircuitOperator",
		},
		Doc: "Skips what is below it when its condition is false.",
		Fields: append([]dag.Field{
			{Name: "condition", Type: dag.FieldAny, Templated: true, Mappable: true,
				Doc: "The condition: a template or a value."},
			{Name: "ignore_downstream_trigger_rules", Type: dag.FieldBool, Default: true,
				Doc: "Skip all tasks below whatever their trigger rules; false skips the direct ones only."},
		}, python.Fields()...),
		OneOf:    [][]string{{"condition", "python_callable", "python_callable_file"}},
		Ignored:  python.IgnoredKeys(),
		Validate: python.Validate, ValidateAt: python.MissingFile,
	}
}

// Run implements operator.Operator.
func (Operator) Run(ctx context.Context, t *operator.Task) dag.Outcome {
	var value any
	var holds bool
	var xcoms map[string]any
	if v, ok := t.Args["condition"]; ok {
		holds = condition.True(v)
		value = holds
	} else {
		reply, end := python.Call(ctx, t, python.ModeTruth)
		if end != nil {
			return *end
		}
		value, holds, xcoms = reply.Value, reply.Truth, reply.XComs
	}
	out := dag.Success(value)
	out.XComs = xcoms
	if holds {
		fmt.Fprintln(t.Log, "airlock: the condition holds; all goes on")
		return out
	}
	all, said := t.Args["ignore_downstream_trigger_rules"].(bool)
	out.SkipTasks = dag.ShortCircuitSkips(t.DAG, t.Def.ID, said && !all)
	fmt.Fprintf(t.Log, "airlock: the condition does not hold; skips %s\n", listing(out.SkipTasks))
	return out
}

func listing(ids []string) string {
	if len(ids) == 0 {
		return "nothing, there is no task below"
	}
	return strings.Join(ids, ", ")
}
