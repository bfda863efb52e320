package column

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/airlock-dag/airlock/sql/merge/row"
)

func (c *Column) fault(code row.Code, format string, args ...any) *row.Fault {
	return &row.Fault{Code: code, Column: c.Name, Message: fmt.Sprintf(format, args...)}
}

func (c *Column) wrong(v row.Value, need string) *row.Fault {
	return c.fault(row.WrongType, "%s is needed, there is %s: %s", need, v.Kind, show(v.Text))
}

// show quotes a value for a message and cuts a long one.
func show(text string) string {
	if len(text) > 60 {
		text = strings.ToValidUTF8(text[:60], "") + "..."
	}
	return strconv.Quote(text)
}

// plain writes a converted value as text.
func plain(v any) string {
	switch x := v.(type) {
	case nil:
		return ""
	case string:
		return x
	case int64:
		return strconv.FormatInt(x, 10)
	case float64:
		return strconv.FormatFloat(x, 'g', -1, 64)
	case []byte:
		return string(x)
	default:
		return fmt.Sprint(x)
	}
}

// digits takes a number written without an exponent apart: a sign, digits
// before the point and digits after it. Thousands separators, spaces, a leading
// plus and exponents are not numbers here.
func digits(s string) (neg bool, whole, frac string, ok bool) {
	if strings.HasPrefix(s, "-") {
		neg, s = true, s[1:]
	}
	whole, frac, point := strings.Cut(s, ".")
	if whole == "" || (point && frac == "") {
		return false, "", "", false
	}
	for _, part := range []string{whole, frac} {
		for i := range len(part) {
			if part[i] < '0' || part[i] > '9' {
				return false, "", "", false
			}
		}
	}
	return neg, whole, frac, true
}

// integer takes a whole number in plain digits: 1e3, 1,000, +5 and 5.0 are not
// taken for one.
func (c *Column) integer(v row.Value, t Type) (any, *row.Fault) {
	if v.Kind != row.Text && v.Kind != row.Number {
		return nil, c.wrong(v, "a whole number")
	}
	neg, whole, frac, ok := digits(v.Text)
	if !ok || frac != "" {
		return nil, c.fault(row.NotAnInteger, "%s is not a whole number in plain digits", show(v.Text))
	}
	u, err := strconv.ParseUint(whole, 10, 64)
	outOfRange := func() (any, *row.Fault) {
		lo, hi := t.IntegerRange()
		return nil, c.fault(row.OutOfRange, "%s does not fit %s, which goes from %d to %d", show(v.Text), t, lo, hi)
	}
	switch {
	case err != nil, neg && u > 1<<63:
		return outOfRange()
	case !neg && u > math.MaxInt64:
		if _, hi := t.IntegerRange(); u > hi {
			return outOfRange()
		}
		// Only an unsigned bigint holds it; drivers take it as text.
		return strconv.FormatUint(u, 10), nil
	}
	n := int64(u)
	if neg {
		n = -n
	}
	return n, c.inRange(n, t, v)
}

func (c *Column) inRange(n int64, t Type, v row.Value) *row.Fault {
	lo, hi := t.IntegerRange()
	if n < lo || (n > 0 && uint64(n) > hi) {
		return c.fault(row.OutOfRange, "%s does not fit %s, which goes from %d to %d", show(v.Text), t, lo, hi)
	}
	return nil
}

// decimal gives the number in one form: no leading zeros, exactly Scale digits
// after the point. Further digits must be zeros.
func (c *Column) decimal(v row.Value, t Type) (any, *row.Fault) {
	if v.Kind != row.Text && v.Kind != row.Number {
		return nil, c.wrong(v, "a decimal number")
	}
	neg, whole, frac, ok := digits(v.Text)
	if !ok {
		return nil, c.fault(row.NotADecimal, "%s is not a decimal number in plain digits", show(v.Text))
	}
	if len(frac) > t.Scale {
		if strings.Trim(frac[t.Scale:], "0") != "" {
			return nil, c.fault(row.TooManyDecimals, "%s has more than %d decimals", show(v.Text), t.Scale)
		}
		frac = frac[:t.Scale]
	}
	frac += strings.Repeat("0", t.Scale-len(frac))
	whole = strings.TrimLeft(whole, "0")
	if len(whole) > t.Precision-t.Scale {
		return nil, c.fault(row.OutOfRange, "%s does not fit %s: %d digits before the point, %d are allowed", show(v.Text), t, len(whole), t.Precision-t.Scale)
	}
	if t.Unsigned && neg && strings.Trim(whole+frac, "0") != "" {
		return nil, c.fault(row.OutOfRange, "%s is below zero", show(v.Text))
	}
	if c.NumericAffinity && len(strings.Trim(strings.TrimLeft(whole+frac, "0"), "")) > 15 {
		return nil, c.fault(row.PrecisionLost, "%s has more than 15 digits, which this SQLite column would round; give the column a type with TEXT in its name", show(v.Text))
	}
	if whole == "" {
		whole = "0"
	}
	if frac != "" {
		whole += "." + frac
	}
	if neg && strings.Trim(whole, "0.") != "" {
		whole = "-" + whole
	}
	return whole, nil
}

// double takes a number with or without exponent; one that a double cannot
// hold within its range is refused. NaN and infinities are not numbers.
func (c *Column) double(v row.Value) (any, *row.Fault) {
	if v.Kind != row.Text && v.Kind != row.Number {
		return nil, c.wrong(v, "a number")
	}
	if !json.Valid([]byte(v.Text)) || v.Text == "" || (v.Text[0] != '-' && (v.Text[0] < '0' || v.Text[0] > '9')) {
		return nil, c.fault(row.NotANumber, "%s is not a number", show(v.Text))
	}
	bits := 64
	if c.Type.Single {
		bits = 32
	}
	f, err := strconv.ParseFloat(v.Text, bits)
	if err != nil {
		return nil, c.fault(row.OutOfRange, "%s is beyond what a floating point number holds", show(v.Text))
	}
	return f, nil
}

func (c *Column) boolean(v row.Value) (any, *row.Fault) {
	switch strings.ToLower(v.Text) {
	case "true", "t", "1", "yes", "y":
		return int64(1), nil
	case "false", "f", "0", "no", "n":
		return int64(0), nil
	}
	return nil, c.fault(row.NotABoolean, "%s is neither true nor false", show(v.Text))
}

// json keeps the JSON text as it was written. A text from CSV must itself be
// JSON; a JSON string stays a JSON string.
func (c *Column) json(v row.Value) (any, *row.Fault) {
	switch v.Kind {
	case row.JSON, row.Number, row.Bool:
		return v.Text, nil
	case row.Text, row.Bytes:
		if json.Valid([]byte(v.Text)) {
			return v.Text, nil
		}
		return nil, c.fault(row.BadJSON, "%s is not JSON", show(v.Text))
	default:
		return nil, c.wrong(v, "JSON")
	}
}
