// Package column gives values their types and refuses what does not fit: a
// value is stored exactly as it was meant or its row is quarantined with a
// code. Nothing is rounded, cut, guessed or repaired.
//
// It imports the standard library, expr-lang/expr and sql/merge/row.
package column
