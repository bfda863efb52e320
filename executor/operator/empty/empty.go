package empty

import (
	"context"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/operator"
)

// Operator does nothing and succeeds. The scheduler usually marks its tasks
// done without a worker.
type Operator struct{}

// New makes the operator.
func New() Operator { return Operator{} }

// Spec implements operator.Operator.
func (Operator) Spec() dag.OperatorSpec {
	return dag.OperatorSpec{
		Name: "empty",
		Aliases: []string{
			"airflow.providers.standard.operators.empty.EmptyOperator",
			"airflow.operators.empty.EmptyOperator",
			"airflow.operators.dummy.DummyOperator",
			"airflow.operators.dummy_operator.DummyOperator",
		},
		Doc: "Does nothing; joins or splits paths.",
	}
}

// Run implements operator.Operator.
func (Operator) Run(context.Context, *operator.Task) dag.Outcome { return dag.Success(nil) }
