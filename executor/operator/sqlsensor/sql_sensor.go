package sqlsensor

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/operator"
	"github.com/airlock-dag/airlock/executor/operator/expression"
	"github.com/airlock-dag/airlock/executor/operator/sensor"
	sqlop "github.com/airlock-dag/airlock/executor/operator/sql"
)

// Operator waits for a query's answer.
type Operator struct{}

// New makes the operator.
func New() Operator { return Operator{} }

// Env is what the conditions see.
type Env struct {
	// Value is the first cell of the first row.
	Value any `expr:"value"`
	// Row is the first row by its columns' names.
	Row map[string]any `expr:"row"`
}

// Spec implements operator.Operator.
func (Operator) Spec() dag.OperatorSpec {
	return dag.OperatorSpec{
		Name: "sql_sensor",
		Aliases: []string{
			"airflow.providers.common.sql.sensors.sql.SqlSensor",
			"airflow.sensors.sql.SqlSensor",
			"airflow.sensors.sql_sensor.SqlSensor",
		},
		Doc: "Waits until a query gives what a condition says; the first cell is the XCom.",
		Fields: append([]dag.Field{
			{Name: "conn_id", Type: dag.FieldString, Required: true, Templated: true, Mappable: true, Doc: "Connection: mysql, mariadb or sqlite."},
			{Name: "sql", Type: dag.FieldString, Required: true, Templated: true, Mappable: true, Doc: "The query, or the path of a .sql file below the DAG's folder."},
			{Name: "parameters", Type: dag.FieldAny, Templated: true, Mappable: true, Doc: "Values: a mapping for :name or %(name)s, a list for ? or %s."},
			{Name: "database", Type: dag.FieldString, Templated: true, Mappable: true, Doc: "Database to use instead of the connection's own."},
			{Name: "success", Type: dag.FieldString, Mappable: true, Doc: "Condition that ends the wait, such as `value >= 100`; that the cell is neither null, zero nor empty when not given."},
			{Name: "failure", Type: dag.FieldString, Mappable: true, Doc: "Condition that fails the sensor; asked before success."},
			{Name: "fail_on_empty", Type: dag.FieldBool, Mappable: true, Default: false, Doc: "Fail when the query gives no row, instead of waiting."},
		}, sensor.Fields()...),
		Ignored:  []string{"hook_params"},
		Validate: validate, ValidateAt: sqlop.MissingFiles,
	}
}

func validate(args map[string]any) []dag.Problem {
	out := sensor.Validate(args)
	if _, err := read(args); err != nil {
		out = append(out, dag.Problem{
			Path: err.key, Severity: dag.SeverityError, Code: "bad-value", Message: err.Error(),
			Hint: "write a condition on the first cell or row, such as value > 10 or row.state == 'done'",
		})
	}
	return out
}

// criteria are the conditions of a step.
type criteria struct {
	success, failure *expression.Expression
	failOnEmpty      bool
}

type criterionError struct {
	key string
	err error
}

func (e *criterionError) Error() string { return e.key + ": " + e.err.Error() }

func read(args map[string]any) (criteria, *criterionError) {
	var c criteria
	var err error
	if text, ok := args["success"].(string); ok {
		if c.success, err = expression.Compile(text, Env{}); err != nil {
			return c, &criterionError{"success", err}
		}
	}
	if text, ok := args["failure"].(string); ok {
		if c.failure, err = expression.Compile(text, Env{}); err != nil {
			return c, &criterionError{"failure", err}
		}
	}
	c.failOnEmpty, _ = args["fail_on_empty"].(bool)
	return c, nil
}

// Run implements operator.Operator.
func (Operator) Run(ctx context.Context, t *operator.Task) dag.Outcome {
	c, err := read(t.Args)
	if err != nil {
		return dag.Failed(fault.New(fault.CodeInvalidArgument, err.Error()))
	}
	return sensor.Run(ctx, t, func(ctx context.Context) (sensor.Seen, *dag.TaskError) {
		columns, row, te := sqlop.Read(ctx, t)
		if te != nil {
			return sensor.Seen{}, te
		}
		return c.judge(columns, row)
	})
}

// judge asks the conditions about what a look found.
func (c criteria) judge(columns []string, row []any) (sensor.Seen, *dag.TaskError) {
	if len(row) == 0 {
		if c.failOnEmpty {
			return sensor.Seen{}, fault.New(fault.CodeSensorFailed, "the query gives no row, and fail_on_empty is set")
		}
		return sensor.Seen{Text: "the query gives no row"}, nil
	}
	env := Env{Row: make(map[string]any, len(row))}
	for i, cell := range row {
		v := number(cell)
		env.Row[columns[i]] = v
		if i == 0 {
			env.Value = v
		}
	}
	shown := dag.CutText(fmt.Sprint(env.Value), 200)
	if c.failure != nil {
		holds, err := c.failure.Holds(env)
		if err != nil {
			return sensor.Seen{}, fault.New(fault.CodeSensorFailed, "failure: "+err.Error())
		}
		if holds {
			return sensor.Seen{}, fault.New(fault.CodeSensorFailed, "the failure condition holds: the first cell is "+shown)
		}
	}
	done := truth(env.Value)
	if c.success != nil {
		var err error
		if done, err = c.success.Holds(env); err != nil {
			return sensor.Seen{}, fault.New(fault.CodeSensorFailed, "success: "+err.Error())
		}
	}
	return sensor.Seen{Done: done, Value: row[0], Text: "the first cell is " + shown}, nil
}

// truth tells whether a cell ends the wait by itself: any but null, zero, the
// empty text and "0".
func truth(v any) bool {
	switch x := v.(type) {
	case nil:
		return false
	case bool:
		return x
	case int64:
		return x != 0
	case float64:
		return x != 0
	case string:
		return x != "" && x != "0"
	default:
		return true
	}
}

// number makes numbers of the databases comparable in conditions.
func number(v any) any {
	n, ok := v.(json.Number)
	if !ok {
		return v
	}
	if i, err := n.Int64(); err == nil {
		return i
	}
	f, err := n.Float64()
	if err != nil {
		return n.String()
	}
	return f
}
