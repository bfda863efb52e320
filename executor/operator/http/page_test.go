package httpop_test

import (
	"testing"

	httpop "github.com/airlock-dag/airlock/executor/operator/http"
	"github.com/airlock-dag/airlock/executor/operator/httpcall"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
)

func TestPage(t *testing.T) {
	t.Parallel()
	operatortest.CheckPage(t, httpop.New(httpcall.New()).Spec(), "../../../docs/operators/http.md")
}
