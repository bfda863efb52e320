// Package proc runs child processes so that none outlives its attempt: each in
// a process group of its own, with a time to end in peace after one SIGTERM
// (and SIGCONT) and SIGKILL for the whole group after it. It also finds, by a
// mark in their environment, processes that left the group.
//
// It may import dag (for the clock) and golang.org/x/sys, and nothing else
// beyond the standard library.
package proc
