// Package sqlop is the sql step: statements on a connection, all of them and
// the effect's key in one transaction.
//
// The folder is called sql and the package sqlop: no package is itself named
// sql. It may import dag, executor/fault, executor/operator, sql/dialect and
// sql/merge.
package sqlop
