//go:build unix && !linux

package proc

import (
	"os/exec"
	"syscall"
	"time"
)

// fionread asks a pipe how many bytes it holds; the number is that of the BSDs.
const fionread = 0x4004667f

// groupAttr puts the child into a group of its own. There is no parent-death
// signal here: children of a killed worker live on until they end.
func groupAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// awaitEnd returns when the child has ended.
func awaitEnd(cmd *exec.Cmd) { _ = cmd.Wait() }

// groupRuns cannot tell the ended members of a group from the others here.
func groupRuns(int) bool { return true }

// oomWatch knows nothing here.
type oomWatch struct{}

func newOOMWatch() oomWatch { return oomWatch{} }
func (oomWatch) grew() bool { return false }

// Sweep finds nothing on this system: the environment of other processes
// cannot be read.
func Sweep(string, time.Duration) (int, error) { return 0, nil }

// Leftovers finds nothing on this system.
func Leftovers(string) ([]Process, error) { return nil, nil }

// SweepUnless finds nothing on this system.
func SweepUnless(string, func(string) bool, time.Duration) (int, error) { return 0, nil }
