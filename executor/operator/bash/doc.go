// Package bash is the operator that runs a shell command or script.
//
// It may import dag, executor/operator and its command package, and
// executor/fault.
package bash
