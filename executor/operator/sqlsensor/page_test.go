package sqlsensor_test

import (
	"testing"

	"github.com/airlock-dag/airlock/executor/operator/operatortest"
	"github.com/airlock-dag/airlock/executor/operator/sqlsensor"
)

func TestPage(t *testing.T) {
	t.Parallel()
	operatortest.CheckPage(t, sqlsensor.New().Spec(), "../../../docs/operators/sql_sensor.md")
}
