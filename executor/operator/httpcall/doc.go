// Package httpcall makes the one HTTP request of a step: it puts together the
// address, the login and the body from a connection and the step's keys, keeps
// time and size within limits, and classifies what goes wrong. Logins, headers
// and the query of an address never go to a log or an error.
//
// It may import dag, executor/fault, executor/operator and the package
// expression beside it.
package httpcall
