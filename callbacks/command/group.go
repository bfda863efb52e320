package command

import (
	"errors"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// grace is the time between SIGTERM and SIGKILL, and how long the output is
// waited for when the command has ended and left children behind.
const grace = 2 * time.Second

// runGroup runs a command as the leader of a process group of its own. When the
// command's context ends, the group gets SIGTERM, then SIGKILL. Nothing of the
// group is left when it returns, also when the command ended well and left
// children in the background.
func runGroup(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = grace
	cmd.Cancel = func() error { return signalGroup(cmd, syscall.SIGTERM) }
	if err := cmd.Start(); err != nil {
		return err
	}
	err := cmd.Wait()
	_ = signalGroup(cmd, syscall.SIGKILL)
	if errors.Is(err, exec.ErrWaitDelay) && cmd.ProcessState.Success() {
		return nil // it ended well; only its children kept the output open
	}
	return err
}

func signalGroup(cmd *exec.Cmd, sig syscall.Signal) error {
	return syscall.Kill(-cmd.Process.Pid, sig)
}

// tail keeps the end of a command's output.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

// maxTail is how much of the output is kept, in bytes.
const maxTail = 4 << 10

// Write implements io.Writer and never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	if n >= maxTail {
		t.kept, p = t.kept[:0], p[n-maxTail:]
	} else if over := len(t.kept) + n - maxTail; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	t.kept = append(t.kept, p...)
	return n, nil
}

// quote is the output for an error's text: ": ..." on one line, or nothing.
func (t *tail) quote() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.Join(strings.Fields(string(t.kept)), " ")
	if text == "" {
		return ""
	}
	return ": " + dag.CutText(text, 512)
}
