// Package sql is the notifier that runs a statement in a database: a row in a
// table of the user's own for each event. It speaks no SQL itself; who makes it
// brings the function that does.
//
// It may import dag and callbacks.
package sql
