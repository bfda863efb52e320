package sqlop

import (
	"fmt"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/operator"
	"github.com/airlock-dag/airlock/sql/merge/sqltext"
)

// maxRows is the number of rows of a result that are kept when the step says
// nothing.
const maxRows = 1000

// Spec implements operator.Operator.
func (Operator) Spec() dag.OperatorSpec {
	return dag.OperatorSpec{
		Name: "sql",
		Aliases: []string{
			"airflow.providers.common.sql.operators.sql.SQLExecuteQueryOperator",
			"airflow.providers.mysql.operators.mysql.MySqlOperator",
			"airflow.providers.sqlite.operators.sqlite.SqliteOperator",
			"airflow.operators.mysql_operator.MySqlOperator",
			"airflow.operators.sqlite_operator.SqliteOperator",
		},
		Doc: "Runs SQL statements on a connection, all of them and the effect's key in one transaction.",
		Fields: []dag.Field{
			{Name: "sql", Type: dag.FieldStringList, Required: true, Templated: true, Mappable: true,
				Doc: "One text, a list of them, or the path of a .sql file below the DAG's folder; each text may hold several statements."},
			{Name: "conn_id", Type: dag.FieldString, Templated: true, Mappable: true, Doc: "Connection: mysql, mariadb or sqlite."},
			{Name: "mysql_conn_id", Type: dag.FieldString, Templated: true, Mappable: true, Doc: "Airflow's older name of conn_id."},
			{Name: "sqlite_conn_id", Type: dag.FieldString, Templated: true, Mappable: true, Doc: "Airflow's older name of conn_id."},
			{Name: "database", Type: dag.FieldString, Templated: true, Mappable: true, Doc: "Database to use instead of the connection's own."},
			{Name: "parameters", Type: dag.FieldAny, Templated: true, Mappable: true,
				Doc: "Values: a mapping for :name or %(name)s, a list for ? or %s."},
			{Name: "autocommit", Type: dag.FieldBool, Mappable: true, Default: false,
				Doc: "Each statement commits by itself, without effect key: for statements that cannot be undone."},
			{Name: "split_statements", Type: dag.FieldBool, Mappable: true, Default: true, Doc: "Cut a text at its semicolons."},
			{Name: "return_last", Type: dag.FieldBool, Mappable: true, Default: true, Doc: "Give the last result only, not a list of all."},
			{Name: "max_rows", Type: dag.FieldInt, Default: maxRows, Doc: "Rows of a result that are kept."},
			{Name: "idempotency_key", Type: dag.FieldString, Templated: true, Doc: "Key of the effect; the task instance when not given."},
		},
		OneOf:    [][]string{{"conn_id", "mysql_conn_id", "sqlite_conn_id"}},
		Ignored:  []string{"handler", "output_processor", "hook_params", "show_return_value_in_log", "requires_result_fetch"},
		Validate: validate, ValidateAt: MissingFiles,
	}
}

func validate(args map[string]any) []dag.Problem {
	var out []dag.Problem
	add := func(path, format string, v ...any) {
		out = append(out, dag.Problem{Path: path, Severity: dag.SeverityError, Code: "bad-value", Message: fmt.Sprintf(format, v...)})
	}
	texts, _ := texts(args["sql"])
	for i, s := range texts {
		if strings.Contains(s, "{{") || strings.Contains(s, "{%") || pathIn(s) != "" {
			continue
		}
		path := "sql"
		if _, list := args["sql"].([]any); list {
			path = fmt.Sprintf("sql[%d]", i)
		}
		statements, err := sqltext.MySQL.Split(s)
		switch {
		case err != nil:
			// SQLite reads a backslash otherwise; only a text that neither can read
			// is wrong.
			if _, err2 := sqltext.SQLite.Split(s); err2 != nil {
				add(path, "%s", err)
			}
		case len(statements) == 0:
			add(path, "there is no statement")
		}
	}
	if len(texts) == 0 && args["sql"] != nil {
		add("sql", "a statement, a list of statements or a .sql file is needed")
	}
	switch args["parameters"].(type) {
	case nil, map[string]any, []any, string:
	default:
		add("parameters", "a mapping or a list is needed")
	}
	return out
}

// texts reads sql: one text or a list.
func texts(v any) ([]string, error) {
	switch x := v.(type) {
	case nil:
		return nil, nil
	case string:
		if strings.TrimSpace(x) == "" {
			return nil, nil
		}
		return []string{x}, nil
	case []string:
		return x, nil
	case []any:
		var out []string
		for _, e := range x {
			s, ok := e.(string)
			if !ok {
				return nil, fmt.Errorf("sql: %v is no text", e)
			}
			out = append(out, s)
		}
		return out, nil
	default:
		return nil, fmt.Errorf("sql: a text or a list of texts is needed, found %T", v)
	}
}

// MissingFiles warns of .sql files that are not there.
func MissingFiles(args map[string]any, at dag.Place) []dag.Problem {
	return operator.MissingFiles(args, "sql", at, pathIn)
}

// pathIn is the path in a text that names a file, "" for statements.
func pathIn(text string) string {
	path := strings.TrimSpace(text)
	if !strings.HasSuffix(path, ".sql") || strings.ContainsAny(path, " \t\n;") {
		return ""
	}
	return path
}
