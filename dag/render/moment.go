package render

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nikolalohinski/gonja/v2/exec"
)

// momentKind tells Python's date types apart.
type momentKind int

const (
	aware momentKind = iota // a datetime with a zone
	naive                   // a datetime without one, kept as UTC
	date                    // a day
)

// String names the type in errors.
func (k momentKind) String() string {
	if k == date {
		return "date"
	}
	return "datetime"
}

// moment is a Python date or datetime as templates use it, with the additions
// of pendulum that Airflow's users know.
type moment struct {
	t    time.Time
	kind momentKind
}

// instant is an aware datetime in UTC.
func instant(t time.Time) *moment { return &moment{t.UTC(), aware} }

func (m *moment) with(t time.Time) *moment { return &moment{t, m.kind} }

// String implements fmt.Stringer: Python's str().
func (m *moment) String() string { return m.iso(" ") }

func (m *moment) iso(sep string) string {
	layout := "2006-01-02"
	if m.kind != date {
		layout += sep + "15:04:05"
		if m.t.Nanosecond()/1000 != 0 {
			layout += ".000000"
		}
		if m.kind == aware {
			layout += "-07:00"
		}
	}
	return m.t.Format(layout)
}

// GetItem implements exec.ItemGetter.
func (m *moment) GetItem(key any) (*exec.Value, bool) {
	if name, ok := key.(string); ok {
		return m.GetAttribute(name)
	}
	return exec.AsValue(&missing{of: m.kind.String(), name: fmt.Sprint(key)}), false
}

// GetAttribute implements exec.AttributeGetter.
func (m *moment) GetAttribute(name string) (*exec.Value, bool) {
	if n, ok := m.number(name); ok {
		return exec.AsValue(n), true
	}
	if f, ok := m.method(name); ok {
		return exec.AsValue(f), true
	}
	return exec.AsValue(&missing{of: m.kind.String(), name: name}), false
}

func (m *moment) number(name string) (any, bool) {
	switch name {
	case "year":
		return m.t.Year(), true
	case "month":
		return int(m.t.Month()), true
	case "day":
		return m.t.Day(), true
	case "day_of_week":
		return (int(m.t.Weekday()) + 6) % 7, true // pendulum 3: Monday is 0
	case "day_of_year":
		return m.t.YearDay(), true
	case "days_in_month":
		return time.Date(m.t.Year(), m.t.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day(), true
	case "quarter":
		return (int(m.t.Month()) + 2) / 3, true
	case "week_of_year":
		_, week := m.t.ISOWeek()
		return week, true
	}
	if m.kind == date {
		return nil, false
	}
	switch name {
	case "hour":
		return m.t.Hour(), true
	case "minute":
		return m.t.Minute(), true
	case "second":
		return m.t.Second(), true
	case "microsecond":
		return m.t.Nanosecond() / 1000, true
	case "int_timestamp":
		return int(m.t.Unix()), true
	case "float_timestamp":
		return timestamp(m.t), true
	case "timezone_name":
		return m.t.Location().String(), true
	case "tzinfo", "timezone", "tz":
		if m.kind == naive {
			return nil, true
		}
		return m.t.Location().String(), true
	default:
		return nil, false
	}
}

func timestamp(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

func (m *moment) method(name string) (fn, bool) {
	plain := func(f func() any) (fn, bool) {
		return func(va *exec.VarArgs) (any, error) {
			if len(va.Args)+len(va.KwArgs) > 0 {
				return nil, fmt.Errorf("%s() takes no arguments", name)
			}
			return f(), nil
		}, true
	}
	switch name {
	case "isoformat":
		return func(va *exec.VarArgs) (any, error) {
			sep := textArg(va, 0, "sep", "T")
			return m.iso(sep), nil
		}, true
	case "strftime":
		return func(va *exec.VarArgs) (any, error) { return strftime(m.t, textArg(va, 0, "format", "")), nil }, true
	case "format":
		return func(va *exec.VarArgs) (any, error) { return pendulumFormat(m.t, textArg(va, 0, "fmt", "")), nil }, true
	case "date":
		return plain(func() any { return &moment{midnight(m.t, time.UTC), date} })
	case "weekday":
		return plain(func() any { return (int(m.t.Weekday()) + 6) % 7 })
	case "isoweekday":
		return plain(func() any { return (int(m.t.Weekday())+6)%7 + 1 })
	case "isocalendar":
		return plain(func() any {
			y, w := m.t.ISOWeek()
			return []any{y, w, (int(m.t.Weekday())+6)%7 + 1}
		})
	case "replace":
		return m.replace, true
	case "add":
		return func(va *exec.VarArgs) (any, error) { return m.shift(va, 1) }, true
	case "subtract":
		return func(va *exec.VarArgs) (any, error) { return m.shift(va, -1) }, true
	case "to_date_string":
		return plain(func() any { return m.t.Format("2006-01-02") })
	case "start_of":
		return func(va *exec.VarArgs) (any, error) { return m.edge(textArg(va, 0, "unit", ""), false) }, true
	case "end_of":
		return func(va *exec.VarArgs) (any, error) { return m.edge(textArg(va, 0, "unit", ""), true) }, true
	}
	if m.kind == date {
		return nil, false
	}
	switch name {
	case "time":
		return plain(func() any { return m.t.Format("15:04:05") })
	case "timestamp":
		return plain(func() any { return timestamp(m.t) })
	case "naive":
		return plain(func() any { return &moment{unzoned(m.t), naive} })
	case "to_datetime_string":
		return plain(func() any { return m.t.Format("2006-01-02 15:04:05") })
	case "to_time_string":
		return plain(func() any { return m.t.Format("15:04:05") })
	case "to_iso8601_string":
		return plain(func() any { return strings.Replace(m.iso("T"), "+00:00", "Z", 1) })
	case "in_timezone", "in_tz", "astimezone":
		return m.inZone, true
	default:
		return nil, false
	}
}

func midnight(t time.Time, loc *time.Location) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, loc)
}

// unzoned keeps the wall time.
func unzoned(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

func (m *moment) inZone(va *exec.VarArgs) (any, error) {
	name := textArg(va, 0, "tz", "UTC")
	loc, err := time.LoadLocation(name)
	if err != nil || name == "Local" || name == "" {
		return nil, fmt.Errorf("there is no time zone %q", name)
	}
	return &moment{m.t.In(loc), aware}, nil
}

func (m *moment) replace(va *exec.VarArgs) (any, error) {
	parts := []string{"year", "month", "day", "hour", "minute", "second", "microsecond"}
	values := []int{m.t.Year(), int(m.t.Month()), m.t.Day(), m.t.Hour(), m.t.Minute(), m.t.Second(), m.t.Nanosecond() / 1000}
	for key, v := range va.KwArgs {
		at := indexOf(parts, key)
		n, ok := toGo(v).(int)
		if at < 0 || !ok || m.kind == date && at > 2 {
			if key == "tzinfo" && toGo(v) == nil {
				return &moment{unzoned(m.t), naive}, nil
			}
			return nil, fmt.Errorf("replace() cannot set %s", key)
		}
		values[at] = n
	}
	if len(va.Args) > 0 {
		return nil, errors.New("replace() takes its parts by name: replace(day=1)")
	}
	t := time.Date(values[0], time.Month(values[1]), values[2], values[3], values[4], values[5], values[6]*1000, m.t.Location())
	if t.Day() != values[2] || int(t.Month()) != values[1] {
		return nil, fmt.Errorf("replace() gives the day %d-%02d-%02d, which does not exist", values[0], values[1], values[2])
	}
	return m.with(t), nil
}

func indexOf(list []string, s string) int {
	for i := range list {
		if list[i] == s {
			return i
		}
	}
	return -1
}

// shift is pendulum's add and subtract: years, months, weeks, days and less.
func (m *moment) shift(va *exec.VarArgs, sign int) (any, error) {
	if len(va.Args) == 1 {
		if s, ok := toGo(va.Args[0]).(*span); ok {
			return m.plus(time.Duration(sign) * s.d)
		}
	}
	months := 0
	rest := &exec.VarArgs{Args: va.Args, KwArgs: map[string]*exec.Value{}}
	for key, v := range va.KwArgs {
		n, isInt := toGo(v).(int)
		switch {
		case key == "years" && isInt:
			months += 12 * n
		case key == "months" && isInt:
			months += n
		default:
			rest.KwArgs[key] = v
		}
	}
	d, err := timedelta(rest)
	if err != nil {
		return nil, err
	}
	if months < -maxMonths || months > maxMonths {
		return nil, errors.New("the date is out of range")
	}
	first := time.Date(m.t.Year(), m.t.Month()+time.Month(sign*months), 1, m.t.Hour(), m.t.Minute(), m.t.Second(), m.t.Nanosecond(), m.t.Location())
	last := time.Date(first.Year(), first.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
	return m.with(first.AddDate(0, 0, min(m.t.Day(), last)-1)).plus(time.Duration(sign) * d.d)
}

const maxMonths = 12 * 10_000

// plus adds a duration: whole days on the wall clock, the rest as time.
func (m *moment) plus(d time.Duration) (*moment, error) {
	const day = 24 * time.Hour
	t := m.t.AddDate(0, 0, int(d/day))
	if m.kind != date {
		t = t.Add(d % day)
	}
	if t.Year() < 1 || t.Year() > 9999 {
		return nil, errors.New("the date is out of range")
	}
	return m.with(t), nil
}

func (m *moment) edge(unit string, end bool) (any, error) {
	y, mo, d := m.t.Date()
	var from time.Time
	var years, months, days int
	var length time.Duration
	loc := m.t.Location()
	switch unit {
	case "year":
		from, years = time.Date(y, 1, 1, 0, 0, 0, 0, loc), 1
	case "month":
		from, months = time.Date(y, mo, 1, 0, 0, 0, 0, loc), 1
	case "week":
		from, days = time.Date(y, mo, d-(int(m.t.Weekday())+6)%7, 0, 0, 0, 0, loc), 7
	case "day":
		from, days = midnight(m.t, loc), 1
	case "hour":
		// Off the wall clock: not every zone is whole hours away from UTC.
		from, length = m.t.Add(-m.t.Sub(m.t.Truncate(time.Minute))-time.Duration(m.t.Minute())*time.Minute), time.Hour
	case "minute":
		from, length = m.t.Truncate(time.Minute), time.Minute
	default:
		return nil, fmt.Errorf("the unit %q is not known: year, month, week, day, hour or minute", unit)
	}
	if !end {
		return m.with(from), nil
	}
	return m.with(from.AddDate(years, months, days).Add(length - time.Microsecond)), nil
}

// textArg is a text argument by place or name.
func textArg(va *exec.VarArgs, at int, name, fallback string) string {
	if at < len(va.Args) {
		return pyStr(toGo(va.Args[at]))
	}
	if v, ok := va.KwArgs[name]; ok {
		return pyStr(toGo(v))
	}
	return fallback
}
