package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/airlock-dag/airlock/callbacks"
	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/proc"
)

// limit is the longest that a command may run.
const limit = 60 * time.Second

// Exit codes with a meaning, as for shell steps.
const (
	exitDataErr     = 65 // EX_DATAERR: do not repeat
	exitNotRunnable = 126
	exitNotFound    = 127
)

// grace is the time between SIGTERM and SIGKILL.
const grace = 2 * time.Second

// maxTail is how much of the output is kept, in bytes.
const maxTail = 4 << 10

// Notifier runs commands. Make it with New.
type Notifier struct {
	shell, installation string
}

// New makes the notifier. Commands run in /bin/sh. installation names the
// installation on this machine: its commands carry it with their event, so that
// what a killed process left behind of an event is found and ended before the
// event is delivered again. Nothing is looked for when it is empty.
func New(installation string) *Notifier {
	return &Notifier{shell: "/bin/sh", installation: installation}
}

// Name implements callbacks.Notifier.
func (*Notifier) Name() string { return "command" }

// TemplateContext implements callbacks.ContextAdapter. The texts of errors come
// from anywhere, and in a command they must not act: whatever means something
// to a shell becomes a space. The environment has them as they are.
func (*Notifier) TemplateContext(c dag.EventContext) dag.EventContext {
	c.Exception = harmless(c.Exception)
	c.ErrorMessage = harmless(c.ErrorMessage)
	return c
}

// harmless leaves letters, digits, spaces and what no shell takes for more than
// itself, inside and outside of quotes.
func harmless(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("@%+=:,./_-", r) {
			return r
		}
		return ' '
	}, s)
	return strings.Join(strings.Fields(s), " ")
}

// Spec describes the arguments.
func Spec() dag.OperatorSpec {
	return dag.OperatorSpec{
		Name: "command",
		Fields: []dag.Field{
			{Name: "command", Type: dag.FieldString, Required: true},
			{Name: "env", Type: dag.FieldMap},
			{Name: "cwd", Type: dag.FieldString},
			{Name: "timeout", Type: dag.FieldDuration},
		},
	}
}

// Notify implements callbacks.Notifier: exit 0 is a delivery.
func (n *Notifier) Notify(ctx context.Context, d callbacks.Delivery) error {
	if err := d.Args.Check(Spec()); err != nil {
		return err
	}
	line, err := d.Args.Text("command")
	if err != nil {
		return err
	}
	if strings.TrimSpace(line) == "" {
		return callbacks.Permanent(errors.New("command is missing: give the shell command to run"))
	}
	cwd, err := d.Args.Text("cwd")
	if err != nil {
		return err
	}
	env, err := d.Args.Texts("env")
	if err != nil {
		return err
	}
	timeout, err := d.Args.Duration("timeout", limit)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	marker := n.marker(d.Event.ID)
	if marker != "" {
		switch ended, err := proc.Sweep(marker, grace); {
		case err != nil: // it would run beside this one
			return fmt.Errorf("an earlier delivery of this event still runs: %w", err)
		case ended > 0:
			d.Warn("ended what an earlier delivery of this event had left behind", "processes", ended)
		}
	}
	out := proc.NewTail(maxTail)
	res, err := proc.Run(limited, proc.Command{
		Argv: []string{n.shell, "-c", line}, Dir: cwd, ExtraEnv: environment(d, env), Marker: marker, Grace: grace,
		Stdin: bytes.NewReader(append(bytes.Clone(d.Body), '\n')), Stdout: out, Stderr: out,
	})
	if marker != "" && err == nil { // what left the group, too
		if _, left := proc.Sweep(marker, grace); left != nil {
			d.Warn("something that the command started does not end", "error", left)
		}
	}
	switch {
	case err != nil:
		return notStarted(err)
	case res.Stopped == nil:
		return verdict(res, out)
	case ctx.Err() != nil:
		return ctx.Err() // ended from outside
	default:
		return &callbacks.Failure{Err: fmt.Errorf("the command did not end within %s%s", timeout, quote(out)), Down: true}
	}
}

// marker is what the processes of an event's command carry in their environment.
func (n *Notifier) marker(event int64) string {
	if n.installation == "" {
		return ""
	}
	return fmt.Sprintf("%s/event/%d", n.installation, event)
}

// notStarted says whether a command that could not be started may be later.
func notStarted(err error) error {
	for _, scarce := range []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.ETXTBSY} {
		if errors.Is(err, scarce) {
			return fmt.Errorf("the command cannot be started now: %w", err)
		}
	}
	return callbacks.Permanent(fmt.Errorf("the command cannot be started: %w", err))
}

// verdict says what the way in which a command ended by itself means.
func verdict(res proc.Result, out *proc.Tail) error {
	end := fmt.Sprintf("exit status %d", res.ExitCode)
	switch {
	case res.ExitCode == 0:
		return nil
	case res.Signal != 0:
		end = fmt.Sprintf("signal: %s", res.Signal)
	case res.ExitCode < 0:
		end = "an exit status that nobody knows"
	}
	f := &callbacks.Failure{Err: fmt.Errorf("the command ended with %s%s", end, quote(out))}
	switch res.ExitCode {
	case exitDataErr, exitNotFound, exitNotRunnable:
		f.Permanent = true
	}
	return f
}

// quote is the output for an error's text: ": ..." on one line, or nothing.
func quote(out *proc.Tail) string {
	text := strings.Join(strings.Fields(out.String()), " ")
	if text == "" {
		return ""
	}
	return ": " + dag.CutText(text, 512)
}

// environment is what a command learns from variables; the receiver's own come
// last and win.
func environment(d callbacks.Delivery, own map[string]string) []string {
	c := d.Context
	vars := []struct{ name, value string }{
		{"EVENT", string(c.Event)}, {"DEDUP_KEY", c.DedupKey}, {"DAG_ID", c.DagID}, {"RUN_ID", c.RunID},
		{"TASK_ID", c.TaskID}, {"MAP_INDEX", strconv.Itoa(c.MapIndex)}, {"TRY_NUMBER", strconv.Itoa(c.TryNumber)},
		{"MAX_TRIES", strconv.Itoa(c.MaxTries)}, {"STATE", c.State}, {"REASON", c.Reason},
		{"LOGICAL_DATE", instant(c.LogicalDate)}, {"NEXT_TRY_AT", instant(c.NextTryAt)},
		{"EXCEPTION", c.Exception}, {"ERROR_CLASS", string(c.ErrorClass)}, {"ERROR_CODE", c.ErrorCode},
		{"ERROR_MESSAGE", c.ErrorMessage}, {"LOG_PATH", c.LogPath},
		{"ALERT_KEY", c.AlertKey}, {"CIRCUIT", c.Circuit},
	}
	out := make([]string, 0, len(vars)+len(own))
	for _, v := range vars {
		out = append(out, "AIRLOCK_"+v.name+"="+noNUL(v.value))
	}
	for k, v := range own {
		out = append(out, noNUL(k)+"="+noNUL(v))
	}
	return out
}

func instant(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// noNUL takes out what no environment can hold.
func noNUL(s string) string { return strings.ReplaceAll(s, "\x00", "") }
