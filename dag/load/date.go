package load

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var (
	dateText = regexp.MustCompile(`^([0-9]{4})[-/]?([0-9]{2})[-/]?([0-9]{2})` +
		`(?:[Tt ]\s*([0-9]{1,2}):?([0-9]{2})(?::?([0-9]{2})(?:\.([0-9]{1,9}))?)?)?\s*(Z|z|[-+][0-9]{2}(?::?[0-9]{2})?)?$`)
	relativeDate = regexp.MustCompile(`^([0-9]{1,6})\s+(day|hour|minute|second)s?(?:\s+ago)?$`)
)

const dateForms = `allowed: 2026-01-31, "2026-01-31 06:30:00", or a time before the start of today as "2 days"`

// zone finds a time zone by its IANA name.
func (b *builder) zone(name string) (*time.Location, error) {
	if loc, ok := b.zones[name]; ok {
		return loc, nil
	}
	if name == "" || strings.EqualFold(name, "local") {
		return nil, fmt.Errorf("%q is not the name of a time zone", name)
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%q is not a known time zone", name)
	}
	b.zones[name] = loc
	return loc, nil
}

// date reads an instant. A date is wall-clock time in the given zone: an
// offset that stands in the file is replaced, not converted, which is what the
// dialect's other reader does, and told where it makes a difference.
func (b *builder) date(n *node, path string, loc *time.Location) (*time.Time, bool) {
	t, offset, ok := b.readDate(n, path, loc)
	if ok && offset != "" && offsetOf(offset) != zoneOffset(*t, loc) {
		b.rep.warn(n, path, codeDateZone,
			fmt.Sprintf("the offset %s is replaced by the time zone %s, not converted", offset, loc),
			"leave the offset out, or name the zone with timezone")
	}
	return t, ok
}

// taskDate reads a date that stands on a task or in its group: the operator gets
// it as it is, so that an offset counts, and without one the installation's zone.
func (b *builder) taskDate(n *node, path string) (*time.Time, bool) {
	loc, err := b.zone(b.opts.DefaultTimezone)
	if err != nil {
		loc = time.UTC
	}
	t, offset, ok := b.readDate(n, path, loc)
	if !ok {
		return t, ok
	}
	if offset != "" {
		moved := t.Add(zoneOffset(*t, loc) - offsetOf(offset))
		return &moved, true
	}
	if zoneOffset(*t, loc) != zoneOffset(*t, b.loc) {
		b.rep.warn(n, path, codeDateZone, fmt.Sprintf("a task's own date is in the time zone %s, not in the DAG's %s", loc, b.loc), "write the offset, as in 2026-01-31 06:30:00+01:00")
	}
	return t, ok
}

// readDate reads a date as wall-clock time in a zone, and gives the offset that
// the file writes beside it, empty for none.
func (b *builder) readDate(n *node, path string, loc *time.Location) (at *time.Time, offset string, ok bool) {
	if n.kind == mapNode && n.get("__type__") != nil {
		at, ok = b.typedDate(n, path, loc)
		return at, "", ok
	}
	if n.kind != scalarNode || n.null() {
		b.rep.err(n, path, codeBadDate, "a date must stand here, not "+describe(n), dateForms)
		return nil, "", false
	}
	s := strings.TrimSpace(n.text)
	if m := relativeDate.FindStringSubmatch(strings.ToLower(s)); m != nil {
		at, ok = b.relative(n, path, loc, m[1], m[2])
		return at, "", ok
	}
	m := dateText.FindStringSubmatch(s)
	if m == nil {
		b.rep.err(n, path, codeBadDate, quote(s)+" is not a date", dateForms)
		return nil, "", false
	}
	num := func(i int) int { v, _ := strconv.Atoi(m[i]); return v } // only digits; empty is 0
	nanos := 0
	if m[7] != "" {
		nanos, _ = strconv.Atoi((m[7] + "000000000")[:9])
		nanos -= nanos % 1000
	}
	naive := time.Date(num(1), time.Month(num(2)), num(3), num(4), num(5), num(6), nanos, time.UTC)
	if naive.Month() != time.Month(num(2)) || naive.Day() != num(3) || num(4) > 23 || num(5) > 59 || num(6) > 59 || num(1) == 0 {
		b.rep.err(n, path, codeBadDate, quote(s)+" does not exist in the calendar", dateForms)
		return nil, "", false
	}
	t := wallTime(naive, loc).UTC()
	return &t, m[8], true
}

// offsetOf is the distance from UTC that a text as +05:30 says; Z is none.
func offsetOf(text string) time.Duration {
	digits := strings.ReplaceAll(text, ":", "")
	if len(digits) < 3 {
		return 0
	}
	h, _ := strconv.Atoi(digits[1:3]) // only digits
	m := 0
	if len(digits) >= 5 {
		m, _ = strconv.Atoi(digits[3:5])
	}
	d := time.Duration(h)*time.Hour + time.Duration(m)*time.Minute
	if digits[0] == '-' {
		return -d
	}
	return d
}

// zoneOffset is the distance of a zone from UTC at an instant.
func zoneOffset(t time.Time, loc *time.Location) time.Duration {
	_, seconds := t.In(loc).Zone()
	return time.Duration(seconds) * time.Second
}

// wallTime attaches a zone to a wall-clock time: of two instants the later, and
// a time that the clock skips is moved forward by the length of the gap.
func wallTime(naive time.Time, loc *time.Location) time.Time {
	_, before := naive.Add(-26 * time.Hour).In(loc).Zone()
	_, after := naive.Add(26 * time.Hour).In(loc).Zone()
	early := naive.Add(-time.Duration(before) * time.Second)
	late := naive.Add(-time.Duration(after) * time.Second)
	if early.After(late) {
		early, late = late, early
	}
	if sameWall(late, naive, loc) {
		return late
	}
	if sameWall(early, naive, loc) {
		return early
	}
	return naive.Add(-time.Duration(before) * time.Second)
}

func sameWall(t, naive time.Time, loc *time.Location) bool {
	_, off := t.In(loc).Zone()
	return t.Add(time.Duration(off) * time.Second).Equal(naive)
}

// relative counts back from the start of today in the zone.
func (b *builder) relative(n *node, path string, loc *time.Location, count, unit string) (*time.Time, bool) {
	b.rep.warn(n, path, codeRelativeDate, quote(n.text)+" is another date every day, and with it the DAG's version", "write a fixed date")
	y, mo, d := b.opts.Now().In(loc).Date()
	today := wallTime(time.Date(y, mo, d, 0, 0, 0, 0, time.UTC), loc)
	v, _ := strconv.Atoi(count) // at most six digits
	step := map[string]time.Duration{"day": 24 * time.Hour, "hour": time.Hour, "minute": time.Minute, "second": time.Second}[unit]
	t := today.Add(-time.Duration(v) * step).UTC()
	return &t, true
}

// typedDate reads datetime.datetime, datetime.date and pendulum.datetime.
func (b *builder) typedDate(n *node, path string, loc *time.Location) (*time.Time, bool) {
	name := n.get("__type__").text
	switch className(name) {
	case "datetime", "date":
	default:
		b.rep.err(n.get("__type__"), path, codeType, quote(name)+" is not a date", dateForms)
		return nil, false
	}
	units := []string{"year", "month", "day", "hour", "minute", "second", "microsecond"}
	v := []int{0, 0, 0, 0, 0, 0, 0}
	given := map[int]bool{}
	ok := true
	set := func(i int, val *node) {
		x, good := b.rep.integer(val, join(path, units[i]), 0)
		ok, v[i], given[i] = ok && good, x, true
	}
	for _, f := range n.fields {
		i := -1
		for j, u := range units {
			if u == f.name {
				i = j
			}
		}
		switch {
		case f.name == "__type__":
		case f.name == "__args__" && f.val.kind == listNode && len(f.val.items) <= len(units):
			for j, item := range f.val.items {
				set(j, item)
			}
		case i >= 0:
			set(i, f.val)
		case f.name == "tz" || f.name == "tzinfo": // it is replaced, as every zone of a date is
			b.rep.warn(f.key, join(path, f.name), codeDateZone, f.name+" is replaced by the time zone "+loc.String(), "name the zone with timezone")
		default:
			b.rep.err(f.key, join(path, f.name), codeUnknownKey, quote(f.name)+" is not a key of a date here",
				"name the zone with timezone; "+b.rep.didYouMean(f.name, units))
			ok = false
		}
	}
	if !ok {
		return nil, false
	}
	naive := time.Date(v[0], time.Month(v[1]), v[2], v[3], v[4], v[5], v[6]*1000, time.UTC)
	if !given[0] || !given[1] || !given[2] || int(naive.Month()) != v[1] || naive.Day() != v[2] || naive.Hour() != v[3] || naive.Year() != v[0] || v[0] == 0 {
		b.rep.err(n, path, codeBadDate, "year, month and day must name a date of the calendar", "")
		return nil, false
	}
	t := wallTime(naive, loc).UTC()
	return &t, true
}

// typedValue turns a __type__ mapping in a place of any type into JSON: a
// duration becomes seconds, a date a text.
func (r *report) typedValue(n *node, path string) (any, bool) {
	t := n.get("__type__")
	switch className(t.text) {
	case "timedelta", "relativedelta", "duration":
		d, ok := r.duration(n, path)
		return d.Seconds(), ok
	case "XComArg", "PlainXComArg":
		r.err(t, path, codeType, quote(t.text)+" stands in an operator's key", `write {{ ti.xcom_pull(task_ids="...") }} in quotes, or use expand`)
		return nil, false
	default:
		hint := "Airlock makes no Python objects"
		if strings.HasPrefix(t.text, "kubernetes.") {
			hint = "Airlock has no Kubernetes operators"
		}
		r.err(t, path, codeType, "objects of "+quote(t.text)+" are not supported", hint)
		return nil, false
	}
}
