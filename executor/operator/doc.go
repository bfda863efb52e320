// Package operator is the seam between the executor and what a task does: the
// Operator interface, the context that an attempt gets, and the registry. Each
// operator is a package of its own below this one.
//
// It may import dag. Only the SQL operators (operator/merge, operator/sql,
// operator/sqlsensor) may import sql/merge and sql/dialect; nothing here sees
// sql/store.
package operator
