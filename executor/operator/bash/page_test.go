package bash_test

import (
	"testing"

	"github.com/airlock-dag/airlock/executor/operator/bash"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
)

func TestPage(t *testing.T) {
	t.Parallel()
	operatortest.CheckPage(t, bash.New().Spec(), "../../../docs/operators/bash.md")
}
