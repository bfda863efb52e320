package cli

import (
	"io"

	"github.com/airlock-dag/airlock/dag"
)

// Env is what a command sees of the process around it.
type Env struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// Environ is the environment as "NAME=value" lines.
	Environ []string
	// WorkDir is the folder that relative paths start from.
	WorkDir string
	// Terminal tells whether a person watches Stdout: progress bars and questions
	// are for people.
	Terminal bool
	// Version is the binary's, as the build gave it.
	Version string
	// User is who asks, for the audit log.
	User string
	// Clock defaults to the machine's.
	Clock dag.Clock
}

// Exit codes.
const (
	ExitDone   = 0
	ExitFailed = 1
	ExitUsage  = 2
)
