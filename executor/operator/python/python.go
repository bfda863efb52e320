package python

import (
	"context"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/operator"
)

// Operator calls a Python function.
type Operator struct{}

// New makes the operator.
func New() Operator { return Operator{} }

// UsesScratch implements operator.Scratch.
func (Operator) UsesScratch() bool { return true }

// Spec implements operator.Operator.
func (Operator) Spec() dag.OperatorSpec {
	return dag.OperatorSpec{
		Name: "python",
		Aliases: []string{
			"airflow.providers.standard.operators.python.PythonOperator",
			"airflow.providers.standard.operators.python.ExternalPythonOperator",
			"airflow.operators.python.PythonOperator",
			"airflow.operators.python.ExternalPythonOperator",
			"airflow.operators.python_operator.PythonOperator",
		},
		Doc:      "Calls a Python function in a process of its own; what it returns is the XCom.",
		Fields:   Fields(),
		OneOf:    [][]string{{"python_callable", "python_callable_file"}},
		Ignored:  IgnoredKeys(),
		Validate: Validate, ValidateAt: MissingFile,
	}
}

// Fields are the keys that say what to call; the branch and short_circuit
// operators have them too.
func Fields() []dag.Field {
	return []dag.Field{
		{Name: "python_callable", Type: dag.FieldString,
			Doc: "Dotted path of the function; its module is looked for beside the DAG's file and in the DAGs folder first."},
		{Name: "python_callable_file", Type: dag.FieldString,
			Doc: "Python file with the function, absolute or relative to the DAG's file."},
		{Name: "python_callable_name", Type: dag.FieldString, Doc: "Name of the function in python_callable_file."},
		{Name: "op_args", Type: dag.FieldAny, Templated: true, Mappable: true, Doc: "List of positional arguments."},
		{Name: "op_kwargs", Type: dag.FieldMap, Templated: true, Mappable: true, Doc: "Arguments by name."},
		{Name: "templates_dict", Type: dag.FieldMap, Templated: true, Mappable: true,
			Doc: "A mapping that the function can take as templates_dict."},
		{Name: "python", Type: dag.FieldString, Templated: true, Default: "python3",
			Doc: "The interpreter: a name in PATH, or a path (of a virtual environment, say)."},
	}
}

// IgnoredKeys are Airflow's keys that have no meaning here.
func IgnoredKeys() []string {
	return []string{
		"show_return_value_in_logs", "templates_exts", "provide_context", "expect_airflow", "expect_pendulum",
		"use_dill", "serializer", "string_args", "skip_on_exit_code",
	}
}

// Validate finds a half-named callable.
func Validate(args map[string]any) []dag.Problem {
	_, file := args["python_callable_file"]
	_, name := args["python_callable_name"]
	if file == name {
		return nil
	}
	missing, given := "python_callable_name", "python_callable_file"
	if name {
		missing, given = given, missing
	}
	return []dag.Problem{{
		Path: given, Severity: dag.SeverityError, Code: "missing-key",
		Message: given + " needs " + missing + " beside it",
	}}
}

// MissingFile warns of a file with the function that is not there.
func MissingFile(args map[string]any, at dag.Place) []dag.Problem {
	return operator.MissingFiles(args, "python_callable_file", at, nil)
}

// Run implements operator.Operator.
func (Operator) Run(ctx context.Context, t *operator.Task) dag.Outcome {
	reply, end := Call(ctx, t, ModeValue)
	if end != nil {
		return *end
	}
	out := dag.Success(reply.Value)
	out.XComs = reply.XComs
	return out
}
