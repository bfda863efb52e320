// Package load turns YAML files into dag.DAG values and reports every mistake
// of every file with its place.
//
// A file goes through four steps: bytes become a tree of nodes that know their
// places (parse), the layers of defaults are laid under each DAG (layers), the
// DAG is built and each key checked against its type (build), and what only
// the whole folder can tell is checked last (cross).
//
// It may import dag, dag/bundle, dag/timetable, the YAML parser and the JSON
// schema validator.
package load
