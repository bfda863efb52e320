package externaltasksensor_test

import (
	"testing"

	"github.com/airlock-dag/airlock/executor/operator/externaltasksensor"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
)

func TestPage(t *testing.T) {
	t.Parallel()
	operatortest.CheckPage(t, externaltasksensor.New().Spec(), "../../../docs/operators/external_task_sensor.md")
}
