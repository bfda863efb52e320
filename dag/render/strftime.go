package render

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// strftime formats a time by Python's directives; one that is not known stays
// as it is. A minus after the percent sign drops leading zeros.
func strftime(t time.Time, format string) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		bare := format[i] == '-' && i+1 < len(format)
		if bare {
			i++
		}
		text, ok := directive(t, format[i])
		switch {
		case !ok:
			b.WriteString("%" + string(format[i]))
		case bare:
			trimmed := strings.TrimLeft(text, "0 ")
			if trimmed == "" {
				trimmed = "0"
			}
			b.WriteString(trimmed)
		default:
			b.WriteString(text)
		}
	}
	return b.String()
}

func directive(t time.Time, c byte) (string, bool) {
	layouts := map[byte]string{
		'Y': "2006", 'm': "01", 'd': "02", 'H': "15", 'M': "04", 'S': "05", 'I': "03", 'p': "PM", 'y': "06",
		'b': "Jan", 'h': "Jan", 'B': "January", 'a': "Mon", 'A': "Monday", 'j': "002", 'e': "_2", 'z': "-0700", 'Z': "MST",
		'F': "2006-01-02", 'T': "15:04:05", 'D': "01/02/06", 'R': "15:04", 'x': "01/02/06", 'X': "15:04:05",
		'c': "Mon Jan _2 15:04:05 2006", 'r': "03:04:05 PM",
	}
	if layout, ok := layouts[c]; ok {
		return t.Format(layout), true
	}
	year, week := t.ISOWeek()
	switch c {
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000), true
	case 's':
		return strconv.FormatInt(t.Unix(), 10), true
	case 'u':
		return strconv.Itoa((int(t.Weekday())+6)%7 + 1), true
	case 'w':
		return strconv.Itoa(int(t.Weekday())), true
	case 'G':
		return strconv.Itoa(year), true
	case 'V':
		return fmt.Sprintf("%02d", week), true
	case 'U':
		return fmt.Sprintf("%02d", (t.YearDay()+6-int(t.Weekday()))/7), true
	case 'W':
		return fmt.Sprintf("%02d", (t.YearDay()+6-(int(t.Weekday())+6)%7)/7), true
	case 'C':
		return fmt.Sprintf("%02d", t.Year()/100), true
	case 'n':
		return "\n", true
	case 't':
		return "\t", true
	case '%':
		return "%", true
	default:
		return "", false
	}
}

// strptime reads a time by Python's directives.
func strptime(text, format string) (time.Time, error) {
	layouts := map[byte]string{
		'Y': "2006", 'm': "1", 'd': "2", 'H': "15", 'M': "4", 'S': "5", 'I': "3", 'p': "PM", 'y': "06",
		'b': "Jan", 'B': "January", 'a': "Mon", 'A': "Monday", 'j': "002", 'z': "-0700", 'Z': "MST",
		'F': "2006-1-2", 'T': "15:4:5", '%': "%",
	}
	// Go's layouts give digits and some words a meaning of their own, so the
	// format is matched piece by piece.
	rest := text
	var layout, value strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			if rest == "" || rest[0] != format[i] {
				return time.Time{}, mismatch(text, format)
			}
			rest = rest[1:]
			continue
		}
		i++
		n := fieldLength(format[i], rest)
		l, ok := layouts[format[i]]
		if format[i] == 'f' {
			l, ok = "000000", true
		}
		if !ok {
			return time.Time{}, fmt.Errorf("%%%c cannot be read", format[i])
		}
		if n == 0 {
			return time.Time{}, mismatch(text, format)
		}
		field := rest[:n]
		if format[i] == 'f' {
			l, field = ".000000", "."+(field + "000000")[:6]
		}
		layout.WriteString(" " + l)
		value.WriteString(" " + field)
		rest = rest[n:]
	}
	if rest != "" {
		return time.Time{}, mismatch(text, format)
	}
	t, err := time.Parse(layout.String(), value.String())
	if err != nil {
		return time.Time{}, mismatch(text, format)
	}
	if t.Year() == 0 {
		t = t.AddDate(1900, 0, 0) // Python's year of a text without one
	}
	return t, nil
}

func mismatch(text, format string) error {
	return fmt.Errorf("%q does not have the form %q", text, format)
}

// fieldLength is how much of the text a directive takes.
func fieldLength(c byte, text string) int {
	longest := map[byte]int{'Y': 4, 'j': 3, 'f': 6, 'p': 2, 'z': 6}
	limit, ok := longest[c]
	if !ok {
		limit = 2
	}
	accept := func(b byte) bool { return b >= '0' && b <= '9' }
	switch c {
	case 'b', 'B', 'a', 'A', 'Z', 'p':
		accept = func(b byte) bool { return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' }
		if c != 'p' {
			limit = len(text)
		}
	case 'z', 'F', 'T', '%':
		accept = func(b byte) bool { return b >= '0' && b <= '9' || strings.IndexByte("+-:Z%", b) >= 0 }
		if c != 'z' {
			limit = 10
		}
		if c == '%' {
			limit = 1
		}
	}
	n := 0
	for n < len(text) && n < limit && accept(text[n]) {
		n++
	}
	return n
}

// pendulumFormat formats a time by pendulum's tokens ("YYYY-MM-DD"); text in
// square brackets stays as it is.
func pendulumFormat(t time.Time, format string) string {
	tokens := []struct{ token, layout string }{
		{"YYYY", "2006"}, {"YY", "06"}, {"MMMM", "January"}, {"MMM", "Jan"}, {"MM", "01"}, {"M", "1"},
		{"DDDD", "002"}, {"DD", "02"}, {"D", "2"}, {"dddd", "Monday"}, {"ddd", "Mon"},
		{"HH", "15"}, {"hh", "03"}, {"h", "3"}, {"mm", "04"}, {"m", "4"}, {"ss", "05"}, {"s", "5"},
		{"ZZ", "-0700"}, {"Z", "-07:00"}, {"zz", "MST"}, {"A", "PM"},
	}
	var b strings.Builder
next:
	for i := 0; i < len(format); {
		if format[i] == '[' {
			if end := strings.IndexByte(format[i:], ']'); end > 0 {
				b.WriteString(format[i+1 : i+end])
				i += end + 1
				continue
			}
		}
		switch {
		case strings.HasPrefix(format[i:], "SSSSSS"):
			fmt.Fprintf(&b, "%06d", t.Nanosecond()/1000)
			i += 6
			continue
		case strings.HasPrefix(format[i:], "SSS"):
			fmt.Fprintf(&b, "%03d", t.Nanosecond()/1_000_000)
			i += 3
			continue
		case strings.HasPrefix(format[i:], "X"):
			b.WriteString(strconv.FormatInt(t.Unix(), 10))
			i++
			continue
		case format[i] == 'H' && !strings.HasPrefix(format[i:], "HH"):
			b.WriteString(strconv.Itoa(t.Hour()))
			i++
			continue
		}
		for _, tok := range tokens {
			if strings.HasPrefix(format[i:], tok.token) {
				b.WriteString(t.Format(tok.layout))
				i += len(tok.token)
				continue next
			}
		}
		b.WriteByte(format[i])
		i++
	}
	return b.String()
}
