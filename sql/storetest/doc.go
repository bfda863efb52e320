// Package storetest is the one suite that every dialect of the state database
// passes. It drives a Store the way the scheduler, the workers and the reaper
// do, with dag.Evaluate as the decision and a clock that the test moves.
//
// It is for tests only and may import dag, dag/dagtest, sql/store and
// sql/dialect.
package storetest
