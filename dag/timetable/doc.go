// Package timetable gives a dag.Schedule its meaning: which instants a cron
// text names on a zone's clock, what the next run of a DAG is, which data
// interval a run covers and what its run id is. Everything is a pure function
// of the schedule, the last run and a given now.
//
// It may import dag, github.com/robfig/cron/v3 (as the parser of plain cron
// fields, behind a guard, never for stepping) and the standard library.
package timetable
