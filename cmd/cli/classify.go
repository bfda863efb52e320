package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/sql/dialect"
)

type classifyCmd struct {
	ExitCode   *int   `name:"exit-code" placeholder:"N" help:"A process's exit code."`
	Signal     string `placeholder:"NAME" help:"The signal that ended a process: KILL, SIGKILL or 9."`
	OOM        bool   `name:"oom" help:"The kernel ended the process for memory."`
	Stderr     string `placeholder:"TEXT" help:"The end of what the process wrote."`
	StderrFile string `name:"stderr-file" placeholder:"FILE" help:"A file with it; - for the standard input."`
	FFmpegLog  string `name:"ffmpeg-log" placeholder:"FILE" help:"A file with what ffmpeg wrote, read by the tables of the media steps; - for the standard input."`
	FFmpeg     string `name:"ffmpeg-version" placeholder:"N" help:"The release that wrote it (7.1); found in the file where it stands there, else all are tried."`
	HTTP       int    `name:"http" placeholder:"STATUS" help:"The status of an HTTP answer."`
	RetryAfter string `name:"retry-after" placeholder:"TEXT" help:"Its Retry-After header."`
	MySQL      int    `name:"mysql" xor:"engine" placeholder:"N" help:"MySQL's error number."`
	MariaDB    int    `name:"mariadb" xor:"engine" placeholder:"N" help:"MariaDB's error number."`
	SQLite     int    `name:"sqlite" xor:"engine" placeholder:"N" help:"SQLite's result code."`
	Dag        string `short:"d" placeholder:"DAG" help:"Use the rules of a task of this DAG (with --task)."`
	Task       string `short:"t" placeholder:"TASK" help:"The task whose retry_on and fail_on are asked too."`
	outputFlag
}

// classified is what `airlock classify` tells.
type classified struct {
	dag.TaskError
	RetryAfter float64  `json:"retry_after,omitempty"` // seconds
	Retried    bool     `json:"retried"`
	Why        []string `json:"why"`
}

// Run explains what a failure with the given evidence is.
func (c classifyCmd) Run(ctx context.Context, s *session) error {
	evidence, err := c.evidence(s)
	if err != nil {
		return err
	}
	task := &dag.Task{} // one without rules of its own
	if c.Dag != "" || c.Task != "" {
		if _, task, err = s.task(ctx, c.Dag, c.Task); err != nil {
			return err
		}
	}
	te, why := classify(evidence, task)
	if c.FFmpegLog != "" {
		if te, why, err = c.classifyFFmpeg(evidence, task); err != nil {
			return err
		}
	}
	result := classified{TaskError: te, RetryAfter: te.RetryAfter.Seconds(), Retried: te.Class == dag.ClassTransient, Why: why}
	next := "sealed at once"
	if result.Retried {
		next = "retried while its budget lasts"
	}
	if te.Class == "" {
		next = "not decided yet"
	}
	return printPairs(s.env.Stdout, c.Output, result, []pair{
		{"error_class", string(te.Class)},
		{"error_code", te.Code},
		{"error_message", te.Message},
		{"budget", budget(te)},
		{"retry_after", retryAfter(te)},
		{"so it is", next},
		{"hint", te.Hint},
		{"why", strings.Join(why, "\n")},
	})
}

// classify asks the database's table for a database's number, and the tables of
// package fault for the rest; then the task's own rules.
func classify(e fault.Evidence, task *dag.Task) (dag.TaskError, []string) {
	if e.SQLError == 0 {
		return fault.ClassifyWith(e, fault.StepRules(task))
	}
	kind := dialect.Kind(e.Engine)
	te := dialect.NumberedTaskError(kind, e.SQLError)
	why := []string{fmt.Sprintf("%s error %d is of the class %q: %s is %s", kind, e.SQLError, dialect.ClassOfNumber(kind, e.SQLError), te.Code, te.Class)}
	if own := fault.Apply(task, te, e.Stderr); own.Class != te.Class || own.Code != te.Code {
		te, why = own, append(why, fmt.Sprintf("the step's own rules make it %s, %s", own.Code, own.Class))
	}
	return *te, why
}

// evidence is what the flags say; nothing at all is wrong use.
func (c classifyCmd) evidence(s *session) (fault.Evidence, error) {
	e := fault.Evidence{
		ExitCode: c.ExitCode, Signal: c.Signal, OutOfMemory: c.OOM, Stderr: c.Stderr,
		HTTPStatus: c.HTTP, RetryAfter: c.RetryAfter, Now: s.env.Clock.Now(),
	}
	switch {
	case c.MySQL != 0:
		e.SQLError, e.Engine = c.MySQL, "mysql"
	case c.MariaDB != 0:
		e.SQLError, e.Engine = c.MariaDB, "mariadb"
	case c.SQLite != 0:
		e.SQLError, e.Engine = c.SQLite, "sqlite"
	}
	if c.StderrFile != "" {
		content, err := s.readFile(c.StderrFile)
		if err != nil {
			return e, err
		}
		e.Stderr = string(content)
	}
	if c.FFmpegLog != "" {
		content, err := s.readFile(c.FFmpegLog)
		if err != nil {
			return e, err
		}
		e.Stderr = string(content)
	}
	if c.FFmpegLog == "" && e.ExitCode == nil && e.Signal == "" && e.Stderr == "" && e.HTTPStatus == 0 && e.SQLError == 0 {
		return e, wrong("classify", "give --exit-code, --signal, --stderr, --ffmpeg-log, --http, --mysql, --mariadb or --sqlite", "nothing is said of the failure")
	}
	if c.ExitCode != nil && (*c.ExitCode < 0 || *c.ExitCode > 255) {
		return e, wrong("classify", "write 0 to 255; what a signal ended has --signal", "%d is no exit code", *c.ExitCode)
	}
	if e.Signal != "" {
		if _, ok := fault.ParseSignal(e.Signal); !ok {
			return e, wrong("classify", "write KILL, SIGKILL or 9", "%q is no signal", e.Signal)
		}
	}
	return e, nil
}

func budget(te dag.TaskError) string {
	if te.Class != dag.ClassTransient {
		return ""
	}
	if te.Budget == "" {
		return string(dag.BudgetFailures)
	}
	return string(te.Budget)
}

func retryAfter(te dag.TaskError) string {
	if te.RetryAfter == 0 {
		return ""
	}
	return fmt.Sprint(te.RetryAfter)
}
