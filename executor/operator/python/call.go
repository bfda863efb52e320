package python

import (
	"bytes"
	"context"
	_ "embed" // the runner script
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/plainfile"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/operator"
	"github.com/airlock-dag/airlock/executor/operator/command"
)

//go:embed runner.py
var runner []byte

// maxResult is the most that a callable may hand back, in bytes of JSON.
const maxResult = 16 << 20

// Mode says what the callable's return value is for.
type Mode string

// Modes of a call.
const (
	ModeValue Mode = "value" // kept as it is; it must be JSON if the task pushes XComs
	ModeTruth Mode = "truth" // asked for its truth; any value will do
	// ModeChoice is kept whether or not the task pushes XComs.
	ModeChoice Mode = "choice"
)

// Reply is what a callable gave back.
type Reply struct {
	// Value is of JSON types, with json.Number for numbers.
	Value any
	// Truth is Python's bool(value) in ModeTruth.
	Truth bool
	// XComs are the values that the callable pushed.
	XComs map[string]any
}

// request is what the runner reads.
type request struct {
	Mode            Mode           `json:"mode"`
	Path            []string       `json:"path"` // for sys.path
	File            string         `json:"file"`
	Name            string         `json:"name"`
	OpArgs          []any          `json:"op_args"`
	OpKwargs        map[string]any `json:"op_kwargs"`
	TemplatesDict   any            `json:"templates_dict"`
	Context         map[string]any `json:"context"`
	Conf            any            `json:"conf"`
	RunType         string         `json:"run_type"`
	Owner           string         `json:"owner"`
	Socket          string         `json:"socket"`
	KeepValue       bool           `json:"keep_value"`
	MultipleOutputs bool           `json:"multiple_outputs"`
}

// result is what the runner writes.
type result struct {
	Kind    string         `json:"kind"` // value, exception, import, not_json
	Value   any            `json:"value"`
	Truth   bool           `json:"truth"`
	XComs   map[string]any `json:"xcoms"`
	Type    string         `json:"type"`
	Types   []string       `json:"types"` // names of the exception's classes
	Message string         `json:"message"`
	Trace   string         `json:"trace"`

	ErrorClass any `json:"error_class,omitempty"`
	ErrorCode  any `json:"error_code,omitempty"`
	RetryAfter any `json:"retry_after,omitempty"`
	Hint       any `json:"hint,omitempty"`
}

// Call calls the task's callable. The outcome is set when there is no reply:
// the attempt failed, or the callable asked to be skipped.
func Call(ctx context.Context, t *operator.Task, mode Mode) (Reply, *dag.Outcome) {
	req, te := makeRequest(t, mode)
	if te != nil {
		return Reply{}, failed(te)
	}
	address, stop := serveXComs(ctx, t)
	defer stop()
	req.Socket = address

	script := filepath.Join(t.ScratchDir, "airlock_runner.py")
	requestFile := filepath.Join(t.ScratchDir, "airlock_request.json")
	resultFile := filepath.Join(t.ScratchDir, "airlock_result.json")
	body, err := json.Marshal(req)
	if err != nil {
		return Reply{}, failed(fault.New(fault.CodeInvalidArgument, "the arguments cannot be written as JSON: "+err.Error()))
	}
	for file, content := range map[string][]byte{script: runner, requestFile: body} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return Reply{}, failed(fault.Error(fmt.Errorf("prepare the call: %w", err)))
		}
	}
	end := command.Run(ctx, t, command.Command{
		Argv: []string{interpreter(t), script, requestFile, resultFile},
		Dir:  t.Dir,
		Env:  map[string]string{"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1"},
	})
	if te := fault.Context(ctx); te != nil && end.Err != nil {
		return Reply{}, failed(end.Err) // ended by us, whatever it wrote before
	}
	res, te := readResult(resultFile)
	switch {
	case te != nil:
		return Reply{}, failed(fault.Apply(t.Def, te, ""))
	case res == nil && end.Err != nil: // sys.exit, a signal, no interpreter
		return Reply{}, failed(end.Err)
	case res == nil:
		return Reply{}, failed(fault.Apply(t.Def, fault.New(fault.CodePythonException,
			"Python ended with exit code 0 before the callable returned"), ""))
	case res.Kind == "value" && end.Err != nil: // it died on its way out
		return Reply{}, failed(end.Err)
	case res.Kind == "value":
		return Reply{Value: res.Value, Truth: res.Truth, XComs: res.XComs}, nil
	}
	return Reply{}, res.outcome(t.Def)
}

func failed(te *dag.TaskError) *dag.Outcome {
	out := dag.Failed(te)
	return &out
}

// interpreter is the step's `python`; one with a slash starts at the DAG's
// folder.
func interpreter(t *operator.Task) string {
	name, _ := t.Args["python"].(string)
	switch {
	case name == "":
		return "python3"
	case strings.Contains(name, "/") && !filepath.IsAbs(name):
		return filepath.Join(t.Dir, name)
	}
	return name
}

// makeRequest reads the task's arguments.
func makeRequest(t *operator.Task, mode Mode) (request, *dag.TaskError) {
	bad := func(format string, args ...any) (request, *dag.TaskError) {
		return request{}, fault.New(fault.CodeInvalidArgument, fmt.Sprintf(format, args...))
	}
	req := request{
		Mode: mode, OpArgs: []any{}, OpKwargs: map[string]any{}, TemplatesDict: t.Args["templates_dict"],
		RunType: string(t.Run.Type), Owner: t.Def.Owner, Conf: conf(t),
		KeepValue: t.Def.DoXComPush || mode == ModeChoice, MultipleOutputs: t.Def.MultipleOutputs && mode == ModeValue,
		Path: searchPath(t),
	}
	var err error
	if req.Context, err = contextOf(t); err != nil {
		return bad("%v", err)
	}
	dotted, _ := t.Args["python_callable"].(string)
	file, _ := t.Args["python_callable_file"].(string)
	name, _ := t.Args["python_callable_name"].(string)
	switch {
	case file != "" && name != "":
		if !filepath.IsAbs(file) {
			file = filepath.Join(t.Dir, file)
		}
		if info, err := os.Stat(file); err == nil { // one that is not there Python tells of
			if err := plainfile.Check(info.Mode()); err != nil { // it would wait for the writer of a pipe
				return bad("python_callable_file: %s: %v", file, err)
			}
		}
		req.File, req.Name = file, name
	case dotted != "":
		req.Name = dotted
	default:
		return bad("neither python_callable nor python_callable_file with python_callable_name is given")
	}
	switch v := t.Args["op_args"].(type) {
	case nil:
	case []any:
		req.OpArgs = v
	default:
		return bad("op_args is %T; it must be a list", v)
	}
	switch v := t.Args["op_kwargs"].(type) {
	case nil:
	case map[string]any:
		req.OpKwargs = v
	default:
		return bad("op_kwargs is %T; it must be a mapping", v)
	}
	return req, nil
}

// searchPath is where a callable's modules are looked for: the folder of the
// DAG's file, then the DAGs folder.
func searchPath(t *operator.Task) []string {
	out := []string{t.Dir}
	below := path.Dir(t.DAG.FileLoc)
	if root, ok := strings.CutSuffix(filepath.ToSlash(t.Dir), "/"+below); ok && below != "." {
		out = append(out, filepath.FromSlash(root))
	}
	return out
}

// readResult reads what the runner wrote; nil when it wrote nothing.
func readResult(file string) (*result, *dag.TaskError) {
	f, err := plainfile.Open(file)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Error(err)
	}
	defer func() { _ = f.Close() }()
	body, err := io.ReadAll(io.LimitReader(f, maxResult+1))
	if err != nil {
		return nil, fault.Error(err)
	}
	if len(body) > maxResult {
		return nil, fault.New(fault.CodeXComTooLarge, fmt.Sprintf("the callable returned more than %d bytes of JSON", maxResult))
	}
	var res result
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&res); err != nil {
		return nil, fault.New(fault.CodePythonException, "the runner's answer cannot be read: "+err.Error())
	}
	return &res, nil
}

// outcome is the end of an attempt whose callable returned no value.
func (r *result) outcome(def *dag.Task) *dag.Outcome {
	message := r.Type
	if r.Message != "" {
		message += ": " + r.Message
	}
	is := func(names ...string) bool {
		for _, t := range r.Types {
			for _, n := range names {
				if t == n {
					return true
				}
			}
		}
		return false
	}
	var te *dag.TaskError
	switch {
	case r.Kind == "not_json":
		te = fault.New(fault.CodeXComNotJSON, r.Message)
	case is("AirflowSkipException"):
		return &dag.Outcome{Kind: dag.OutcomeSkipped, Err: &dag.TaskError{Code: fault.CodePythonException, Message: message}}
	case r.ErrorClass != nil || r.ErrorCode != nil || r.RetryAfter != nil:
		te = r.said(message)
	case r.Kind == "import":
		te = fault.New(fault.CodeImportError, message)
	case is("AirflowFailException", "AirflowSensorTimeout"):
		te = fault.New(fault.CodePythonFail, message)
	default:
		te = fault.New(fault.CodePythonException, message)
	}
	te.Stack = dag.CutText(r.Trace, dag.MaxStackTrace)
	return failed(fault.Apply(def, te, r.Trace))
}

// said takes the exception's own word for its class and code.
func (r *result) said(message string) *dag.TaskError {
	code := r.ErrorCode
	if code == nil {
		code = fault.CodePythonException
	}
	body, err := json.Marshal(map[string]any{
		"error_class": r.ErrorClass, "error_code": code, "retry_after": r.RetryAfter, "hint": r.Hint, "message": message,
	})
	if err == nil {
		te, saidErr := fault.Said(body, fault.Evidence{})
		if saidErr == nil {
			return te
		}
		err = saidErr
	}
	te := fault.New(fault.CodePythonException, message)
	te.Hint = "what the exception says of itself is not used: it " + err.Error()
	return te
}
