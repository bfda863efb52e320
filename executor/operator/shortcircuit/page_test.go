package shortcircuit_test

import (
	"testing"

	"github.com/airlock-dag/airlock/executor/operator/operatortest"
	"github.com/airlock-dag/airlock/executor/operator/shortcircuit"
)

func TestPage(t *testing.T) {
	t.Parallel()
	operatortest.CheckPage(t, shortcircuit.New().Spec(), "../../../docs/operators/short_circuit.md")
}
