package column

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/expr-lang/expr"
)

// exact is a decimal number inside a check: it is compared digit by digit and
// never by way of a floating point number.
type exact struct{ r *big.Rat }

// example is a value of the Go type that a column has inside an expression.
func example(t Type) any {
	switch t.Kind {
	case Integer:
		return 0
	case Decimal:
		return exact{}
	case Double:
		return 0.0
	case Boolean:
		return false
	default:
		return ""
	}
}

// inExpression turns a converted value into that Go type.
func inExpression(v any, t Type) any {
	switch x := v.(type) {
	case int64:
		if t.Kind == Boolean {
			return x != 0
		}
		return int(x)
	case string:
		switch t.Kind {
		case Decimal:
			return exact{rat(x)}
		case Integer:
			// An unsigned number beyond int64: the greatest int stands for it in
			// comparisons with constants, which are ints.
			n, _ := strconv.ParseUint(x, 10, 64)
			return int(min(n, 1<<63-1))
		}
	case []byte:
		return string(x)
	}
	return v
}

func rat(s string) *big.Rat {
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return new(big.Rat)
	}
	return r
}

// numberOperators teach expr to compare and compute with exact numbers.
func numberOperators() []expr.Option {
	types := []any{
		new(func(exact, exact) bool), new(func(exact, int) bool), new(func(int, exact) bool),
		new(func(exact, float64) bool), new(func(float64, exact) bool),
	}
	sums := []any{
		new(func(exact, exact) exact), new(func(exact, int) exact), new(func(int, exact) exact),
		new(func(exact, float64) exact), new(func(float64, exact) exact),
	}
	compare := map[string]struct {
		name string
		ok   func(c int) bool
	}{
		"==": {"exactEq", func(c int) bool { return c == 0 }},
		"!=": {"exactNe", func(c int) bool { return c != 0 }},
		"<":  {"exactLt", func(c int) bool { return c < 0 }},
		"<=": {"exactLe", func(c int) bool { return c <= 0 }},
		">":  {"exactGt", func(c int) bool { return c > 0 }},
		">=": {"exactGe", func(c int) bool { return c >= 0 }},
	}
	compute := map[string]struct {
		name string
		do   func(z, x, y *big.Rat) *big.Rat
	}{
		"+": {"exactAdd", (*big.Rat).Add},
		"-": {"exactSub", (*big.Rat).Sub},
		"*": {"exactMul", (*big.Rat).Mul},
	}
	var out []expr.Option
	for op, c := range compare {
		out = append(out, expr.Operator(op, c.name), expr.Function(c.name, func(p ...any) (any, error) {
			a, b, err := two(p)
			return err == nil && c.ok(a.Cmp(b)), err
		}, types...))
	}
	for op, c := range compute {
		out = append(out, expr.Operator(op, c.name), expr.Function(c.name, func(p ...any) (any, error) {
			a, b, err := two(p)
			if err != nil {
				return nil, err
			}
			return exact{c.do(new(big.Rat), a, b)}, nil
		}, sums...))
	}
	return out
}

func two(p []any) (a, b *big.Rat, err error) {
	if a, err = asRat(p[0]); err != nil {
		return nil, nil, err
	}
	b, err = asRat(p[1])
	return a, b, err
}

func asRat(v any) (*big.Rat, error) {
	switch x := v.(type) {
	case exact:
		return x.r, nil
	case int:
		return new(big.Rat).SetInt64(int64(x)), nil
	case float64:
		// A constant such as 0.1 is meant as it is written.
		return rat(strings.TrimSpace(strconv.FormatFloat(x, 'f', -1, 64))), nil
	default:
		return nil, fmt.Errorf("%T is no number", v)
	}
}
