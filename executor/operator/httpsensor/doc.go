// Package httpsensor waits for an HTTP service to answer as a condition says.
//
// It may import dag, executor/fault, executor/operator and the packages sensor,
// httpcall and expression beside it.
package httpsensor
