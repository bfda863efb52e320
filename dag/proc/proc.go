package proc

import (
	"io"
	"syscall"
	"time"
)

// DefaultGrace is the time between SIGTERM and SIGKILL.
const DefaultGrace = 10 * time.Second

// MarkerEnv is the environment variable that marks the children of one attempt,
// or of one delivery of a callback; see Sweep.
const MarkerEnv = "AIRLOCK_ATTEMPT"

// Command is a child process to run.
type Command struct {
	// Argv[0] is looked up in PATH.
	Argv []string
	Dir  string
	// Env is the whole environment; nil for this process's own. ExtraEnv and the
	// marker are added; of two values of one name the later one counts.
	Env      []string
	ExtraEnv []string
	Stdin    io.Reader
	Stdout   io.Writer
	Stderr   io.Writer
	// Grace is the time between SIGTERM and SIGKILL; DefaultGrace when 0.
	Grace time.Duration
	// Marker is the value of MarkerEnv in the child's environment; nothing is
	// added when it is empty.
	Marker string
	// Started, when set, is called once with the child's pid.
	Started func(pid int)
}

// Result is how a child process ended.
type Result struct {
	// ExitCode is -1 when the child was ended by a signal.
	ExitCode int
	// Signal that ended the child; 0 when it exited.
	Signal syscall.Signal
	// Stopped is the cause when *we* ended it (context.Cause of the context),
	// nil when it ended by itself.
	Stopped error
	// OutOfMemory is set when the kernel's record says that the child was killed
	// for memory; false where that cannot be known.
	OutOfMemory bool
	Duration    time.Duration
	// UserTime and SystemTime are the child's own CPU use.
	UserTime, SystemTime time.Duration
}

// Process is a process that was found by its marker.
type Process struct {
	PID, PPID int
	// Marker is the value of MarkerEnv in its environment.
	Marker string
	// Args is its command line.
	Args []string
	// StartTicks is when it began, in clock ticks since the machine booted:
	// with the pid it names the process for good.
	StartTicks uint64
}
