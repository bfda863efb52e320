// Package merge is the merge step: it hands a file, a query or an upstream
// task's list to the MERGE engine and reports what became of the rows.
//
// It may import dag, executor/fault, executor/operator, the sql step (how a
// connection is opened, what an error means), sql/dialect and sql/merge.
package merge
