package column

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"

	"github.com/airlock-dag/airlock/sql/merge/row"
)

// Names that an expression reads beside the columns: where the row came from.
const (
	SourceFile = "source_file"
	SourceLine = "source_line"
)

// Expression computes a column from others of its row, in the words of a Check.
// As in SQL, it is null where a column that it reads is null. Decimals are
// computed exactly.
type Expression struct {
	text    string
	program *vm.Program
	names   []string
}

// ParseExpression compiles an expression over the columns that come from the
// source.
func ParseExpression(text string, columns []*Column) (*Expression, error) {
	source := fromSQL(text)
	tree, err := parser.Parse(source)
	if err != nil {
		return nil, fmt.Errorf("expression %q: %w", text, firstLine(err))
	}
	known := map[string]Type{SourceFile: {Kind: Text}, SourceLine: {Kind: Integer, Bits: 64}}
	var all []string
	for _, c := range columns {
		if c.Computed == nil {
			known[c.Name] = c.Type
			all = append(all, c.Name)
		}
	}
	reads := &reader{}
	ast.Walk(&tree.Node, reads)
	env := map[string]any{}
	e := &Expression{text: text}
	for _, n := range reads.names {
		if n == "round" {
			continue
		}
		t, ok := known[n]
		if !ok {
			return nil, fmt.Errorf("expression %q: there is no column %q that comes from the source; there are %s, %s and %s",
				text, n, strings.Join(all, ", "), SourceFile, SourceLine)
		}
		env[n] = example(t)
		e.names = append(e.names, n)
	}
	options := append([]expr.Option{expr.Env(env)}, numberOperators()...)
	if e.program, err = expr.Compile(source, append(options, division()...)...); err != nil {
		return nil, fmt.Errorf("expression %q: %w", text, firstLine(err))
	}
	return e, nil
}

// String is the expression as it was written.
func (e *Expression) String() string { return e.text }

// Value computes the expression; value gives a column's converted value.
func (e *Expression) Value(column string, value func(name string) (any, Type)) (row.Value, *row.Fault) {
	fault := func(format string, args ...any) (row.Value, *row.Fault) {
		return row.Value{}, &row.Fault{Code: row.NotComputable, Column: column, Message: e.text + ": " + fmt.Sprintf(format, args...)}
	}
	env := make(map[string]any, len(e.names))
	for _, n := range e.names {
		v, t := value(n)
		if v == nil {
			return row.Value{Kind: row.Null}, nil
		}
		env[n] = inExpression(v, t)
	}
	out, err := expr.Run(e.program, env)
	if err != nil {
		return fault("%v", firstLine(err))
	}
	switch x := out.(type) {
	case nil:
		return row.Value{Kind: row.Null}, nil
	case bool:
		return row.Value{Kind: row.Bool, Text: strconv.FormatBool(x)}, nil
	case int:
		return row.Value{Kind: row.Number, Text: strconv.Itoa(x)}, nil
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fault("the result is no number")
		}
		return row.Value{Kind: row.Number, Text: strconv.FormatFloat(x, 'f', -1, 64)}, nil
	case exact:
		n, finite := x.r.FloatPrec()
		if !finite || n > maxPlaces {
			return fault("the result has no end as a decimal; round(..., places) cuts it")
		}
		return row.Value{Kind: row.Number, Text: x.r.FloatString(n)}, nil
	case string:
		return row.Value{Kind: row.Text, Text: x}, nil
	default:
		return fault("the result is %T, which no column takes", out)
	}
}

// maxPlaces is how many decimals a computed value may have.
const maxPlaces = 30

// division teaches expr to divide exactly, and to round half away from zero.
func division() []expr.Option {
	quotient := func(p ...any) (any, error) {
		a, b, err := two(p)
		if err != nil {
			return nil, err
		}
		if b.Sign() == 0 {
			return nil, fmt.Errorf("division by zero")
		}
		return exact{new(big.Rat).Quo(a, b)}, nil
	}
	round := func(p ...any) (any, error) {
		x, err := asRat(p[0])
		if err != nil {
			return nil, err
		}
		places, ok := p[1].(int)
		if !ok || places < 0 || places > maxPlaces {
			return nil, fmt.Errorf("round takes 0 to %d places", maxPlaces)
		}
		out, _ := new(big.Rat).SetString(x.FloatString(places)) // rounds half away from zero
		return exact{out}, nil
	}
	return []expr.Option{
		expr.Operator("/", "exactQuo"),
		expr.Function("exactQuo", quotient, new(func(exact, exact) exact), new(func(exact, int) exact), new(func(int, exact) exact), new(func(int, int) exact),
			new(func(exact, float64) exact), new(func(float64, exact) exact)),
		expr.DisableBuiltin("round"),
		expr.Function("round", round, new(func(exact, int) exact), new(func(float64, int) exact), new(func(int, int) exact)),
	}
}
