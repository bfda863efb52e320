package timetable

import (
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// randomTail is how many characters set apart manual runs without a date.
const randomTail = 8

// RunID is the id of a planned run as Airflow 3.2 and later writes it: its type
// and the time after which it may run; for a backfill its logical date.
func RunID(t dag.RunType, p dag.PlannedRun) string {
	at := p.RunAfter
	if t == dag.RunBackfill {
		at = p.LogicalDate
	}
	return string(t) + "__" + dag.PythonTime(at, "T")
}

// ManualRunID is the id of a run that somebody asks for: its type and
// runAfter, the time of the request, and a random tail when it has no logical
// date, since many such runs may be asked for at one time.
func ManualRunID(logical *time.Time, runAfter time.Time, ids dag.IDSource) string {
	id := string(dag.RunManual) + "__" + dag.PythonTime(runAfter, "T")
	if logical != nil {
		return id
	}
	tail := ids.NewID()
	return id + "_" + tail[:min(randomTail, len(tail))]
}
