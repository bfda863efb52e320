package render

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/nikolalohinski/gonja/v2/exec"
)

// span is a Python timedelta.
type span struct{ d time.Duration }

// GetItem implements exec.ItemGetter.
func (s *span) GetItem(key any) (*exec.Value, bool) {
	if name, ok := key.(string); ok {
		return s.GetAttribute(name)
	}
	return exec.AsValue(&missing{of: "timedelta", name: fmt.Sprint(key)}), false
}

// GetAttribute implements exec.AttributeGetter.
func (s *span) GetAttribute(name string) (*exec.Value, bool) {
	days, rest := s.parts()
	switch name {
	case "days":
		return exec.AsValue(days), true
	case "seconds":
		return exec.AsValue(int(rest / time.Second)), true
	case "microseconds":
		return exec.AsValue(int(rest % time.Second / time.Microsecond)), true
	case "total_seconds":
		return exec.AsValue(func(*exec.VarArgs) (any, error) { return float64(s.d.Microseconds()) / 1e6, nil }), true
	default:
		return exec.AsValue(&missing{of: "timedelta", name: name}), false
	}
}

// parts splits like Python: the days may be negative, the rest is not.
func (s *span) parts() (days int, rest time.Duration) {
	const day = 24 * time.Hour
	days, rest = int(s.d/day), s.d%day
	if rest < 0 {
		days, rest = days-1, rest+day
	}
	return days, rest
}

// String implements fmt.Stringer: "1 day, 2:03:04".
func (s *span) String() string {
	days, rest := s.parts()
	text := fmt.Sprintf("%d:%02d:%02d", int(rest.Hours()), int(rest.Minutes())%60, int(rest.Seconds())%60)
	if us := rest % time.Second / time.Microsecond; us != 0 {
		text += fmt.Sprintf(".%06d", us)
	}
	switch days {
	case 0:
		return text
	case 1, -1:
		return fmt.Sprintf("%d day, %s", days, text)
	default:
		return fmt.Sprintf("%d days, %s", days, text)
	}
}

// timedelta reads Python's timedelta arguments.
func timedelta(va *exec.VarArgs) (*span, error) {
	order := []string{"days", "seconds", "microseconds", "milliseconds", "minutes", "hours", "weeks"}
	units := map[string]time.Duration{
		"weeks": 7 * 24 * time.Hour, "days": 24 * time.Hour, "hours": time.Hour, "minutes": time.Minute,
		"seconds": time.Second, "milliseconds": time.Millisecond, "microseconds": time.Microsecond,
	}
	total := 0.0
	part := func(name string, v any) error {
		n, ok := number(v)
		unit, known := units[name]
		if !known {
			return fmt.Errorf("timedelta has no %q; it takes %s", name, strings.Join(order, ", "))
		}
		if !ok {
			return fmt.Errorf("timedelta: %s is a %s, not a number; turn text into one with |int", name, typeName(v))
		}
		total += n * float64(unit)
		return nil
	}
	if len(va.Args) > len(order) {
		return nil, errors.New("timedelta takes at most seven arguments")
	}
	for i, a := range va.Args {
		if err := part(order[i], toGo(a)); err != nil {
			return nil, err
		}
	}
	for key, a := range va.KwArgs {
		if err := part(key, toGo(a)); err != nil {
			return nil, err
		}
	}
	if math.Abs(total) > float64(250*365*24*time.Hour) {
		return nil, errors.New("the timedelta is out of range")
	}
	return &span{time.Duration(math.Round(total/1000)) * time.Microsecond}, nil
}

// timeArithmetic adds and subtracts dates and timedeltas.
func timeArithmetic(op string, a, b any) (any, bool, error) {
	switch x := a.(type) {
	case *moment:
		switch y := b.(type) {
		case *span:
			if op == "+" || op == "-" {
				d := y.d
				if op == "-" {
					d = -d
				}
				v, err := x.plus(d)
				return v, true, err
			}
		case *moment:
			if op == "-" {
				d := x.t.Sub(y.t)
				if d == math.MaxInt64 || d == math.MinInt64 {
					return nil, true, errors.New("the timedelta is out of range")
				}
				return &span{d}, true, nil
			}
		}
	case *span:
		switch y := b.(type) {
		case *moment:
			if op == "+" {
				v, err := y.plus(x.d)
				return v, true, err
			}
		case *span:
			switch op {
			case "+":
				return &span{x.d + y.d}, true, nil
			case "-":
				return &span{x.d - y.d}, true, nil
			case "/", "//":
				v, err := floats(op, float64(x.d), float64(y.d))
				return v, true, err
			}
		default:
			n, ok := number(b)
			if ok && (op == "*" || op == "/" || op == "//") {
				v, err := floats(op, float64(x.d), n)
				if err != nil || math.Abs(v.(float64)) > math.MaxInt64/2 {
					return nil, true, errors.New("the timedelta is out of range")
				}
				return &span{time.Duration(v.(float64))}, true, nil
			}
		}
	default:
		if y, ok := b.(*span); ok && op == "*" {
			if _, ok := number(a); ok {
				return timeArithmetic(op, y, a)
			}
		}
	}
	return nil, false, nil
}
