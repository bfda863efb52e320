// Package httpop is the http step: one request, whose answer is kept for later
// tasks.
//
// The folder is called http and the package httpop: net/http is too near. It
// may import dag, executor/fault, executor/operator and the packages httpcall
// and expression beside it.
package httpop
