package httpsensor_test

import (
	"testing"

	"github.com/airlock-dag/airlock/executor/operator/httpcall"
	"github.com/airlock-dag/airlock/executor/operator/httpsensor"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
)

func TestPage(t *testing.T) {
	t.Parallel()
	operatortest.CheckPage(t, httpsensor.New(httpcall.New()).Spec(), "../../../docs/operators/http_sensor.md")
}
