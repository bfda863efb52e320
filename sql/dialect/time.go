package dialect

import (
	"database/sql/driver"
	"fmt"
	"time"
)

// StampLayout is how instants stand in SQLite (fixed-width text, so that text
// order is time order) and how they are written to DATETIME(6) columns.
const StampLayout = "2006-01-02 15:04:05.000000"

// Stamp is an instant as SQL text, in UTC, cut to microseconds.
func Stamp(t time.Time) string { return t.UTC().Truncate(time.Microsecond).Format(StampLayout) }

// StampPtr is Stamp, or nil (NULL) for nil.
func StampPtr(t *time.Time) any {
	if t == nil {
		return nil
	}
	return Stamp(*t)
}

// Time reads and writes a nullable instant on every dialect: DATETIME(6) that
// the driver parsed, or SQLite's text.
type Time struct {
	Time  time.Time // UTC
	Valid bool
}

// At is a Time that holds t.
func At(t time.Time) Time { return Time{Time: t, Valid: true} }

// Ptr is nil for NULL.
func (t Time) Ptr() *time.Time {
	if !t.Valid {
		return nil
	}
	v := t.Time
	return &v
}

// Scan implements sql.Scanner.
func (t *Time) Scan(src any) error {
	*t = Time{}
	switch v := src.(type) {
	case nil:
		return nil
	case time.Time:
		t.Time, t.Valid = v.UTC(), true
		return nil
	case string:
		return t.parse(v)
	case []byte:
		return t.parse(string(v))
	default:
		return fmt.Errorf("a %T is no instant", src)
	}
}

func (t *Time) parse(s string) error {
	if v, ok := parseStamp(s); ok {
		t.Time, t.Valid = v, true
		return nil
	}
	for _, layout := range []string{StampLayout, "2006-01-02 15:04:05", time.RFC3339Nano} {
		if v, err := time.Parse(layout, s); err == nil {
			t.Time, t.Valid = v.UTC(), true
			return nil
		}
	}
	return fmt.Errorf("text %q is no instant", s)
}

// parseStamp reads what Stamp writes; false for anything else. A row of a state
// database has ten instants, and reading them by a layout takes ten times as long.
func parseStamp(s string) (time.Time, bool) {
	if len(s) != len(StampLayout) || s[4] != '-' || s[7] != '-' || s[10] != ' ' || s[13] != ':' || s[16] != ':' || s[19] != '.' {
		return time.Time{}, false
	}
	number := func(from, to int) int {
		n := 0
		for _, c := range []byte(s[from:to]) {
			if c < '0' || c > '9' {
				return -1
			}
			n = 10*n + int(c-'0')
		}
		return n
	}
	year, month, day := number(0, 4), number(5, 7), number(8, 10)
	hour, minute, second, micro := number(11, 13), number(14, 16), number(17, 19), number(20, 26)
	if min(year, month, day, hour, minute, second, micro) < 0 || hour > 23 || minute > 59 || second > 59 {
		return time.Time{}, false
	}
	v := time.Date(year, time.Month(month), day, hour, minute, second, 1000*micro, time.UTC)
	return v, v.Day() == day && v.Month() == time.Month(month) // else there is no such day
}

// Value implements driver.Valuer.
func (t Time) Value() (driver.Value, error) {
	if !t.Valid {
		return nil, nil
	}
	return Stamp(t.Time), nil
}
