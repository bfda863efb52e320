// Package empty is the operator that does nothing: a place where paths meet.
//
// It may import dag and executor/operator.
package empty
