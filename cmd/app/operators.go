package app

import (
	"github.com/airlock-dag/airlock/cmd/config"
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
	"github.com/airlock-dag/airlock/executor/operator/upload"
)

// Operators is every operator that this binary has, with the default settings:
// for loading files and for documentation.
func Operators() *operator.Registry { return OperatorsFor(config.Default("")) }

// OperatorsFor is every operator that this binary has, as the settings want
// them. A new operator is added here, and nowhere else.
func OperatorsFor(cfg config.Config) *operator.Registry {
	calls := httpcall.New()
	encode := transcode.New()
	encode.Slots.PerDevice = cfg.Worker.GPUSessions
	look := &probe.Operator{Hashes: encode.Hashes, Versions: encode.Versions} // one has read what the other reads
	return operator.NewRegistry(
		bash.New(), branch.New(), empty.New(), merge.New(dag.SystemRand{}), look, python.New(),
		shortcircuit.New(), sqlop.New(), encode, triggerdagrun.New(),
		httpop.New(calls), externaltasksensor.New(), filesensor.New(), httpsensor.New(calls), sqlsensor.New(),
		upload.New(calls),
	)
}
