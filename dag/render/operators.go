package render

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// Names of the functions that stand in for operators. A name with a blank
// cannot be written in a template.
const (
	opPrint  = "print value"
	opCharge = "charge text"
	opTruth  = "truth of"
	opNegate = "negate"
	opIndex  = "index of"
)

// binaryOps names the functions of the binary operators that are replaced.
func binaryOps() map[tokens.Type]string {
	return map[tokens.Type]string{
		tokens.Addition: "op +", tokens.Subtraction: "op -", tokens.Multiply: "op *", tokens.Division: "op /",
		tokens.FloorDivision: "op //", tokens.Modulo: "op %", tokens.Power: "op **", tokens.Tilde: "op ~",
		tokens.Equals: "op ==", tokens.Ne: "op !=", tokens.LowerThan: "op <", tokens.LowerThanOrEqual: "op <=",
		tokens.GreaterThan: "op >", tokens.GreaterThanOrEqual: "op >=",
	}
}

// operators are the functions that rewritten templates call, and range.
func (r *Renderer) operators() map[string]any {
	ops := map[string]any{
		opPrint: func(va *exec.VarArgs) (any, error) {
			text := pyStr(toGo(va.First()))
			return text, r.budget.spend(len(text))
		},
		opCharge: func(va *exec.VarArgs) (any, error) { return "", r.budget.spend(va.First().Integer()) },
		opTruth:  func(va *exec.VarArgs) (any, error) { return truth(toGo(va.First())), nil },
		opNegate: func(va *exec.VarArgs) (any, error) { return r.checked(negate(toGo(va.First()))) },
		opIndex: func(va *exec.VarArgs) (any, error) {
			i, ok := toGo(va.Args[1]).(int)
			if ok && va.Args[0].IsList() && i < 0 {
				i += va.Args[0].Len()
			}
			if ok {
				return i, nil
			}
			return toGo(va.Args[1]), nil
		},
		"range": func(va *exec.VarArgs) (any, error) { return r.checked(rangeOf(va)) },
	}
	for _, name := range binaryOps() {
		symbol := strings.TrimPrefix(name, "op ")
		ops[name] = func(va *exec.VarArgs) (any, error) {
			v, err := binary(symbol, toGo(va.Args[0]), toGo(va.Args[1]))
			if err != nil {
				return nil, r.budget.fail(err)
			}
			return v, r.budget.spend(sizeOf(v))
		}
	}
	return ops
}

// checked keeps the words of an error that the engine would only quote.
func (r *Renderer) checked(v any, err error) (any, error) {
	if err != nil {
		return nil, r.budget.fail(err)
	}
	return v, r.budget.spend(sizeOf(v))
}

// sizeOf is a rough size of a value in bytes.
func sizeOf(v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case []any:
		return 16 * len(v)
	default:
		return 1
	}
}

func rangeOf(va *exec.VarArgs) (any, error) {
	var n [3]int
	if len(va.Args) < 1 || len(va.Args) > 3 {
		return nil, errors.New("range takes one to three whole numbers: range([start,] stop [, step])")
	}
	for i, a := range va.Args {
		v, ok := toGo(a).(int)
		if !ok {
			return nil, fmt.Errorf("range takes whole numbers, found %s", typeName(toGo(a)))
		}
		n[i] = v
	}
	start, stop, step := 0, n[0], 1
	if len(va.Args) > 1 {
		start, stop = n[0], n[1]
	}
	if len(va.Args) > 2 {
		step = n[2]
	}
	if step == 0 {
		return nil, errors.New("the step of range is 0")
	}
	var out []any
	for i := start; (step > 0 && i < stop) || (step < 0 && i > stop); i += step {
		if len(out) == MaxRange {
			return nil, fmt.Errorf("range gives more than %d items", MaxRange)
		}
		out = append(out, i)
	}
	if out == nil {
		out = []any{}
	}
	return out, nil
}

func negate(v any) (any, error) {
	switch v := v.(type) {
	case int:
		return -v, nil
	case float64:
		return -v, nil
	case *span:
		return &span{-v.d}, nil
	default:
		return nil, fmt.Errorf("%s has no negative", typeName(v))
	}
}

// binary is Python's meaning of a binary operator.
func binary(op string, a, b any) (any, error) {
	switch op {
	case "~":
		return pyStr(a) + pyStr(b), nil
	case "==", "!=":
		return equal(a, b) == (op == "=="), nil
	case "<", "<=", ">", ">=":
		return compare(op, a, b)
	}
	if v, ok, err := timeArithmetic(op, a, b); ok {
		return v, err
	}
	if v, ok, err := sequence(op, a, b); ok {
		return v, err
	}
	x, okA := number(a)
	y, okB := number(b)
	if !okA || !okB {
		err := fmt.Errorf("%s %s %s is not defined", typeName(a), op, typeName(b))
		if op == "+" && (typeName(a) == "text" || typeName(b) == "text") {
			err = fmt.Errorf("%w; join texts with ~, turn text into a number with |int", err)
		}
		return nil, err
	}
	i, isInt := a.(int)
	j, isInt2 := b.(int)
	if isInt && isInt2 {
		if v, ok := integers(op, i, j); ok {
			return v, nil
		}
	}
	return floats(op, x, y)
}

// integers computes with whole numbers where the result is one and fits.
func integers(op string, a, b int) (any, bool) {
	switch op {
	case "+":
		return a + b, (a+b > a) == (b > 0)
	case "-":
		return a - b, (a-b < a) == (b > 0)
	case "*":
		return a * b, a == 0 || (a*b/a == b && !(a == -1 && b == math.MinInt))
	case "//", "%":
		if b == 0 || b == -1 && a == math.MinInt {
			return nil, false
		}
		q, m := a/b, a%b
		if m != 0 && (m < 0) != (b < 0) { // Python rounds down
			q, m = q-1, m+b
		}
		if op == "//" {
			return q, true
		}
		return m, true
	case "**":
		if b < 0 {
			return nil, false
		}
		v := math.Pow(float64(a), float64(b))
		return int(v), math.Abs(v) < 1<<53
	default:
		return nil, false
	}
}

func floats(op string, x, y float64) (any, error) {
	if y == 0 && (op == "/" || op == "//" || op == "%") {
		return nil, errors.New("division by zero")
	}
	var v float64
	switch op {
	case "+":
		v = x + y
	case "-":
		v = x - y
	case "*":
		v = x * y
	case "/":
		v = x / y
	case "//":
		v = math.Floor(x / y)
	case "%":
		v = x - y*math.Floor(x/y)
	case "**":
		v = math.Pow(x, y)
	default:
		return nil, fmt.Errorf("the operator %s is not known", op)
	}
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return nil, errors.New("the number is too large")
	}
	return v, nil
}

// sequence adds and repeats texts and lists, and fills in "%s" % value.
func sequence(op string, a, b any) (any, bool, error) {
	switch x := a.(type) {
	case string:
		switch y := b.(type) {
		case string:
			if op == "+" {
				return x + y, true, nil
			}
		case int:
			if op == "*" {
				return repeat(x, y)
			}
		}
		if op == "%" {
			v, err := percent(x, b)
			return v, true, err
		}
	case []any:
		switch y := b.(type) {
		case []any:
			if op == "+" {
				return append(append(make([]any, 0, len(x)+len(y)), x...), y...), true, nil
			}
		case int:
			if op == "*" {
				if y > 0 && len(x)*y > MaxRange || y > MaxRange && len(x) > 0 {
					return nil, true, fmt.Errorf("the list would have more than %d items", MaxRange)
				}
				out := make([]any, 0, len(x)*max(y, 0))
				for range y {
					out = append(out, x...)
				}
				return out, true, nil
			}
		}
	case int:
		if s, ok := b.(string); ok && op == "*" {
			return repeat(s, x)
		}
	}
	return nil, false, nil
}

func repeat(s string, n int) (any, bool, error) {
	if n <= 0 || s == "" {
		return "", true, nil
	}
	if n > MaxOutput/len(s) {
		return nil, true, errTooLarge
	}
	return strings.Repeat(s, n), true, nil
}

// number reads a value as Python's arithmetic does: a truth value is 0 or 1.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	default:
		return 0, false
	}
}

func equal(a, b any) bool {
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && x == y
	}
	switch x := a.(type) {
	case nil:
		return b == nil
	case string:
		y, ok := b.(string)
		return ok && x == y
	case *moment:
		y, ok := b.(*moment)
		return ok && x.kind == y.kind && x.t.Equal(y.t)
	case *span:
		y, ok := b.(*span)
		return ok && x.d == y.d
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !equal(x[i], y[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k, v := range x {
			if w, ok := y[k]; !ok || !equal(v, w) {
				return false
			}
		}
		return true
	default:
		return false
	}
}

func compare(op string, a, b any) (any, error) {
	order, ok := 0, false
	switch x := a.(type) {
	case string:
		var y string
		if y, ok = b.(string); ok {
			order = strings.Compare(x, y)
		}
	case *moment:
		var y *moment
		if y, ok = b.(*moment); ok {
			order = x.t.Compare(y.t)
		}
	case *span:
		var y *span
		if y, ok = b.(*span); ok {
			order = compareNumbers(float64(x.d), float64(y.d))
		}
	default:
		var p, q float64
		if p, ok = number(a); ok {
			if q, ok = number(b); ok {
				order = compareNumbers(p, q)
			}
		}
	}
	if !ok {
		return nil, fmt.Errorf("%s %s %s is not defined; turn text into a number with |int", typeName(a), op, typeName(b))
	}
	switch op {
	case "<":
		return order < 0, nil
	case "<=":
		return order <= 0, nil
	case ">":
		return order > 0, nil
	default:
		return order >= 0, nil
	}
}

func compareNumbers(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	default:
		return 0
	}
}
