// Package command runs the child process of one attempt: with the attempt's
// variables in its environment, its output in the attempt's log line by line,
// and nothing of it left when it returns. The bash and python operators are
// built on it.
//
// It may import dag, executor/operator, dag/proc and executor/fault.
package command
