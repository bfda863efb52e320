// Package fault is the error taxonomy: the closed list of error codes, and the
// tables that turn what is known of a failed attempt (how a process ended, an
// HTTP status, a network error) into a class, a code and the budget it spends.
// Everything is data or a pure function, so that one table serves the
// operators, `airlock classify` and the documentation.
//
// It may import dag, executor/operator (for the causes of a cancelled attempt)
// and dag/proc. It never sees sql: tables of SQL error numbers are given
// to it as Rules by those who own them.
package fault
