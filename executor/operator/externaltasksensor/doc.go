// Package externaltasksensor waits for a run of another DAG, or for tasks of it.
//
// It may import dag, executor/fault, executor/operator and the package sensor
// beside it.
package externaltasksensor
