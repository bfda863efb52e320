package command

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/proc"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/operator"
)

const (
	// LastLineLimit is the longest last line of stdout that is kept, in bytes.
	LastLineLimit = 1 << 20
	// stderrTail is how much of the end of stderr is kept to classify a failure.
	stderrTail = 64 << 10
	// sweepGrace is how long processes that left the group may take to end.
	sweepGrace = 2 * time.Second
)

// Command is the child process of an attempt.
type Command struct {
	Argv []string
	Dir  string
	// Env is added to this process's own environment, or stands for it when
	// ReplaceEnv is set; the attempt's variables come on top.
	Env        map[string]string
	ReplaceEnv bool
	Stdin      io.Reader
}

// Ending is how the child ended.
type Ending struct {
	// Err is set when the child did not exit with 0 or was ended by us; it is
	// classified by the process tables and the step's rules.
	Err *dag.TaskError
	// ExitCode is -1 when the child did not exit.
	ExitCode int
	// LastLine is the last line of stdout without trailing white space.
	// LastLineCut is set when it was longer than LastLineLimit.
	LastLine    string
	LastLineCut bool
}

// Run runs the child to its end. When it returns, no process that the child
// started is alive, whatever group or session it moved to, as long as it kept
// the attempt's mark in its environment.
func Run(ctx context.Context, t *operator.Task, c Command) Ending {
	var end Ending
	last := &lastLine{}
	stdout := proc.NewLineWriter(LastLineLimit, func(line []byte, cut int64) {
		last.keep(line, cut)
		logLine(t.Log, line, cut)
	})
	stderr := proc.NewLineWriter(0, func(line []byte, cut int64) { logLine(t.Log, line, cut) })
	tail := proc.NewTail(stderrTail)
	var base []string // this process's own
	if c.ReplaceEnv {
		base = []string{}
	}
	res, err := proc.Run(ctx, proc.Command{
		Argv: c.Argv, Dir: c.Dir, Env: base, ExtraEnv: environment(t, c.Env), Stdin: c.Stdin, Marker: t.Marker,
		Stdout: stdout, Stderr: io.MultiWriter(tail, stderr),
	})
	stdout.Flush()
	stderr.Flush()
	if t.Marker != "" {
		n, err := proc.Sweep(t.Marker, sweepGrace)
		if n > 0 {
			fmt.Fprintf(t.Log, "airlock: ended %d processes that the step had left behind\n", n)
		}
		if err != nil {
			fmt.Fprintf(t.Log, "airlock: %v\n", err)
		}
	}
	end.LastLine, end.LastLineCut = last.text()
	switch {
	case err != nil:
		end.ExitCode, end.Err = -1, fault.Apply(t.Def, fault.Start(err), "")
	case res.Stopped != nil:
		end.ExitCode, end.Err = -1, fault.Process(res, tail.String(), fault.StepRules(t.Def))
	case res.ExitCode != 0:
		end.ExitCode, end.Err = res.ExitCode, fault.Process(res, tail.String(), fault.StepRules(t.Def))
	}
	return end
}

// logLine writes one line of output, cut to what a log line may have.
func logLine(log io.Writer, line []byte, cut int64) {
	if len(line) > proc.DefaultLineLimit {
		cut += int64(len(line) - proc.DefaultLineLimit)
		line = line[:proc.DefaultLineLimit]
	}
	text := proc.Printable(line)
	if cut > 0 {
		text += fmt.Sprintf(" [... %d bytes left out ...]", cut)
	}
	_, _ = io.WriteString(log, text+"\n") // a log that cannot be written must not fail the step
}

// lastLine keeps the newest line.
type lastLine struct {
	line []byte
	cut  bool
}

func (l *lastLine) keep(line []byte, cut int64) {
	l.line = append(l.line[:0], line...)
	l.cut = cut > 0
}

func (l *lastLine) text() (string, bool) {
	return proc.Printable(bytes.TrimRight(l.line, " \t\r\v\f")), l.cut
}
