package filesensor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/operator"
	"github.com/airlock-dag/airlock/executor/operator/sensor"
)

// defaultConnection is Airflow's; it need not exist here.
const defaultConnection = "fs_default"

// Operator waits for a file.
type Operator struct{}

// New makes the operator.
func New() Operator { return Operator{} }

// Spec implements operator.Operator.
func (Operator) Spec() dag.OperatorSpec {
	return dag.OperatorSpec{
		Name: "file_sensor",
		Aliases: []string{
			"airflow.providers.standard.sensors.filesystem.FileSensor",
			"airflow.sensors.filesystem.FileSensor",
			"airflow.contrib.sensors.file_sensor.FileSensor",
		},
		Doc: "Waits for a file, for a folder with a file in it, or for a match of a pattern; its path is the XCom.",
		Fields: append([]dag.Field{
			{Name: "filepath", Type: dag.FieldString, Required: true, Templated: true, Mappable: true,
				Doc: "Path or pattern; relative to the connection's path, or to the folder of the DAG's file."},
			{Name: "fs_conn_id", Type: dag.FieldString, Templated: true, Mappable: true, Doc: "Connection whose extra has a `path` that filepath starts from."},
			{Name: "recursive", Type: dag.FieldBool, Mappable: true, Default: false, Doc: "`**` in the pattern stands for any number of folders."},
		}, sensor.Fields()...),
		Ignored:  []string{"start_from_trigger", "trigger_kwargs"},
		Validate: validate,
	}
}

func validate(args map[string]any) []dag.Problem {
	out := sensor.Validate(args)
	if path, ok := args["filepath"].(string); ok {
		if err := check(path); err != nil {
			out = append(out, dag.Problem{Path: "filepath", Severity: dag.SeverityError, Code: "bad-value", Message: err.Error()})
		}
	}
	return out
}

// Run implements operator.Operator.
func (Operator) Run(ctx context.Context, t *operator.Task) dag.Outcome {
	pattern, te := pattern(ctx, t)
	if te != nil {
		return dag.Failed(te)
	}
	recursive, _ := t.Args["recursive"].(bool)
	return sensor.Run(ctx, t, func(ctx context.Context) (sensor.Seen, *dag.TaskError) {
		path, err := find(ctx, pattern, recursive)
		switch {
		case err != nil:
			if te := fault.Context(ctx); te != nil {
				return sensor.Seen{}, te
			}
			return sensor.Seen{}, fault.Error(err)
		case path == "":
			return sensor.Seen{Text: "there is no " + pattern}, nil
		default:
			return sensor.Seen{Done: true, Value: path, Text: path}, nil
		}
	})
}

// pattern is the absolute path to look at.
func pattern(ctx context.Context, t *operator.Task) (string, *dag.TaskError) {
	path, ok := t.Args["filepath"].(string)
	if !ok {
		return "", fault.New(fault.CodeInvalidArgument, fmt.Sprintf("filepath is %v; it must be a path", t.Args["filepath"]))
	}
	if err := check(path); err != nil {
		return "", fault.New(fault.CodeInvalidArgument, err.Error())
	}
	base, te := basePath(ctx, t)
	if te != nil {
		return "", te
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(base, path)
	}
	return filepath.Clean(path), nil
}

func basePath(ctx context.Context, t *operator.Task) (string, *dag.TaskError) {
	id, _ := t.Args["fs_conn_id"].(string)
	if strings.TrimSpace(id) == "" {
		return t.Dir, nil
	}
	c, err := t.Connection(ctx, strings.TrimSpace(id))
	if dag.CodeOf(err) == dag.ErrNotFound && id == defaultConnection {
		return t.Dir, nil
	}
	if err != nil {
		return "", fault.Connection(err)
	}
	base, _ := c.Extra["path"].(string)
	if base == "" {
		return t.Dir, nil
	}
	if !filepath.IsAbs(base) {
		base = filepath.Join(t.Dir, base)
	}
	return base, nil
}

func isNotDir(err error) bool { return errors.Is(err, syscall.ENOTDIR) }
