//go:build unix

package proc

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-dag/airlock/dag"
)

const (
	copyBuffer = 64 << 10
	// eofWait is how long the end of an output is waited for after the whole
	// group has ended: only a process outside the group can hold the pipe then.
	eofWait = 100 * time.Millisecond
	// idleWait ends the reading of such a pipe when nothing more comes.
	idleWait = time.Second
)

// pipeSet is the parent's side of a child's standard streams.
type pipeSet struct {
	childEnds []*os.File
	outputs   []*output
	stdin     *os.File
	source    io.Reader
}

// output is one pipe and where its bytes go.
type output struct {
	r    *os.File
	w    io.Writer
	done chan struct{}
}

// connect gives the command its streams. Files are handed over as they are;
// nil streams are the null device.
func connect(cmd *exec.Cmd, c Command) (*pipeSet, error) {
	p := &pipeSet{}
	out, err := p.output(c.Stdout)
	if err != nil {
		return nil, err
	}
	cmd.Stdout = out
	if c.Stderr != nil && sameWriter(c.Stdout, c.Stderr) {
		cmd.Stderr = cmd.Stdout
	} else {
		errOut, err := p.output(c.Stderr)
		if err != nil {
			p.childHasThem()
			p.abandon()
			return nil, err
		}
		cmd.Stderr = errOut
	}
	switch in := c.Stdin.(type) {
	case nil:
	case *os.File:
		cmd.Stdin = in
	default:
		r, w, err := os.Pipe()
		if err != nil {
			p.childHasThem()
			p.abandon()
			return nil, err
		}
		cmd.Stdin, p.stdin, p.source = r, w, in
		p.childEnds = append(p.childEnds, r)
	}
	return p, nil
}

// output makes the child's end of one output stream; a nil writer gives nil.
func (p *pipeSet) output(w io.Writer) (io.Writer, error) {
	switch w := w.(type) {
	case nil:
		return nil, nil // exec.Cmd reads a nil stream as the null device
	case *os.File:
		return w, nil
	default:
		r, child, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		p.outputs = append(p.outputs, &output{r: r, w: w, done: make(chan struct{})})
		p.childEnds = append(p.childEnds, child)
		return child, nil
	}
}

// sameWriter compares two writers; those of an incomparable type are not the
// same.
func sameWriter(a, b io.Writer) (same bool) {
	defer func() {
		if recover() != nil {
			same = false
		}
	}()
	return a == b
}

// childHasThem closes the child's ends in this process: only then does the end
// of the child end the reading.
func (p *pipeSet) childHasThem() {
	for _, f := range p.childEnds {
		_ = f.Close()
	}
	p.childEnds = nil
}

// abandon closes the pipes of a child that was never started.
func (p *pipeSet) abandon() {
	for _, o := range p.outputs {
		_ = o.r.Close()
	}
	if p.stdin != nil {
		_ = p.stdin.Close()
	}
}

// copy starts the goroutines that feed and read the child.
func (p *pipeSet) copy() {
	for _, o := range p.outputs {
		go o.copy()
	}
	if p.stdin != nil {
		go func() {
			_, _ = io.Copy(p.stdin, p.source) // a child need not read all of it
			_ = p.stdin.Close()
		}()
	}
}

// finish returns when all that the child wrote has been delivered.
func (p *pipeSet) finish() {
	if p.stdin != nil {
		_ = p.stdin.Close()
	}
	if len(p.outputs) == 0 {
		return
	}
	wait := dag.SystemClock{}.After(eofWait)
	for _, o := range p.outputs {
		select {
		case <-o.done:
			continue
		case <-wait:
		}
		for _, o := range p.outputs {
			_ = o.r.SetReadDeadline(dag.SystemClock{}.Now())
		}
		break
	}
	for _, o := range p.outputs {
		<-o.done
		_ = o.r.Close()
	}
}

// copy reads the pipe until its end or, once finish has set a deadline to wake
// it, until all is read that the pipe held then. A writer that fails is not
// asked again, but the reading goes on.
func (o *output) copy() {
	defer close(o.done)
	buf := make([]byte, copyBuffer)
	broken, draining := false, false
	left := 0
	for {
		n, err := o.r.Read(buf)
		if n > 0 && !broken {
			_, werr := o.w.Write(buf[:n])
			broken = werr != nil
		}
		woken := errors.Is(err, os.ErrDeadlineExceeded) && !draining
		if err != nil && !woken {
			return
		}
		if woken {
			draining, left = true, held(o.r)
		}
		if draining {
			left -= n
			if left <= 0 || o.r.SetReadDeadline(dag.SystemClock{}.Now().Add(idleWait)) != nil {
				return
			}
		}
	}
}

// held is how many bytes a pipe holds.
func held(f *os.File) int {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	n := 0
	_ = conn.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), fionread) })
	if err != nil {
		return 0
	}
	return n
}
