// Package mergesql reads the MERGE statement of the SQL standard, as Delta Lake
// and others write it, into a plain structure. Every place that is not
// understood is an error with its line and column; nothing is passed over.
//
// It imports the standard library and sql/merge/sqltext.
package mergesql
