package empty_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/operator/empty"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
)

func TestEmptySucceeds(t *testing.T) {
	t.Parallel()
	op := empty.New()
	require.Equal(t, dag.Success(nil), op.Run(t.Context(), operatortest.New(t, nil).Task))
	require.Equal(t, "empty", op.Spec().Name)
	require.Contains(t, op.Spec().Aliases, "airflow.operators.dummy.DummyOperator")
}
