// Package branch is the operator that chooses which of the tasks directly below
// it go on.
//
// It may import dag, executor/operator and its condition and python packages,
// and executor/fault.
package branch
