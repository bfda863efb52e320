package branch_test

import (
	"testing"

	"github.com/airlock-dag/airlock/executor/operator/branch"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
)

func TestPage(t *testing.T) {
	t.Parallel()
	operatortest.CheckPage(t, branch.New().Spec(), "../../../docs/operators/branch.md")
}
