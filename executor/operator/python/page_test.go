package python_test

import (
	"testing"

	"github.com/airlock-dag/airlock/executor/operator/operatortest"
	"github.com/airlock-dag/airlock/executor/operator/python"
)

func TestPage(t *testing.T) {
	t.Parallel()
	operatortest.CheckPage(t, python.New().Spec(), "../../../docs/operators/python.md")
}
