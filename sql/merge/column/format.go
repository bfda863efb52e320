package column

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Format is how a source writes dates or timestamps: in the words of Python's
// strptime ("%d.%m.%Y %H:%M"), as Go writes its example time ("02.01.2006
// 15:04"), or as a count from 1970 ("unix", "unix_ms"). A percent sign tells the
// first two apart: no layout of Go has one.
type Format struct {
	text   string
	layout string // of Go; "" for the others
	parts  []part // of strptime
	unit   time.Duration
}

// part is a directive of strptime, or a literal character when verb is 0.
type part struct {
	verb    byte
	literal byte
}

// directives of strptime that are understood; shorthands are written out first.
const directives = "YymdHIMSfpzjbBaA"

var shorthands = strings.NewReplacer("%F", "%Y-%m-%d", "%T", "%H:%M:%S", "%R", "%H:%M", "%D", "%m/%d/%y",
	"%-d", "%d", "%-m", "%m", "%-H", "%H", "%-M", "%M", "%-S", "%S", "%-I", "%I", "%-j", "%j", "%e", "%d", "%h", "%b", "%%", "%%")

// ParseFormat reads a format as a step writes it.
func ParseFormat(text string) (*Format, error) {
	f := &Format{text: text}
	switch text {
	case "unix", "epoch":
		f.unit = time.Second
		return f, nil
	case "unix_ms", "epoch_ms":
		f.unit = time.Millisecond
		return f, nil
	}
	if !strings.Contains(text, "%") {
		f.layout = text
		// A layout that writes no part of a time is none: "YYYY-MM-DD".
		if a, b := time.Date(2001, 4, 6, 8, 10, 12, 14e6, time.UTC), time.Date(2013, 11, 27, 21, 37, 49, 51e7, time.UTC); a.Format(text) == text || b.Format(text) == text {
			return nil, fmt.Errorf("%q says nothing about a date; write it as %%Y-%%m-%%d %%H:%%M:%%S", text)
		}
		return f, nil
	}
	full := shorthands.Replace(text)
	for i := 0; i < len(full); i++ {
		if full[i] != '%' {
			f.parts = append(f.parts, part{literal: full[i]})
			continue
		}
		i++
		switch {
		case i == len(full):
			return nil, fmt.Errorf("%q ends with a %%", text)
		case full[i] == '%':
			f.parts = append(f.parts, part{literal: '%'})
		case full[i] == 'Z':
			return nil, fmt.Errorf("%q: %%Z is not taken, since a zone's letters may mean several places; use %%z for an offset, or give the column a timezone", text)
		case strings.IndexByte(directives, full[i]) >= 0:
			f.parts = append(f.parts, part{verb: full[i]})
		default:
			return nil, fmt.Errorf("%q: %%%c is not known; there are %%Y %%y %%m %%b %%B %%d %%j %%H %%I %%p %%M %%S %%f %%z %%a %%A %%F %%T %%D %%R and %%%%", text, full[i])
		}
	}
	has := func(verbs string) bool {
		return slices.ContainsFunc(f.parts, func(p part) bool { return p.verb != 0 && strings.IndexByte(verbs, p.verb) >= 0 })
	}
	if !has("Yy") {
		return nil, fmt.Errorf("%q has no year; %%Y stands for it", text)
	}
	if has("I") != has("p") {
		return nil, fmt.Errorf("%q: %%I and %%p go together; %%H is the hour of 24", text)
	}
	return f, nil
}

// String is the format as it was written.
func (f *Format) String() string { return f.text }

// HasZone tells whether a text of the format names an instant by itself.
func (f *Format) HasZone() bool {
	if f.layout != "" {
		return strings.Contains(f.layout, "Z07") || strings.Contains(f.layout, "-07") || strings.Contains(f.layout, "MST")
	}
	return f.unit > 0 || slices.ContainsFunc(f.parts, func(p part) bool { return p.verb == 'z' })
}

// counts tells whether a number is a time of this format.
func (f *Format) counts() bool { return f != nil && f.unit > 0 }

var errFormat = errors.New("the text is not of the format")

// parse reads a text. Without a zone in the format the time is a wall clock's,
// given as UTC.
func (f *Format) parse(text string) (time.Time, error) {
	switch {
	case f.unit > 0:
		return f.count(text)
	case f.layout != "":
		return time.Parse(f.layout, text)
	}
	r := reading{text: text, month: 1, day: 1, year: 1900, hour12: -1}
	for i, p := range f.parts {
		if p.verb == 0 {
			if !r.literal(p.literal) {
				return time.Time{}, errFormat
			}
			continue
		}
		// Directives that touch take exactly as many digits as they are wide, as
		// in %Y%m%d.
		tight := i+1 < len(f.parts) && f.parts[i+1].verb != 0
		if !r.directive(p.verb, tight) {
			return time.Time{}, errFormat
		}
	}
	if r.text != "" {
		return time.Time{}, errFormat
	}
	return r.time()
}

// count reads seconds or milliseconds since 1970, with decimals.
func (f *Format) count(text string) (time.Time, error) {
	neg, whole, frac, ok := digits(text)
	n, err := strconv.ParseInt(whole, 10, 64)
	places := 9
	if f.unit == time.Millisecond {
		places = 6
	}
	if !ok || err != nil || n > 1<<47 || (len(frac) > places && strings.Trim(frac[places:], "0") != "") {
		return time.Time{}, errFormat
	}
	frac = (frac + "000000000")[:places]
	nanos, _ := strconv.ParseInt(frac, 10, 64)
	seconds := n
	if f.unit == time.Millisecond {
		seconds, nanos = n/1000, n%1000*1e6+nanos
	}
	if neg {
		seconds, nanos = -seconds, -nanos
	}
	return time.Unix(seconds, nanos).UTC(), nil
}

// reading is a text on its way to a time.
type reading struct {
	text                                   string
	year, month, day, hour, minute, second int
	nanos, yearDay                         int
	hour12                                 int // -1 for none
	pm                                     bool
	weekday                                string
	offset                                 int // seconds east
}

func (r *reading) literal(c byte) bool {
	if c == ' ' { // as in Python, a space stands for any
		trimmed := strings.TrimLeft(r.text, " \t\u00a0")
		ok := trimmed != r.text
		r.text = trimmed
		return ok
	}
	if r.text == "" || r.text[0] != c {
		return false
	}
	r.text = r.text[1:]
	return true
}

// number takes one to most digits, exactly most when tight.
func (r *reading) number(most int, tight bool) (int, bool) {
	n := 0
	for n < len(r.text) && n < most && r.text[n] >= '0' && r.text[n] <= '9' {
		n++
	}
	if n == 0 || (tight && n < most) {
		return 0, false
	}
	v, err := strconv.Atoi(r.text[:n])
	r.text = r.text[n:]
	return v, err == nil
}

func (r *reading) within(to *int, digits int, tight bool, lo, hi int) bool {
	v, ok := r.number(digits, tight)
	*to = v
	return ok && v >= lo && v <= hi
}

func (r *reading) directive(verb byte, tight bool) bool {
	switch verb {
	case 'Y':
		return r.within(&r.year, 4, true, 1, 9999)
	case 'y':
		ok := r.within(&r.year, 2, true, 0, 99)
		if r.year += 1900; r.year < 1969 {
			r.year += 100
		}
		return ok
	case 'm':
		return r.within(&r.month, 2, tight, 1, 12)
	case 'd':
		return r.within(&r.day, 2, tight, 1, 31)
	case 'j':
		return r.within(&r.yearDay, 3, tight, 1, 366)
	case 'H':
		return r.within(&r.hour, 2, tight, 0, 23)
	case 'I':
		return r.within(&r.hour12, 2, tight, 1, 12)
	case 'M':
		return r.within(&r.minute, 2, tight, 0, 59)
	case 'S':
		return r.within(&r.second, 2, tight, 0, 59)
	case 'f':
		before := len(r.text)
		v, ok := r.number(9, false)
		r.nanos = v
		for n := before - len(r.text); n < 9; n++ {
			r.nanos *= 10
		}
		return ok
	case 'p':
		which := r.name([]string{"AM", "PM"})
		r.pm = which == 1
		return which >= 0
	case 'b':
		at := r.name(shortNames(12, func(i int) string { return time.Month(i + 1).String() }))
		r.month = at + 1
		return at >= 0
	case 'B':
		at := r.name(longNames(12, func(i int) string { return time.Month(i + 1).String() }))
		r.month = at + 1
		return at >= 0
	case 'a', 'A':
		names := longNames(7, func(i int) string { return time.Weekday(i).String() })
		if verb == 'a' {
			names = shortNames(7, func(i int) string { return time.Weekday(i).String() })
		}
		at := r.name(names)
		if at >= 0 {
			r.weekday = time.Weekday(at).String()
		}
		return at >= 0
	default: // z
		return r.zone()
	}
}

func longNames(n int, name func(int) string) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = name(i)
	}
	return out
}

func shortNames(n int, name func(int) string) []string {
	out := longNames(n, name)
	for i := range out {
		out[i] = out[i][:3]
	}
	return out
}

// name takes one of the names, in any case; -1 for none.
func (r *reading) name(names []string) int {
	for i, n := range names {
		if len(r.text) >= len(n) && strings.EqualFold(r.text[:len(n)], n) {
			r.text = r.text[len(n):]
			return i
		}
	}
	return -1
}

// zone takes Z, +0200, +02:00 or +02.
func (r *reading) zone() bool {
	if r.text == "" {
		return false
	}
	if r.text[0] == 'Z' || r.text[0] == 'z' {
		r.text = r.text[1:]
		return true
	}
	sign := map[byte]int{'+': 1, '-': -1}[r.text[0]]
	r.text = r.text[1:]
	var h, m int
	if sign == 0 || !r.within(&h, 2, true, 0, 23) {
		return false
	}
	r.text = strings.TrimPrefix(r.text, ":")
	if r.text != "" && r.text[0] >= '0' && r.text[0] <= '9' && !r.within(&m, 2, true, 0, 59) {
		return false
	}
	r.offset = sign * (h*3600 + m*60)
	return true
}

func (r *reading) time() (time.Time, error) {
	if r.hour12 >= 0 {
		r.hour = r.hour12 % 12
		if r.pm {
			r.hour += 12
		}
	}
	if r.yearDay > 0 {
		d := time.Date(r.year, 1, r.yearDay, 0, 0, 0, 0, time.UTC)
		if d.Year() != r.year {
			return d, errFormat
		}
		r.month, r.day = int(d.Month()), d.Day()
	}
	t := time.Date(r.year, time.Month(r.month), r.day, r.hour, r.minute, r.second, r.nanos, time.UTC)
	if t.Day() != r.day || (r.weekday != "" && t.Weekday().String() != r.weekday) {
		return t, errFormat
	}
	return t.Add(-time.Duration(r.offset) * time.Second), nil
}
