package fault

import (
	"fmt"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/proc"
)

// Evidence is what is known of a failed attempt. Zero fields are not known.
type Evidence struct {
	// Stopped is the cause when Airlock ended the attempt itself.
	Stopped error
	// ExitCode of the process, when it exited.
	ExitCode *int
	// Signal that ended the process: "SIGKILL", "KILL" or "9".
	Signal string
	// OutOfMemory: the kernel says that it ended the process for memory.
	OutOfMemory bool
	// Stderr is the end of what the process wrote.
	Stderr string
	// HTTPStatus and RetryAfter (the header's text) of an answer; Now is what a
	// Retry-After date is measured from.
	HTTPStatus int
	RetryAfter string
	Now        time.Time
	// SQLError is a database's error number, Engine the database.
	SQLError int
	Engine   string
}

// ClassifyWith says what a failure is, and why, step by step: by the tables that
// hold for every step, a step's own rules and its program's table.
//
// The order is: what Airlock itself did, a signal, the step's own word (the
// control line), the program's table, HTTP status, the conventions for exit
// codes; unknown is transient. The step's fail_on and retry_on are then asked
// about the result, unless the step has spoken for itself.
func ClassifyWith(e Evidence, rules Rules) (dag.TaskError, []string) {
	te, why, decided := base(e, rules)
	if te.Stack == "" {
		te.Stack = tail(e.Stderr, dag.MaxStackTrace)
	}
	if decided {
		te.Decided = true
		return te, why
	}
	stderr := e.Stderr
	if te.ExitCode == nil && (e.Stopped != nil || e.Signal != "") {
		stderr = "" // what it wrote did not end it
	}
	te, more := applyStep(rules, te, stderr)
	why = append(why, more...)
	if len(more) == 0 && len(rules.FailOn)+len(rules.RetryOn) > 0 {
		why = append(why, "no rule of the step's fail_on and retry_on matches")
	}
	return te, why
}

// Process classifies the end of a child process that did not succeed. The end
// of stderr becomes the error's stack.
func Process(r proc.Result, stderrTail string, rules Rules) *dag.TaskError {
	e := Evidence{Stopped: r.Stopped, OutOfMemory: r.OutOfMemory, Stderr: stderrTail}
	switch {
	case r.Signal != 0:
		e.Signal = SignalName(r.Signal)
	case r.ExitCode >= 0:
		code := r.ExitCode
		e.ExitCode = &code
	}
	te, _ := ClassifyWith(e, rules)
	return &te
}

// base classifies without the step's rules; decided is set when they are not
// to be asked.
func base(e Evidence, rules Rules) (te dag.TaskError, why []string, decided bool) {
	if e.Stopped != nil {
		te = *Stopped(e.Stopped)
		return te, []string{fmt.Sprintf("Airlock ended the attempt (%v): %s, whatever the process says", e.Stopped, te.Code)}, false
	}
	if e.Signal != "" {
		te, why = classifySignal(e)
		return te, why, false
	}
	if e.ExitCode != nil {
		why = append(why, fmt.Sprintf("the process exited with code %d", *e.ExitCode))
	}
	control, found, note := readControl(e.Stderr)
	if note != "" {
		why = append(why, note)
	}
	if found {
		te, line := control.failure(e)
		te.ExitCode = e.ExitCode
		return te, append(why, line), true
	}
	rule, ok, notes := match(rules.Table, e)
	why = append(why, notes...)
	if ok {
		te = rule.failure(message(e))
		te.ExitCode = e.ExitCode
		return te, append(why, fmt.Sprintf("the table's rule %s matches: %s is %s", rule.label(), te.Code, te.Class)), false
	}
	switch {
	case e.HTTPStatus != 0:
		te, more := classifyHTTP(e.HTTPStatus, e.RetryAfter, e.Now)
		return te, append(why, more...), false
	case e.SQLError != 0:
		te = *New(CodeSQLError, message(e))
		return te, append(why, fmt.Sprintf("%s error %d is in no table: unknown is transient", e.Engine, e.SQLError)), false
	case e.ExitCode == nil:
		te = *New(CodeInternal, message(e))
		return te, append(why, "nothing is known of it: unknown is transient"), false
	}
	te, line := classifyExit(e, rules.Native)
	te.ExitCode = e.ExitCode
	return te, append(why, line), false
}

// classifySignal is for a process that a signal ended which Airlock did not
// send. It spends the crash budget: nobody is there to say why.
func classifySignal(e Evidence) (dag.TaskError, []string) {
	sig, ok := ParseSignal(e.Signal)
	name := e.Signal
	words := "killed by signal " + name
	if ok {
		name = SignalName(sig)
		words = fmt.Sprintf("killed by signal %d (%s)", int(sig), name)
	}
	code := CodeKilledSignal
	if e.OutOfMemory {
		code = CodeOOMKilled
		words += ": the kernel ran out of memory for it"
	}
	te := *New(code, words)
	te.Signal = name
	return te, []string{fmt.Sprintf("%s, and Airlock did not send it: %s spends the crash budget", words, code)}
}

// ExitRule is one line of the conventions for exit codes.
type ExitRule struct {
	Exit    int
	Code    string
	Meaning string
}

// ExitTable has the exit codes that mean the same for every shell step. 99 is
// not among them: it is no failure but a skip, and the operator's business.
func ExitTable() []ExitRule {
	t := []ExitRule{
		{65, CodeDataError, "EX_DATAERR: the input is wrong"},
		{75, CodeTemporaryFailure, "EX_TEMPFAIL: it may work later"},
		{126, CodeCommandNotExecutable, "the shell could not execute the command"},
		{127, CodeCommandNotFound, "the shell did not find the command"},
	}
	for _, sig := range []syscall.Signal{1, 2, 3, 4, 6, 7, 8, 9, 11, 15} {
		t = append(t, ExitRule{128 + int(sig), CodeKilledSignal,
			fmt.Sprintf("the shell's own child was killed by signal %d (%s)", int(sig), SignalName(sig))})
	}
	return t
}

func classifyExit(e Evidence, native bool) (dag.TaskError, string) {
	if !native {
		for _, r := range ExitTable() {
			if r.Exit != *e.ExitCode {
				continue
			}
			code, text := r.Code, message(e)
			if code == CodeKilledSignal {
				text = fmt.Sprintf("exit code %d: %s", r.Exit, r.Meaning)
				if e.OutOfMemory {
					code = CodeOOMKilled
				}
			}
			te := *New(code, text)
			if r.Code == CodeKilledSignal {
				te.Signal = SignalName(syscall.Signal(r.Exit - 128))
			}
			return te, fmt.Sprintf("exit code %d by convention (%s): %s is %s", r.Exit, r.Meaning, code, te.Class)
		}
	}
	return *New(CodeExitCode, message(e)), fmt.Sprintf("exit code %d has no meaning of its own: unknown is transient", *e.ExitCode)
}

// message describes a failure in one line: the number, and the last thing that
// the process said.
func message(e Evidence) string {
	var head string
	switch {
	case e.ExitCode != nil:
		head = fmt.Sprintf("exit code %d", *e.ExitCode)
	case e.SQLError != 0:
		head = fmt.Sprintf("%s error %d", e.Engine, e.SQLError)
	default:
		head = "failed"
	}
	if last := lastLine(e.Stderr); last != "" {
		return head + ": " + last
	}
	return head
}

const maxLastLine = 500

// lastLine is the last line with something in it that is not a control line,
// cut to a length for a message.
func lastLine(text string) string {
	lines := strings.Split(text, "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		line := strings.TrimSpace(strings.ToValidUTF8(lines[i], "\uFFFD"))
		if line == "" || strings.HasPrefix(line, controlPrefix) {
			continue
		}
		if len(line) > maxLastLine {
			cut := maxLastLine
			for !utf8.RuneStart(line[cut]) {
				cut--
			}
			line = line[:cut] + "..."
		}
		return strings.ReplaceAll(line, "\x00", "\u2400")
	}
	return ""
}

// tail is the last n bytes of a text, from the beginning of a character.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[len(s)-n:]
	for len(s) > 0 && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return s
}
