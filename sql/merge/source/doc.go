// Package source reads rows from files (CSV, JSON lines), from lists that an
// upstream task left and from queries, one record at a time, and never holds a
// whole source in memory.
//
// A mistake in one row is a fault of that row: it has the row's own bytes, its
// physical line and its byte offset, and reading goes on with the next row. An
// error is returned only for what concerns the source as a whole: a file that
// cannot be read, an encoding that is not supported, a header without a column
// that is wanted.
//
// It imports the standard library and sql/merge/row.
package source
