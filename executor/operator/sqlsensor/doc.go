// Package sqlsensor waits until a query gives what a condition says.
//
// It may import dag, executor/fault, executor/operator and the packages sensor,
// sql and expression beside it.
package sqlsensor
