// Package shortcircuit is the operator that stops a path when a condition does
// not hold.
//
// It may import dag, executor/operator and its condition and python packages.
package shortcircuit
