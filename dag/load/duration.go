package load

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// maxDuration keeps every duration far from overflow when it is added to a
// date or doubled.
const maxDuration = 100 * 365 * 24 * time.Hour

var (
	durationPart = regexp.MustCompile(`([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(weeks?|days?|hours?|minutes?|mins?|seconds?|secs?|ms|us|w|d|h|m|s)`)
	isoDuration  = regexp.MustCompile(`^P(?:([0-9.]+)Y)?(?:([0-9.]+)M)?(?:([0-9.]+)W)?(?:([0-9.]+)D)?(?:T(?:([0-9.]+)H)?(?:([0-9.]+)M)?(?:([0-9.]+)S)?)?$`)
)

const durationForms = `allowed: seconds as a number, "90s", "15m", "2h30m", "1d", ISO 8601 as "PT15M", or {__type__: datetime.timedelta, minutes: 15}`

// duration reads a length of time that is not negative, in any of its forms.
func (r *report) duration(n *node, path string) (time.Duration, bool) {
	d, months, ok := r.period(n, path)
	switch {
	case !ok:
		return 0, false
	case months != 0:
		r.err(n, path, codeBadDuration, "months and years have no fixed length", "write days")
		return 0, false
	case d < 0:
		r.err(n, path, codeBadDuration, "the duration is negative", "")
		return 0, false
	}
	return d, true
}

// period reads a length of time with calendar months apart.
func (r *report) period(n *node, path string) (d time.Duration, months int, ok bool) {
	switch n.kind {
	case mapNode:
		if n.get("__type__") != nil {
			return r.typedPeriod(n, path)
		}
	case scalarNode:
		if n.null() {
			break
		}
		d, err := parseDuration(strings.TrimSpace(n.text))
		if err != nil {
			r.err(n, path, codeBadDuration, quote(n.text)+" is not a duration"+err.Error(), durationForms)
			return 0, 0, false
		}
		return d, 0, true
	}
	r.err(n, path, codeBadDuration, "a duration must stand here, not "+describe(n), durationForms)
	return 0, 0, false
}

// durationError is the end of a message: ": why".
type durationError string

func (e durationError) Error() string { return string(e) }

func parseDuration(s string) (time.Duration, error) {
	if v, ok := realNumber(s); ok {
		return seconds(v)
	}
	if strings.HasPrefix(s, "P") {
		return parseISO(s)
	}
	rest, total := s, 0.0
	if rest == "" {
		return 0, durationError("")
	}
	for rest != "" {
		m := durationPart.FindStringSubmatchIndex(rest)
		if m == nil || m[0] != 0 {
			return 0, durationError("")
		}
		v, err := strconv.ParseFloat(rest[m[2]:m[3]], 64)
		if err != nil {
			return 0, durationError("")
		}
		total += v * unitSeconds(rest[m[4]:m[5]])
		rest = strings.TrimLeft(rest[m[1]:], " ")
	}
	return seconds(total)
}

func unitSeconds(unit string) float64 {
	switch unit {
	case "us":
		return 1e-6
	case "ms":
		return 1e-3
	}
	switch unit[0] {
	case 'w':
		return 7 * 86400
	case 'd':
		return 86400
	case 'h':
		return 3600
	case 'm':
		return 60
	default:
		return 1
	}
}

func parseISO(s string) (time.Duration, error) {
	m := isoDuration.FindStringSubmatch(s)
	if m == nil || s == "P" || strings.HasSuffix(s, "T") {
		return 0, durationError("")
	}
	if m[1] != "" || m[2] != "" {
		return 0, durationError(": months and years have no fixed length")
	}
	total := 0.0
	for i, unit := range []float64{7 * 86400, 86400, 3600, 60, 1} {
		if m[i+3] == "" {
			continue
		}
		v, err := strconv.ParseFloat(m[i+3], 64)
		if err != nil {
			return 0, durationError("")
		}
		total += v * unit
	}
	return seconds(total)
}

// seconds makes a duration, rounded to microseconds.
func seconds(v float64) (time.Duration, error) {
	if math.IsNaN(v) || math.Abs(v) > maxDuration.Seconds() {
		return 0, durationError(": more than 100 years")
	}
	return time.Duration(math.Round(v*1e6)) * time.Microsecond, nil
}

// periodUnit is one key of timedelta or relativedelta.
type periodUnit struct {
	name    string
	seconds float64
	months  int
}

// periodUnits lists the keys in the order of timedelta's positional arguments;
// those of the calendar last.
func periodUnits() []periodUnit {
	return []periodUnit{
		{"days", 86400, 0},
		{"seconds", 1, 0},
		{"microseconds", 1e-6, 0},
		{"milliseconds", 1e-3, 0},
		{"minutes", 60, 0},
		{"hours", 3600, 0},
		{"weeks", 7 * 86400, 0},
		{"months", 0, 1},
		{"years", 0, 12},
	}
}

// typedPeriod reads a timedelta, relativedelta or pendulum duration.
func (r *report) typedPeriod(n *node, path string) (d time.Duration, months int, ok bool) {
	name := n.get("__type__").text
	calendar := false
	switch className(name) {
	case "timedelta":
	case "relativedelta", "duration":
		calendar = true
	default:
		r.err(n.get("__type__"), path, codeType, quote(name)+" is not a duration", durationForms)
		return 0, 0, false
	}
	units := periodUnits()
	if !calendar {
		units = units[:len(units)-2]
	}
	total := 0.0
	ok = true
	add := func(v *node, key string, unit int) {
		f, good := r.number(v, join(path, key))
		if !good {
			ok = false
			return
		}
		u := units[unit]
		if u.months > 0 {
			if f != math.Trunc(f) || math.Abs(f) > 1200 {
				r.err(v, join(path, key), codeBadDuration, "months and years must be whole numbers, at most 100 years", "")
				ok = false
				return
			}
			months += u.months * int(f)
			return
		}
		total += f * u.seconds
	}
	for _, f := range n.fields {
		switch {
		case f.name == "__type__":
		case f.name == "__args__" && f.val.kind == listNode && !calendar && len(f.val.items) <= len(units):
			for i, item := range f.val.items {
				add(item, units[i].name, i)
			}
		default:
			unit := -1
			names := make([]string, len(units))
			for i := range units {
				names[i] = units[i].name
				if f.name == units[i].name {
					unit = i
				}
			}
			if unit < 0 {
				r.err(f.key, join(path, f.name), codeUnknownKey, fmt.Sprintf("%s is not a key of %s", quote(f.name), className(name)), r.didYouMean(f.name, names))
				ok = false
				continue
			}
			add(f.val, f.name, unit)
		}
	}
	if !ok {
		return 0, 0, false
	}
	d, err := seconds(total)
	if err != nil {
		r.err(n, path, codeBadDuration, "the duration is not usable"+err.Error(), "")
		return 0, 0, false
	}
	return d, months, true
}

// className is the last part of a dotted path.
func className(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }
