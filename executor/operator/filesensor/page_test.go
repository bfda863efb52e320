package filesensor_test

import (
	"testing"

	"github.com/airlock-dag/airlock/executor/operator/filesensor"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
)

func TestPage(t *testing.T) {
	t.Parallel()
	operatortest.CheckPage(t, filesensor.New().Spec(), "../../../docs/operators/file_sensor.md")
}
