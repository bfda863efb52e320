package app

import (
	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/operator"
	"github.com/airlock-dag/airlock/executor/operator/bash"
	"github.com/airlock-dag/airlock/executor/operator/branch"
	"github.com/airlock-dag/airlock/executor/operator/empty"
	"github.com/airlock-dag/airlock/executor/operator/externaltasksensor"
	"github.com/airlock-dag/airlock/executor/operator/filesensor"
	httpop "github.com/airlock-dag/airlock/executor/operator/http"
	"github.com/airlock-dag/airlock/executor/operator/httpcall"
	"github.com/airlock-dag/airlock/executor/operator/httpsensor"
	"github.com/airlock-dag/airlock/executor/operator/merge"
	"github.com/airlock-dag/airlock/executor/operator/probe"
	"github.com/airlock-dag/airlock/executor/operator/python"
	"github.com/airlock-dag/airlock/executor/operator/shortcircuit"
	sqlop "github.com/airlock-dag/airlock/executor/operator/sql"
	"github.com/airlock-dag/airlock/executor/operator/sqlsensor"
	"github.com/airlock-dag/airlock/executor/operator/transcode"
	"github.com/airlock-dag/airlock/executor/operator/triggerdagrun"
)

// Operators is every operator that this binary has. A new operator is added
// here, and nowhere else.
func Operators() *operator.Registry {
	calls := httpcall.New()
	return operator.NewRegistry(
		bash.New(), branch.New(), empty.New(), merge.New(dag.SystemRand{}), &probe.Operator{}, python.New(),
		shortcircuit.New(), sqlop.New(), transcode.New(), triggerdagrun.New(),
		httpop.New(calls), externaltasksensor.New(), filesensor.New(), httpsensor.New(calls), sqlsensor.New(),
	)
}
