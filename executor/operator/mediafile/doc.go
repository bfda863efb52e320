// Package mediafile has what the steps that read media files check in the same
// way when a DAG file is read.
//
// It may import dag and the standard library.
package mediafile
