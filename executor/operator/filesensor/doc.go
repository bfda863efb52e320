// Package filesensor waits for a file or folder, or for anything that a pattern
// matches.
//
// It may import dag, executor/fault, executor/operator and the package sensor
// beside it.
package filesensor
