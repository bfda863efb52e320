// Package dag is Airlock's domain: DAGs, tasks, runs, task instances, their
// states and the one table of transitions, outcomes of attempts, dead letters,
// callback events and the clock.
//
// It decides and never acts: everything here is plain data or a pure function
// of plain data and a time. It imports the standard library only.
package dag
