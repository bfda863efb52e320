package render

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"sort"
	"strconv"
	"strings"

	"github.com/nikolalohinski/gonja/v2/exec"
)

// fn is a function that templates call.
type fn = func(*exec.VarArgs) (any, error)

// object is a value with attributes that are made when they are asked for. It
// hides everything else from the engine.
type object struct {
	// kind names the object in errors: "conn", "task_instance".
	kind string
	// attr gives an attribute, false when there is none; an error says why an
	// attribute that may exist could not be had.
	attr func(name string) (v any, ok bool, err error)
	// text is what the object prints as; its kind in angle brackets when nil.
	text func() string
	// fail keeps an error's words for the report.
	fail func(error) error
}

// GetAttribute implements exec.AttributeGetter.
func (o *object) GetAttribute(name string) (*exec.Value, bool) {
	v, ok, err := o.attr(name)
	if err != nil {
		if o.fail != nil {
			err = o.fail(err)
		}
		return exec.AsValue(err), false
	}
	if !ok {
		return exec.AsValue(&missing{of: o.kind, name: name}), false
	}
	return exec.ToValue(v), true
}

// GetItem implements exec.ItemGetter: x["name"] is x.name.
func (o *object) GetItem(key any) (*exec.Value, bool) {
	name, ok := key.(string)
	if !ok {
		return exec.AsValue(&missing{of: o.kind, name: fmt.Sprint(key)}), false
	}
	return o.GetAttribute(name)
}

// String implements fmt.Stringer.
func (o *object) String() string {
	if o.text != nil {
		return o.text()
	}
	return "<" + o.kind + ">"
}

// missing is the error of an attribute that is not there.
type missing struct{ of, name string }

// Error implements error.
func (m *missing) Error() string { return fmt.Sprintf("%s has no %q", m.of, m.name) }

// attrs makes an attribute function of a map.
func attrs(m map[string]any) func(string) (any, bool, error) {
	return func(name string) (any, bool, error) {
		v, ok := m[name]
		return v, ok, nil
	}
}

// normal turns plain data of any origin into the types that templates see: nil,
// bool, int, float64, string, []any, map[string]any, this package's own. The
// result shares nothing with v. Whole numbers that JSON made floats are whole
// again.
func normal(v any) any {
	switch v := v.(type) {
	case nil, bool, int, string, *object, *moment, *span, fn:
		return v
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int(v)
		}
		return v
	case json.Number:
		if i, err := strconv.Atoi(v.String()); err == nil {
			return i
		}
		f, err := v.Float64()
		if err != nil {
			return v.String()
		}
		return f
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = normal(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[k] = normal(x)
		}
		return out
	default:
		return normalReflect(reflect.ValueOf(v))
	}
}

func normalReflect(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Bool:
		return v.Bool()
	case reflect.String:
		return v.String()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return int(v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if u := v.Uint(); u <= math.MaxInt {
			return int(u)
		}
		return float64(v.Uint())
	case reflect.Float32, reflect.Float64:
		return v.Float()
	case reflect.Slice, reflect.Array:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = normal(v.Index(i).Interface())
		}
		return out
	case reflect.Map:
		out := make(map[string]any, v.Len())
		for it := v.MapRange(); it.Next(); {
			out[fmt.Sprint(it.Key().Interface())] = normal(it.Value().Interface())
		}
		return out
	default:
		// Anything else goes through JSON, so that no method is reachable.
		raw, err := json.Marshal(v.Interface())
		if err != nil {
			return fmt.Sprint(v.Interface())
		}
		var plain any
		if json.Unmarshal(raw, &plain) != nil {
			return string(raw)
		}
		return normal(plain)
	}
}

// toGo turns a value of the engine into the types of normal. Functions and the
// engine's own objects stay as they are.
func toGo(v *exec.Value) any {
	switch {
	case v == nil || v.IsNil():
		return nil
	case v.IsBool():
		return v.Bool()
	case v.IsInteger():
		return v.Integer()
	case v.IsFloat():
		return v.Float()
	case v.IsString():
		return v.String()
	case v.IsList():
		out := make([]any, 0, v.Len())
		for i := range v.Len() {
			out = append(out, toGo(exec.ToValue(v.Index(i).Val)))
		}
		return out
	case v.IsDict():
		out := map[string]any{}
		v.Iterate(func(_, _ int, key, value *exec.Value) bool {
			out[pyStr(toGo(key))] = toGo(exec.ToValue(value.Val))
			return true
		}, func() {})
		return out
	default:
		return v.Interface()
	}
}

// truth is Python's truth of a value.
func truth(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case int:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	case *span:
		return v.d != 0
	default:
		return true
	}
}

// typeName names a value's type in errors.
func typeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		return "truth value"
	case int, float64:
		return "number"
	case string:
		return "text"
	case []any:
		return "list"
	case map[string]any:
		return "mapping"
	case *moment:
		return v.kind.String()
	case *span:
		return "timedelta"
	case *object:
		return v.kind
	default:
		return "object"
	}
}

// pyStr is Python's str() of a value.
func pyStr(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case string:
		return v
	case bool:
		if v {
			return "True"
		}
		return "False"
	case int:
		return strconv.Itoa(v)
	case float64:
		return pyFloat(v)
	case []any:
		items := make([]string, len(v))
		for i := range v {
			items[i] = pyRepr(v[i])
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		for i, k := range keys {
			keys[i] = pyRepr(k) + ": " + pyRepr(v[k])
		}
		return "{" + strings.Join(keys, ", ") + "}"
	case fmt.Stringer:
		return v.String()
	default:
		if reflect.TypeOf(v).Kind() == reflect.Func {
			return "<function>"
		}
		return fmt.Sprint(v)
	}
}

// pyRepr is Python's repr() of a value, as lists and mappings print their items.
func pyRepr(v any) string {
	s, ok := v.(string)
	if !ok {
		return pyStr(v)
	}
	quote := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	var b strings.Builder
	b.WriteByte(quote)
	for _, c := range s {
		switch {
		case c == rune(quote) || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < ' ' || c == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte(quote)
	return b.String()
}

// pyFloat prints a float as Python does: always with a point or an exponent.
func pyFloat(f float64) string {
	if abs := math.Abs(f); abs != 0 && (abs < 1e-4 || abs >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") && !math.IsInf(f, 0) && !math.IsNaN(f) {
		s += ".0"
	}
	return s
}
