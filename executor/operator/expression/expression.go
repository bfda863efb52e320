package expression

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"

	"github.com/airlock-dag/airlock/executor/operator/condition"
)

// longest is the longest expression that is read, in bytes.
const longest = 8 << 10

// Expression is one that is read and checked. It is safe for concurrent use.
type Expression struct {
	text    string
	program *vm.Program
}

// Compile reads an expression and checks it against the names of env: a struct,
// or a map with an example of each value. The error is one line and says where.
func Compile(text string, env any) (*Expression, error) {
	if strings.TrimSpace(text) == "" {
		return nil, fmt.Errorf("the expression is empty")
	}
	if len(text) > longest {
		return nil, fmt.Errorf("the expression has %d bytes, the limit is %d", len(text), longest)
	}
	program, err := expr.Compile(text, expr.Env(env))
	if err != nil {
		return nil, fmt.Errorf("%q is no expression that can be used here: %s", text, firstLine(err))
	}
	return &Expression{text: text, program: program}, nil
}

// Value evaluates the expression.
func (e *Expression) Value(env any) (any, error) {
	v, err := expr.Run(e.program, env)
	if err != nil {
		return nil, fmt.Errorf("%q: %s", e.text, firstLine(err))
	}
	return v, nil
}

// Holds tells whether the expression's value is true; what is true of values
// that are not booleans is for package condition to say.
func (e *Expression) Holds(env any) (bool, error) {
	v, err := e.Value(env)
	return err == nil && condition.True(v), err
}

// goType is how a message names what has no such field.
var goType = regexp.MustCompile(`\btype \S+ has no field`) //nolint:gochecknoglobals // a constant

// firstLine leaves out the picture of the expression that follows the message,
// and the names of Go's types.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return goType.ReplaceAllString(line, "there is no field")
}
