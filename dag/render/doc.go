// Package render fills in the templates of a DAG file: Jinja with Airflow's
// names, filters and macros, undefined names being errors.
//
// The Jinja engine is gonja; this package gives it values that behave like
// Python's (dates above all), replaces its operators by Python's, takes away
// what reads files or cannot be bounded, and limits time and size. Templates
// see maps, lists, scalars, functions and the objects defined here, never a Go
// struct of the domain.
//
// It may import dag, gonja, santhosh-tekuri/jsonschema and the standard
// library.
package render
