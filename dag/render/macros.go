package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nikolalohinski/gonja/v2/exec"
)

// class is a function with attributes of its own, like Python's datetime. The
// engine asks it for an attribute by calling it with that one argument.
type class func(*exec.VarArgs) (any, error)

// attributeOf is the argument that asks a class for an attribute; a template
// cannot write a name with a blank.
const attributeOf = "attribute of"

// GetAttribute implements exec.AttributeGetter.
func (c class) GetAttribute(name string) (*exec.Value, bool) {
	v, err := c(&exec.VarArgs{KwArgs: map[string]*exec.Value{attributeOf: exec.AsValue(name)}})
	if err != nil {
		return exec.AsValue(err), false
	}
	return exec.AsValue(v), true
}

// GetItem implements exec.ItemGetter.
func (c class) GetItem(key any) (*exec.Value, bool) { return c.GetAttribute(fmt.Sprint(key)) }

func newClass(name string, call fn, members map[string]any) class {
	return func(va *exec.VarArgs) (any, error) {
		key, ok := va.KwArgs[attributeOf]
		if !ok {
			return call(va)
		}
		v, ok := members[key.String()]
		if !ok {
			return nil, &missing{of: name, name: key.String()}
		}
		return v, nil
	}
}

// macros is the "macros" name.
func (r *Renderer) macros() *object {
	guard := func(f fn) fn {
		return func(va *exec.VarArgs) (any, error) {
			v, err := f(va)
			if err != nil {
				return nil, r.keep(err)
			}
			return v, nil
		}
	}
	now := func() time.Time { return r.in.Clock.Now() }
	return r.object("macros", map[string]any{
		"datetime":  r.datetimeClass(guard),
		"timedelta": guard(func(va *exec.VarArgs) (any, error) { return timedelta(va) }),
		"dateutil": r.object("dateutil", map[string]any{
			"parser": r.object("dateutil.parser", map[string]any{
				"parse": guard(func(va *exec.VarArgs) (any, error) { return parseDate(textArg(va, 0, "timestr", "")) }),
			}, ""),
		}, ""),
		"time": r.object("time", map[string]any{
			"time": guard(func(*exec.VarArgs) (any, error) { return timestamp(now()), nil }),
		}, ""),
		"uuid": r.object("uuid", map[string]any{
			"uuid4": guard(func(*exec.VarArgs) (any, error) { return uuid4(r.in.IDs.NewID()), nil }),
		}, ""),
		"random": guard(func(*exec.VarArgs) (any, error) { return r.in.Rand.Float64(), nil }),
		"json": r.object("json", map[string]any{
			"dumps": guard(func(va *exec.VarArgs) (any, error) { return plainJSON(toGo(va.First()), 0) }),
			"loads": guard(func(va *exec.VarArgs) (any, error) {
				v, err := decode(json.RawMessage(textArg(va, 0, "s", "")))
				if err != nil {
					return nil, errors.New("json.loads: the text is not JSON")
				}
				return v, nil
			}),
		}, ""),
		"ds_add":           guard(dsAdd),
		"ds_format":        guard(dsFormat),
		"ds_format_locale": guard(dsFormat),
	}, "")
}

func (r *Renderer) datetimeClass(guard func(fn) fn) class {
	now := func(va *exec.VarArgs) (any, error) {
		m := instant(r.in.Clock.Now())
		if len(va.Args)+len(va.KwArgs) > 0 {
			return m.inZone(va)
		}
		return &moment{m.t, naive}, nil
	}
	return newClass("datetime", guard(makeDatetime), map[string]any{
		"now": guard(now), "utcnow": guard(func(*exec.VarArgs) (any, error) { return &moment{r.in.Clock.Now().UTC(), naive}, nil }),
		"today": guard(now),
		"strptime": guard(func(va *exec.VarArgs) (any, error) {
			t, err := strptime(textArg(va, 0, "date_string", ""), textArg(va, 1, "format", ""))
			if err != nil {
				return nil, err
			}
			if t.Location() != time.UTC {
				return &moment{t, aware}, nil
			}
			return &moment{t, naive}, nil
		}),
		"fromisoformat": guard(func(va *exec.VarArgs) (any, error) { return parseDate(textArg(va, 0, "date_string", "")) }),
		"fromtimestamp": guard(func(va *exec.VarArgs) (any, error) {
			s, ok := number(toGo(va.First()))
			if !ok || s < -62135596800 || s > 253402300799 {
				return nil, errors.New("fromtimestamp takes the seconds since 1970")
			}
			return &moment{time.UnixMicro(int64(s * 1e6)).UTC(), naive}, nil
		}),
	})
}

// makeDatetime is datetime(year, month, day[, hour, minute, second, microsecond]).
func makeDatetime(va *exec.VarArgs) (any, error) {
	names := []string{"year", "month", "day", "hour", "minute", "second", "microsecond"}
	var v [7]int
	set := func(i int, x any) error {
		n, ok := x.(int)
		if i < 0 || i >= len(v) || !ok {
			return errors.New("datetime takes whole numbers: year, month, day and, if wanted, hour, minute, second, microsecond")
		}
		v[i] = n
		return nil
	}
	for i, a := range va.Args {
		if err := set(i, toGo(a)); err != nil {
			return nil, err
		}
	}
	for k, a := range va.KwArgs {
		if err := set(indexOf(names, k), toGo(a)); err != nil {
			return nil, err
		}
	}
	t := time.Date(v[0], time.Month(v[1]), v[2], v[3], v[4], v[5], v[6]*1000, time.UTC)
	if t.Year() != v[0] || int(t.Month()) != v[1] || t.Day() != v[2] || t.Hour() != v[3] || t.Minute() != v[4] || t.Second() != v[5] {
		return nil, fmt.Errorf("there is no date %v", v)
	}
	return &moment{t, naive}, nil
}

func uuid4(id string) string {
	if len(id) < 32 {
		return id
	}
	return id[:8] + "-" + id[8:12] + "-4" + id[13:16] + "-a" + id[17:20] + "-" + id[20:32]
}

// dsAdd is ds_add(ds, days).
func dsAdd(va *exec.VarArgs) (any, error) {
	t, err := time.Parse("2006-01-02", textArg(va, 0, "ds", ""))
	if err != nil {
		return nil, fmt.Errorf("ds_add takes a date as 2026-01-31, found %q", textArg(va, 0, "ds", ""))
	}
	var days any
	if len(va.Args) > 1 {
		days = toGo(va.Args[1])
	} else if v, ok := va.KwArgs["days"]; ok {
		days = toGo(v)
	}
	n, ok := days.(int)
	if !ok || n < -3_650_000 || n > 3_650_000 {
		return nil, errors.New("ds_add takes a whole number of days")
	}
	return t.AddDate(0, 0, n).Format("2006-01-02"), nil
}

// dsFormat is ds_format(ds, input_format, output_format).
func dsFormat(va *exec.VarArgs) (any, error) {
	t, err := strptime(textArg(va, 0, "ds", ""), textArg(va, 1, "input_format", ""))
	if err != nil {
		return nil, err
	}
	return strftime(t, textArg(va, 2, "output_format", "")), nil
}
