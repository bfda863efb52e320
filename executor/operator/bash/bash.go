package bash

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/plainfile"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/operator"
	"github.com/airlock-dag/airlock/executor/operator/command"
)

// maxInline is the longest command that is passed on bash's command line; the
// kernel refuses an argument of 128 KiB.
const maxInline = 100 << 10

// maxScript is the largest script file that is read.
const maxScript = 8 << 20

// Operator runs a shell command or script with bash.
type Operator struct{}

// New makes the operator.
func New() Operator { return Operator{} }

// UsesScratch implements operator.Scratch.
func (Operator) UsesScratch() bool { return true }

// Spec implements operator.Operator.
func (Operator) Spec() dag.OperatorSpec {
	return dag.OperatorSpec{
		Name: "bash",
		Aliases: []string{
			"airflow.providers.standard.operators.bash.BashOperator",
			"airflow.operators.bash.BashOperator",
			"airflow.operators.bash_operator.BashOperator",
		},
		Doc: "Runs a shell command or script with bash; the last line of its output is the XCom.",
		Fields: []dag.Field{
			{Name: "bash_command", Type: dag.FieldString, Required: true, Templated: true, Mappable: true,
				Doc: "The command, or the path of a .sh or .bash file below the DAG's folder."},
			{Name: "env", Type: dag.FieldMap, Templated: true, Mappable: true,
				Doc: "Environment variables; without append_env they replace the worker's own."},
			{Name: "append_env", Type: dag.FieldBool, Mappable: true, Default: false,
				Doc: "Keep the worker's environment below env."},
			{Name: "cwd", Type: dag.FieldString, Templated: true, Mappable: true,
				Doc: "Working folder, relative to the DAG's file; a fresh folder that is removed afterwards when not given."},
			{Name: "skip_on_exit_code", Type: dag.FieldAny, Mappable: true, Default: 99,
				Doc: "Exit code, or list of exit codes, that means skipped; null for none."},
		},
		Ignored:  []string{"output_encoding", "output_processor"},
		Validate: validate,
		ValidateAt: func(args map[string]any, at dag.Place) []dag.Problem {
			return operator.MissingFiles(args, "bash_command", at, scriptIn)
		},
	}
}

func validate(args map[string]any) []dag.Problem {
	if _, err := skipCodes(args); err != nil {
		return []dag.Problem{{
			Path: "skip_on_exit_code", Severity: dag.SeverityError, Code: "bad-value", Message: err.Error(),
			Hint: "write 99, [99, 100] or null",
		}}
	}
	return nil
}

// Run implements operator.Operator.
func (Operator) Run(ctx context.Context, t *operator.Task) dag.Outcome {
	skip, err := skipCodes(t.Args)
	if err != nil {
		return invalid(err)
	}
	own, err := command.Variables(t.Args["env"])
	if err != nil {
		return invalid(err)
	}
	appendEnv, _ := t.Args["append_env"].(bool)
	dir, te := folder(t)
	if te != nil {
		return dag.Failed(te)
	}
	argv, te := argv(t)
	if te != nil {
		return dag.Failed(te)
	}
	end := command.Run(ctx, t, command.Command{
		Argv: argv, Dir: dir, Env: own, ReplaceEnv: own != nil && !appendEnv,
	})
	if end.ExitCode > 0 && skip[end.ExitCode] {
		return dag.Outcome{Kind: dag.OutcomeSkipped, Err: &dag.TaskError{
			Code: fault.CodeExitCode, Message: fmt.Sprintf("exit code %d means skipped", end.ExitCode),
		}}
	}
	if end.Err != nil {
		return dag.Failed(end.Err)
	}
	if end.LastLineCut {
		fmt.Fprintf(t.Log, "airlock: the last line of the output has more than %d bytes and is not kept as XCom\n",
			command.LastLineLimit)
		return dag.Success(nil)
	}
	return dag.Success(end.LastLine)
}

func invalid(err error) dag.Outcome {
	return dag.Failed(fault.New(fault.CodeInvalidArgument, err.Error()))
}

// folder is where the command runs.
func folder(t *operator.Task) (string, *dag.TaskError) {
	cwd, _ := t.Args["cwd"].(string)
	if cwd == "" {
		return t.ScratchDir, nil
	}
	if !filepath.IsAbs(cwd) {
		cwd = filepath.Join(t.Dir, cwd)
	}
	info, err := os.Stat(cwd)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a folder", cwd)
	}
	if err != nil {
		e := fault.New(fault.CodeFileNotFound, "cwd: "+err.Error())
		e.Class, e.Hint = dag.ClassConfiguration, "a relative cwd starts at the folder of the DAG's file"
		return "", e
	}
	return cwd, nil
}

// argv is how bash is called. A command that is nothing but a path to a script
// is that script; one that is too long for a command line goes through a file.
func argv(t *operator.Task) ([]string, *dag.TaskError) {
	text, ok := t.Args["bash_command"].(string)
	if !ok {
		return nil, fault.New(fault.CodeInvalidArgument, fmt.Sprintf("bash_command is %T; it must be text", t.Args["bash_command"]))
	}
	if path := scriptIn(text); path != "" {
		return script(t, path)
	}
	if strings.ContainsRune(text, 0) {
		return nil, fault.New(fault.CodeInvalidArgument, "bash_command has a NUL byte, which a command line cannot hold")
	}
	if len(text) <= maxInline {
		return []string{"bash", "-c", text}, nil
	}
	return inFile(t, "bash_command.sh", text)
}

// scriptIn is a command that is the path of a script file, "" for any other. A space
// in it, also at its end, makes it a command, as Airflow's users know it.
func scriptIn(text string) string {
	if !strings.HasSuffix(text, ".sh") && !strings.HasSuffix(text, ".bash") || strings.ContainsAny(text, " \t\r\n;|&<>()$`\"'\\") {
		return ""
	}
	return text
}

// script reads a script file and renders it as a template.
func script(t *operator.Task, path string) ([]string, *dag.TaskError) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(t.Dir, path)
	}
	text, err := plainfile.Read(path, maxScript)
	if err != nil {
		e := fault.New(fault.CodeFileNotFound, "bash_command: "+err.Error())
		if errors.Is(err, fs.ErrPermission) {
			e = fault.New(fault.CodePermissionDenied, "bash_command: "+err.Error())
		}
		e.Class = dag.ClassConfiguration
		e.Hint = "a command that ends in .sh or .bash is the path of a file below the DAG's folder; put a space after it to run it as a command"
		return nil, e
	}
	if t.Render == nil {
		return []string{"bash", path}, nil
	}
	rendered, err := t.Render(string(text))
	if err != nil {
		return nil, fault.New(fault.CodeTemplate, fmt.Sprintf("%s: %v", path, err))
	}
	return inFile(t, filepath.Base(path), rendered)
}

// inFile puts a text into the attempt's own folder for bash to read.
func inFile(t *operator.Task, name, text string) ([]string, *dag.TaskError) {
	path := filepath.Join(t.ScratchDir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, fault.Error(fmt.Errorf("write the command: %w", err))
	}
	return []string{"bash", path}, nil
}
