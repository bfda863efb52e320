package empty_test

import (
	"testing"

	"github.com/airlock-dag/airlock/executor/operator/empty"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
)

func TestPage(t *testing.T) {
	t.Parallel()
	operatortest.CheckPage(t, empty.New().Spec(), "../../../docs/operators/empty.md")
}
