// Package triggerdagrun is the operator that makes a run of another DAG and, if
// asked to, waits for its end.
//
// It may import dag, executor/operator and executor/fault.
package triggerdagrun
