package ffmpeg

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/proc"
	"github.com/airlock-dag/airlock/executor/fault"
)

// Ending is all that is known of a finished ffmpeg or ffprobe.
type Ending struct {
	Result  proc.Result
	Stderr  string // the tail, see Stderr.Tail
	Version Version
	// Input and Output are the paths that the command line named, to tell
	// which of them a line is about.
	Input, Output string
	// DecodeErrors is the number of lines that tell of damaged input.
	DecodeErrors int
	// Last is the last progress block.
	Last Progress
}

// StopError is why a Limits ended the process; it is the cause of the stop in
// proc.Result.
type StopError struct {
	Class   dag.ErrorClass
	Code    string
	Message string
	Hint    string
}

// Error implements error.
func (e *StopError) Error() string { return e.Message }

// Classify names the failure, or gives nil for an ending that shows none: the
// output must then still be verified, because a status of 0 is no success. A
// full disk is found at a status of 0, too: 5.1 ends so when it cannot write
// the last bytes.
//
// A process that was ended for a cause other than a StopError (a timeout, a
// lost lease) is for the caller to name: Classify gives FFMPEG_STOPPED for it.
func (e Ending) Classify() *dag.TaskError {
	fail, _ := e.Explain()
	return fail
}

// Explain is Classify with the evidence that decided, a sentence each.
func (e Ending) Explain() (*dag.TaskError, []string) {
	fail, why := e.classify()
	if fail == nil {
		return nil, why
	}
	if fail.Stack == "" {
		fail.Stack = tailOf(e.Stderr, dag.MaxStackTrace)
	}
	if e.Result.Signal != 0 {
		fail.Signal = fault.SignalName(e.Result.Signal)
	} else if e.Result.ExitCode >= 0 {
		code := e.Result.ExitCode
		fail.ExitCode = &code
	}
	return fail, why
}

func (e Ending) classify() (fail *dag.TaskError, why []string) {
	say := func(format string, args ...any) []string { return []string{fmt.Sprintf(format, args...)} }
	// 1. What we did.
	if e.Result.Stopped != nil {
		var stop *StopError
		if errors.As(e.Result.Stopped, &stop) {
			return &dag.TaskError{Class: stop.Class, Code: stop.Code, Message: stop.Message, Hint: stop.Hint},
				say("Airlock ended ffmpeg: %s", stop.Message)
		}
		return &dag.TaskError{Class: dag.ClassTransient, Code: CodeStopped, Message: "ffmpeg was stopped: " + e.Result.Stopped.Error()},
			say("Airlock ended ffmpeg: %v", e.Result.Stopped)
	}
	// 2. A signal from somebody else.
	if e.Result.Signal != 0 {
		return e.signalled(), say("%s ended ffmpeg, and Airlock did not send it", fault.SignalName(e.Result.Signal))
	}
	lines, table := errorLines(e.Stderr), Signatures()
	if e.Result.ExitCode == 0 {
		for i := len(lines) - 1; i >= 0; i-- {
			if s := match(table, lines[i], e.Version.Major, 1); s != nil && s.Code == CodeNoSpace {
				return fromSignature(s, lines[i]), say("ffmpeg ended with 0 and said %q", lines[i])
			}
		}
		return nil, say("ffmpeg ended with 0: the output decides")
	}
	// 3. Its own words.
	for rank := 1; rank <= LastRank; rank++ {
		for i := len(lines) - 1; i >= 0; i-- {
			s := match(table, lines[i], e.Version.Major, rank)
			if s == nil {
				continue
			}
			why := say("the line %q has the signature /%s/ (rank %d)", lines[i], s.Pattern, rank)
			if s.Code == CodeInputMissing && e.Output != "" && strings.Contains(lines[i], e.Output) {
				return &dag.TaskError{
					Class: dag.ClassConfiguration, Code: CodeOutputDirMissing,
					Message: message(lines[i]), Hint: "make the output folder",
				}, append(why, "the line is about the output")
			}
			return fromSignature(s, lines[i]), why
		}
	}
	// 4. The exit status.
	return e.byExitCode(lines), say("no line has a known signature: exit status %d of ffmpeg %d decides", e.Result.ExitCode, e.Version.Major)
}

func (e Ending) signalled() *dag.TaskError {
	fail := &dag.TaskError{Class: dag.ClassTransient, Code: CodeKilled, Budget: dag.BudgetCrashes}
	name := fault.SignalName(e.Result.Signal)
	switch {
	case e.Result.OutOfMemory:
		fail.Code = CodeOOMKilled
		fail.Message = "the kernel ended ffmpeg for memory"
		fail.Hint = "give the worker more memory or run fewer encodes at once"
	case e.Result.Signal == syscall.SIGXFSZ:
		fail.Code, fail.Budget = CodeNoSpace, ""
		fail.Message = "the output reached the greatest size that the system allows the worker"
	case e.Result.Signal == syscall.SIGKILL:
		fail.Message = "somebody ended ffmpeg with " + name + "; it may have been the kernel, for memory"
	default:
		fail.Message = "ffmpeg ended by " + name
	}
	return fail
}

func (e Ending) byExitCode(lines []string) *dag.TaskError {
	code := e.Result.ExitCode
	if code == 255 && len(lines) == 0 {
		// All versions end so after SIGTERM, SIGINT and SIGXCPU, and say nothing
		// at this log level.
		return &dag.TaskError{
			Class: dag.ClassTransient, Code: CodeStopped,
			Message: "ffmpeg ended with 255 and without an error, as it does when somebody sends it a signal",
		}
	}
	for _, m := range ExitMeanings() {
		if m.ExitCode == code && (e.Version.Major == 0 || (e.Version.Major >= m.Since && (m.Until == 0 || e.Version.Major <= m.Until))) {
			return &dag.TaskError{Class: m.Class, Code: m.Code, Message: fmt.Sprintf("ffmpeg ended with %d%s", code, lastWords(lines))}
		}
	}
	return &dag.TaskError{
		Class: dag.ClassTransient, Code: CodeFailed,
		Message: fmt.Sprintf("ffmpeg ended with %d%s", code, lastWords(lines)),
	}
}

func match(table []Signature, line string, major, rank int) *Signature {
	for i := range table {
		if s := &table[i]; s.Rank == rank && s.Applies(major) && s.Pattern.MatchString(line) {
			return s
		}
	}
	return nil
}

func fromSignature(s *Signature, line string) *dag.TaskError {
	return &dag.TaskError{Class: s.Class, Code: s.Code, Message: message(line), Hint: s.Hint}
}

// errorLines are the lines that are no warnings, but for the one that says that
// the container was guessed. Lines of libraries (x264)
// have no level and count.
func errorLines(stderr string) []string {
	var out []string
	for line := range strings.Lines(stderr) {
		line = strings.TrimSpace(line)
		warning := strings.Contains(line, "[warning]") || strings.Contains(line, "[info]")
		if line == "" || (warning && !strings.Contains(line, "detected only with low score")) {
			continue
		}
		out = append(out, line)
	}
	return out
}

// message is a line without its level.
func message(line string) string {
	for _, level := range []string{"[error] ", "[fatal] ", "[panic] "} {
		line = strings.Replace(line, level, "", 1)
	}
	return clip(line, 1000)
}

func lastWords(lines []string) string {
	if len(lines) == 0 {
		return " and said nothing"
	}
	return ": " + message(lines[len(lines)-1])
}

// tailOf is the end of a text, cut at a line.
func tailOf(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	text = text[len(text)-limit:]
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	return text
}
