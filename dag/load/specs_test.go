package load_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/bundle"
	"github.com/airlock-dag/airlock/dag/load"
)

// now is the instant that relative dates count from in tests.
var now = time.Date(2026, 11, 30, 12, 34, 56, 0, time.UTC)

// specs are a few operators with every kind of field.
func specs() []dag.OperatorSpec {
	return []dag.OperatorSpec{
		{
			Name: "bash",
			Aliases: []string{
				"airflow.providers.standard.operators.bash.BashOperator", "airflow.operators.bash.BashOperator",
				"airflow.operators.bash_operator.BashOperator",
			},
			Fields: []dag.Field{
				{Name: "bash_command", Type: dag.FieldString, Required: true, Templated: true, Mappable: true},
				{Name: "env", Type: dag.FieldMap, Templated: true, Mappable: true},
				{Name: "append_env", Type: dag.FieldBool},
				{Name: "cwd", Type: dag.FieldString, Templated: true},
				{Name: "skip_on_exit_code", Type: dag.FieldAny, Default: 99.0},
			},
			Ignored: []string{"output_encoding", "output_processor"},
		},
		{
			Name: "empty",
			Aliases: []string{
				"airflow.providers.standard.operators.empty.EmptyOperator", "airflow.operators.empty.EmptyOperator",
				"airflow.operators.dummy.DummyOperator",
			},
		},
		{
			Name: "python",
			Aliases: []string{
				"airflow.providers.standard.operators.python.PythonOperator", "airflow.operators.python.PythonOperator",
			},
			Fields: []dag.Field{
				{Name: "python_callable", Type: dag.FieldString},
				{Name: "python_callable_name", Type: dag.FieldString},
				{Name: "python_callable_file", Type: dag.FieldString},
				{Name: "op_args", Type: dag.FieldAny, Templated: true, Mappable: true},
				{Name: "op_kwargs", Type: dag.FieldMap, Templated: true, Mappable: true},
			},
			OneOf: [][]string{{"python_callable", "python_callable_name"}},
		},
		{
			Name: "http",
			Aliases: []string{
				"airflow.providers.http.operators.http.HttpOperator", "airflow.operators.http_operator.SimpleHttpOperator",
			},
			Fields: []dag.Field{
				{Name: "http_conn_id", Type: dag.FieldString}, {Name: "endpoint", Type: dag.FieldString, Templated: true},
				{Name: "method", Type: dag.FieldString, Enum: []string{"GET", "POST", "PUT"}, Default: "POST"},
				{Name: "data", Type: dag.FieldAny, Templated: true, Mappable: true}, {Name: "headers", Type: dag.FieldMap, Templated: true},
				{Name: "log_response", Type: dag.FieldBool}, {Name: "timeout", Type: dag.FieldDuration},
			},
		},
		{
			Name: "merge",
			Fields: []dag.Field{
				{Name: "conn_id", Type: dag.FieldString, Required: true, Templated: true},
				{Name: "sql", Type: dag.FieldStringList, Templated: true},
				{Name: "source", Type: dag.FieldMap, Templated: true, Mappable: true, Fields: []dag.Field{
					{Name: "file", Type: dag.FieldString, Templated: true}, {Name: "query", Type: dag.FieldString},
					{Name: "format", Type: dag.FieldString, Enum: []string{"csv", "jsonl", "parquet"}},
					{Name: "null", Type: dag.FieldStringList},
				}},
				{Name: "columns", Type: dag.FieldMap}, {Name: "target", Type: dag.FieldString, Templated: true},
				{Name: "key", Type: dag.FieldStringList}, {Name: "chunk", Type: dag.FieldInt, Templated: true},
				{Name: "bad_rows", Type: dag.FieldMap, Fields: []dag.Field{
					{Name: "max", Type: dag.FieldInt}, {Name: "max_ratio", Type: dag.FieldFloat},
				}},
				{Name: "watermark", Type: dag.FieldMap, Fields: []dag.Field{
					{Name: "column", Type: dag.FieldString, Required: true}, {Name: "lookback", Type: dag.FieldDuration},
				}},
				{Name: "when_matched", Type: dag.FieldAny},
			},
			OneOf: [][]string{{"sql", "source"}},
			Validate: func(args map[string]any) []dag.Problem {
				if src, ok := args["source"].(map[string]any); ok && src["format"] == "parquet" && src["null"] != nil {
					return []dag.Problem{{Path: "source.null", Message: "parquet has nulls of its own"}}
				}
				return nil
			},
		},
		{
			Name:    "trigger_dag_run",
			Aliases: []string{"airflow.providers.standard.operators.trigger_dagrun.TriggerDagRunOperator"},
			Fields:  []dag.Field{{Name: "trigger_dag_id", Type: dag.FieldString, Required: true, Templated: true}},
		},
	}
}

func options() load.Options {
	return load.Options{
		Specs: specs(), Callbacks: []string{"webhook", "command", "log", "sql", "email", "slack", "pagerduty"},
		Now: func() time.Time { return now },
	}
}

// loadText loads one file named dags.yml.
func loadText(t *testing.T, text string) load.Result {
	t.Helper()
	return load.Files([]bundle.File{{Path: "dags.yml", Data: []byte(text)}}, options())
}

// one loads one DAG that must have no errors.
func one(t *testing.T, text string) *dag.DAG {
	t.Helper()
	res := loadText(t, text)
	for _, p := range res.Problems {
		require.NotEqual(t, dag.SeverityError, p.Severity, p.String())
	}
	require.Len(t, res.DAGs, 1)
	return res.DAGs[0]
}

// lines shows problems one a line.
func lines(problems []dag.Problem) string {
	var b strings.Builder
	for _, p := range problems {
		b.WriteString(p.String() + " [" + p.Code + "]\n")
	}
	return b.String()
}

// folder reads the YAML files below a folder of testdata.
func folder(t testing.TB, dir string) []bundle.File {
	t.Helper()
	files, err := bundle.NewFolder(dir).Scan()
	require.NoError(t, err)
	return files
}

// projectRoot is the folder that holds go.mod.
func projectRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		require.NotEqual(t, dir, parent, "no go.mod above the test")
		dir = parent
	}
}

// folderOf is one file of a folder with the defaults.yml that stands beside it.
func folderOf(t testing.TB, root, path string) []bundle.File {
	t.Helper()
	var out []bundle.File
	for _, f := range folder(t, root) {
		if f.Path == path || f.Path == filepath.ToSlash(filepath.Join(filepath.Dir(path), "defaults.yml")) {
			out = append(out, f)
		}
	}
	return out
}

// folderText is a folder with one file.
func folderText(text string) []bundle.File {
	return []bundle.File{{Path: "dags.yml", Data: []byte(text)}}
}
