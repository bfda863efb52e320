package triggerdagrun_test

import (
	"testing"

	"github.com/airlock-dag/airlock/executor/operator/operatortest"
	"github.com/airlock-dag/airlock/executor/operator/triggerdagrun"
)

func TestPage(t *testing.T) {
	t.Parallel()
	operatortest.CheckPage(t, triggerdagrun.New().Spec(), "../../../docs/operators/trigger_dag_run.md")
}
