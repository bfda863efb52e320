//go:build unix

package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/crashpoint"
)

const (
	// linger is how long processes of the group may go on after the first
	// process has ended by itself: time for `cmd | tee >(gzip > f)` to finish
	// its file, too short for a forgotten background job to matter.
	linger = time.Second
	// leftoverGrace is their time between SIGTERM and SIGKILL.
	leftoverGrace = 2 * time.Second
	// pollInterval is how often a group that should end is looked at.
	pollInterval = 10 * time.Millisecond
)

// errNoCommand is what Run gives for an empty Argv.
var errNoCommand = errors.New("no command to run")

// Run runs a child process in a process group of its own and returns when it
// and its whole group have ended and all that they wrote is delivered.
//
// The error is set only when the child could not be started; then the result
// is zero. When ctx is done the group gets SIGTERM and SIGCONT once and, after
// c.Grace (or less, when the cause has a method Grace that says so), SIGKILL;
// Result.Stopped is then the context's cause. A ctx that is done already starts
// nothing. Processes of the group that are left when the
// child has ended by itself have a second to finish and are then ended too. A
// process that called setsid is out of the group's reach and may even hold the
// output pipes: Run does not wait for it, see Sweep.
//
// Both outputs are read to their end whatever their writers return, so that
// the child never blocks or breaks on a full pipe. When Stdout and Stderr are
// the same writer, it gets one stream in the order of the child's writes and
// is never called concurrently. Stdin is copied in the background and may be
// read from until its next Read returns.
func Run(ctx context.Context, c Command) (Result, error) {
	if len(c.Argv) == 0 {
		return Result{}, errNoCommand
	}
	if ctx.Err() != nil {
		return Result{ExitCode: -1, Stopped: context.Cause(ctx)}, nil //nolint:nilerr // the result says why
	}
	grace := c.Grace
	if grace <= 0 {
		grace = DefaultGrace
	}
	cmd := exec.Command(c.Argv[0], c.Argv[1:]...)
	cmd.Dir = c.Dir
	cmd.Env = c.Env
	if len(c.ExtraEnv) > 0 || c.Marker != "" {
		cmd.Env = append(cmd.Environ(), c.ExtraEnv...)
	}
	if c.Marker != "" {
		cmd.Env = append(cmd.Env, MarkerEnv+"="+c.Marker)
	}
	cmd.SysProcAttr = groupAttr()
	pipes, err := connect(cmd, c)
	if err != nil {
		return Result{}, err
	}

	clock := dag.SystemClock{}
	memory := newOOMWatch()
	child, err := start(cmd)
	pipes.childHasThem()
	if err != nil {
		pipes.abandon()
		return Result{}, fmt.Errorf("start %s: %w", c.Argv[0], err)
	}
	started := clock.Now()
	if c.Started != nil {
		c.Started(child.pid)
	}
	pipes.copy()
	crashpoint.Point("child: started")

	var res Result
	var kill <-chan time.Time
	select {
	case <-child.ended:
	case <-ctx.Done():
		if child.hasEnded() {
			break // both at once: then it ended by itself
		}
		// The flag comes first: what follows is read as our doing.
		res.Stopped = context.Cause(ctx)
		child.signal(syscall.SIGTERM)
		child.signal(syscall.SIGCONT) // a stopped process acts on SIGTERM only when it goes on
		kill = clock.After(graceFor(res.Stopped, grace))
		select {
		case <-child.ended:
		case <-kill:
			kill = closedTimer()
			child.signal(syscall.SIGKILL)
			<-child.ended
		}
	}
	crashpoint.Point("child: ended")
	state := child.reap()
	res.Duration = max(0, clock.Now().Sub(started))
	endGroup(clock, child.pid, kill)
	pipes.finish()

	res.ExitCode = -1
	if state == nil { // somebody else collected the child: how it ended is lost
		return res, nil
	}
	res.ExitCode = state.ExitCode()
	res.UserTime, res.SystemTime = state.UserTime(), state.SystemTime()
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		res.Signal = ws.Signal()
	}
	// A shell passes on the end of its own child as 128 + 9.
	if res.Stopped == nil && (res.Signal == syscall.SIGKILL || res.ExitCode == 128+int(syscall.SIGKILL)) {
		res.OutOfMemory = memory.grew()
	}
	return res, nil
}

// child is a started process. Its number stays taken until reap, so that a
// signal before it can never reach a stranger.
type child struct {
	cmd   *exec.Cmd
	pid   int
	ended chan struct{} // closed when it has ended and may be reaped
	done  chan struct{} // closed by reap: lets the thread go
}

// start starts the command from a thread that lives as long as the child: the
// kernel ties the parent-death signal to the thread that forked.
func start(cmd *exec.Cmd) (*child, error) {
	c := &child{cmd: cmd, ended: make(chan struct{}), done: make(chan struct{})}
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			failed <- err
			return
		}
		c.pid = cmd.Process.Pid
		failed <- nil
		awaitEnd(cmd)
		close(c.ended)
		<-c.done
	}()
	if err := <-failed; err != nil {
		return nil, err
	}
	return c, nil
}

// hasEnded tells whether the child may be reaped.
func (c *child) hasEnded() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// signal sends a signal to the group, or to the process alone when there is no
// such group (it may have moved itself to another one).
func (c *child) signal(sig syscall.Signal) {
	if err := syscall.Kill(-c.pid, sig); err != nil {
		_ = syscall.Kill(c.pid, sig) // it has ended meanwhile, or is not ours to signal any more
	}
}

// reap collects the ended child's status.
func (c *child) reap() *os.ProcessState {
	_ = c.cmd.Wait() // its error repeats the state
	close(c.done)
	return c.cmd.ProcessState
}

// endGroup waits for what is left of a reaped child's group and ends it. kill
// is when those that already had SIGTERM get SIGKILL; nil for a child that
// ended by itself, whose group had none yet. While a group has a member the
// kernel gives its number to no new process, so the signals hit the right one.
func endGroup(clock dag.Clock, pgid int, kill <-chan time.Time) {
	if !groupAlive(pgid) {
		return
	}
	var term <-chan time.Time
	if kill == nil {
		term = clock.After(linger)
	}
	// A process that the kernel cannot end (waiting for a dead disk) must not
	// hold the attempt for ever.
	var giveUp <-chan time.Time
	for groupAlive(pgid) {
		select {
		case <-clock.After(pollInterval):
		case <-term:
			_ = syscall.Kill(-pgid, syscall.SIGTERM)
			_ = syscall.Kill(-pgid, syscall.SIGCONT)
			term, kill = nil, clock.After(leftoverGrace)
		case <-kill:
			_ = syscall.Kill(-pgid, syscall.SIGKILL)
			kill, giveUp = nil, clock.After(leftoverGrace)
		case <-giveUp:
			return
		}
	}
}

// groupAlive tells whether the group of a reaped child has a member that has
// not ended.
func groupAlive(pgid int) bool {
	// Where this process is the first one of a container, it inherits orphans
	// and has to collect them; elsewhere this finds nothing.
	for {
		pid, err := syscall.Wait4(-pgid, nil, syscall.WNOHANG, nil)
		if pid <= 0 || err != nil {
			break
		}
	}
	if err := syscall.Kill(-pgid, 0); err != nil && !errors.Is(err, syscall.EPERM) {
		return false
	}
	return groupRuns(pgid)
}

// graceFor lets the cause of a stop shorten the time to end in peace, by a
// method Grace.
func graceFor(cause error, grace time.Duration) time.Duration {
	var hurried interface{ Grace() time.Duration }
	if errors.As(cause, &hurried) && hurried.Grace() > 0 {
		return min(grace, hurried.Grace())
	}
	return grace
}

// closedTimer is a timer channel that has fired already.
func closedTimer() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}
