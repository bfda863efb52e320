package column

import (
	"strings"
	"time"

	"github.com/airlock-dag/airlock/sql/merge/row"
)

// DateLayout and TimestampLayout are the stored forms; both sort as instants.
const (
	DateLayout      = "2006-01-02"
	TimestampLayout = "2006-01-02 15:04:05.000000"
)

// Layouts that are taken when a column has no format. The first group carries a
// zone.
var zonedLayouts = []string{
	"2006-01-02T15:04:05.999999999Z07:00",
	"2006-01-02 15:04:05.999999999Z07:00",
	"2006-01-02T15:04:05.999999999Z0700",
	"2006-01-02T15:04Z07:00",
	// What Go's time.Time prints, found in SQLite files.
	"2006-01-02 15:04:05.999999999 -0700 MST",
	"2006-01-02 15:04:05.999999999 -0700",
}

var plainLayouts = []string{
	"2006-01-02T15:04:05.999999999",
	"2006-01-02 15:04:05.999999999",
	"2006-01-02T15:04",
	"2006-01-02 15:04",
	"2006-01-02",
}

func (c *Column) date(v row.Value) (any, *row.Fault) {
	switch v.Kind {
	case row.Text, row.Bytes:
	case row.Number:
		if !c.Format.counts() {
			return nil, c.wrong(v, "a date")
		}
	case row.Time:
		if day, clock, _ := strings.Cut(v.Text, " "); strings.Trim(clock, "0:.") == "" {
			return day, nil
		}
		return nil, c.fault(row.BadDate, "%s has a time of day; a date has none", show(v.Text))
	default:
		return nil, c.wrong(v, "a date")
	}
	var t time.Time
	var err error
	if c.Format != nil {
		t, err = c.Format.parse(v.Text)
	} else {
		t, err = time.Parse(DateLayout, v.Text)
	}
	if err != nil {
		return nil, c.badDate(v.Text, err)
	}
	if h, m, s := t.Clock(); h+m+s+t.Nanosecond() != 0 {
		return nil, c.fault(row.BadDate, "%s has a time of day; a date has none", show(v.Text))
	}
	if t.Year() < 1 || t.Year() > 9999 {
		return nil, c.fault(row.BadDate, "%s: the year goes from 1 to 9999", show(v.Text))
	}
	return t.Format(DateLayout), nil
}

// badDate is the fault of a text that is no date of the column's form, or one of a
// day that no month has.
func (c *Column) badDate(text string, err error) *row.Fault {
	switch {
	case c.Format != nil:
		return c.fault(row.BadDate, "%s is not a date of the form %s", show(text), c.Format)
	case strings.HasSuffix(err.Error(), "day out of range"):
		return c.fault(row.BadDate, "%s is a day that there is not", show(text))
	default:
		return c.fault(row.BadDate, "%s is not a date; the form is YYYY-MM-DD, or give the column a format", show(text))
	}
}

func (c *Column) timestamp(v row.Value) (any, *row.Fault) {
	var t time.Time
	var f *row.Fault
	switch v.Kind {
	case row.Text, row.Bytes:
		t, f = c.parseTime(v.Text)
	case row.Time:
		t, f = c.parseWall(v.Text, "2006-01-02 15:04:05.999999999", c.zoneOr(time.UTC))
	case row.Number:
		if !c.Format.counts() {
			return nil, c.wrong(v, "a timestamp")
		}
		t, f = c.parseTime(v.Text)
	default:
		return nil, c.wrong(v, "a timestamp")
	}
	if f != nil {
		return nil, f
	}
	t = t.UTC()
	if t.Year() < 1 || t.Year() > 9999 {
		return nil, c.fault(row.BadTimestamp, "%s: the year goes from 1 to 9999", show(v.Text))
	}
	if t.Nanosecond()%1000 != 0 && v.Kind != row.Time {
		return nil, c.fault(row.TooManyDecimals, "%s is finer than a microsecond", show(v.Text))
	}
	out := stamp(t)
	return out, c.fraction(out, c.Type.Scale)
}

// fraction refuses digits of a second that the column would round away.
func (c *Column) fraction(stored string, scale int) *row.Fault {
	if cut := len(stored) - 6 + scale; strings.Trim(stored[cut:], "0") != "" {
		return c.fault(row.TooManyDecimals, "%s has a finer fraction of a second than the %d digits of the column", show(stored), scale)
	}
	return nil
}

func (c *Column) zoneOr(z *time.Location) *time.Location {
	if c.Zone != nil {
		return c.Zone
	}
	return z
}

func (c *Column) parseTime(text string) (time.Time, *row.Fault) {
	if c.Format != nil {
		t, err := c.Format.parse(text)
		switch {
		case err != nil:
			return t, c.fault(row.BadTimestamp, "%s is not a timestamp of the form %s", show(text), c.Format)
		case c.Format.HasZone():
			return t, nil
		case c.Zone == nil:
			return t, c.noZone(text)
		default:
			return c.inZone(t, text, c.Zone)
		}
	}
	if t, zoned, ok := quickTime(text); ok {
		switch {
		case zoned:
			return t, nil
		case c.Zone == nil:
			return t, c.noZone(text)
		default:
			return c.inZone(t, text, c.Zone)
		}
	}
	for _, layout := range zonedLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	for _, layout := range plainLayouts {
		if _, err := time.Parse(layout, text); err == nil {
			if c.Zone == nil {
				return time.Time{}, c.noZone(text)
			}
			return c.parseWall(text, layout, c.Zone)
		}
	}
	return time.Time{}, c.fault(row.BadTimestamp, "%s is not a timestamp; the form is YYYY-MM-DDTHH:MM:SSZ, or give the column a format", show(text))
}

func (c *Column) noZone(text string) *row.Fault {
	return c.fault(row.NoTimeZone, "%s has no time zone; give the column a timezone for such values", show(text))
}

// parseWall reads a time of day in a place.
func (c *Column) parseWall(text, layout string, zone *time.Location) (time.Time, *row.Fault) {
	wall, err := time.Parse(layout, text)
	if err != nil {
		return wall, c.fault(row.BadTimestamp, "%s is not a timestamp of the form %s", show(text), layout)
	}
	return c.inZone(wall, text, zone)
}

// inZone is a time of day in a place. One that the place skips or has twice (a
// change to or from summer time) is refused: either reading is a guess.
func (c *Column) inZone(wall time.Time, text string, zone *time.Location) (time.Time, *row.Fault) {
	if zone == time.UTC {
		return wall, nil
	}
	same := func(t time.Time) bool {
		y, m, d := t.Date()
		h, mi, s := t.Clock()
		wy, wm, wd := wall.Date()
		wh, wmi, ws := wall.Clock()
		return y == wy && m == wm && d == wd && h == wh && mi == wmi && s == ws
	}
	y, m, d := wall.Date()
	h, mi, s := wall.Clock()
	t := time.Date(y, m, d, h, mi, s, wall.Nanosecond(), zone)
	if !same(t) {
		return t, c.fault(row.BadTimestamp, "%s does not exist in %s: the clocks go forward then", show(text), zone)
	}
	for _, shift := range []time.Duration{-2 * time.Hour, -time.Hour, -30 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour} {
		if same(t.Add(shift)) {
			return t, c.fault(row.AmbiguousTime, "%s is there twice in %s: the clocks go back then", show(text), zone)
		}
	}
	return t, nil
}
