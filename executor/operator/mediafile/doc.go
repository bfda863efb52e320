// Package mediafile has what the steps that read media files check in the same
// way, when a DAG file is read and before a file is opened.
//
// It may import dag, executor/fault, executor/operator and the standard library.
package mediafile
