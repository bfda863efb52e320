package column

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/merge/row"
)

func TestFormats(t *testing.T) {
	t.Parallel()
	at := func(y int, m time.Month, d, h, mi, s, n int) time.Time {
		return time.Date(y, m, d, h, mi, s, n, time.UTC)
	}
	for _, c := range []struct {
		format, text string
		want         time.Time
	}{
		{"%Y-%m-%d", "2026-03-01", at(2026, 3, 1, 0, 0, 0, 0)},
		{"%d.%m.%Y %H:%M", "1.3.2026 7:05", at(2026, 3, 1, 7, 5, 0, 0)}, // one digit is enough, as in Python
		{"%Y%m%d%H%M%S", "20260301070509", at(2026, 3, 1, 7, 5, 9, 0)},
		{"%Y-%m-%dT%H:%M:%S.%f%z", "2026-03-01T07:05:09.12+02:00", at(2026, 3, 1, 5, 5, 9, 120e6)},
		{"%Y-%m-%dT%H:%M:%S%z", "2026-03-01T07:05:09Z", at(2026, 3, 1, 7, 5, 9, 0)},
		{"%Y-%m-%dT%H:%M:%S%z", "2026-03-01T07:05:09-0330", at(2026, 3, 1, 10, 35, 9, 0)},
		{"%m/%d/%y", "12/31/68", at(2068, 12, 31, 0, 0, 0, 0)},
		{"%D", "12/31/69", at(1969, 12, 31, 0, 0, 0, 0)},
		{"%a %b %d %Y %I:%M %p", "sun MAR 01 2026 12:05 am", at(2026, 3, 1, 0, 5, 0, 0)},
		{"%d %B %Y %I %p", "31 December 2026 12 PM", at(2026, 12, 31, 12, 0, 0, 0)},
		{"%Y-%j", "2024-366", at(2024, 12, 31, 0, 0, 0, 0)},
		{"100%% of %Y", "100% of 2026", at(2026, 1, 1, 0, 0, 0, 0)},
		{"%F %T", "2026-03-01 07:05:09", at(2026, 3, 1, 7, 5, 9, 0)},
		{"02.01.2006 15:04", "01.03.2026 07:05", at(2026, 3, 1, 7, 5, 0, 0)},
		{"unix", "1772323200.25", at(2026, 3, 1, 0, 0, 0, 250e6)},
		{"unix_ms", "-1", at(1969, 12, 31, 23, 59, 59, 999e6)},
	} {
		f, err := ParseFormat(c.format)
		require.NoError(t, err, c.format)
		got, err := f.parse(c.text)
		require.NoError(t, err, "%s %s", c.format, c.text)
		require.True(t, c.want.Equal(got), "%s %s: %s", c.format, c.text, got)
	}
	for format, text := range map[string]string{
		"%Y-%m-%d": "2026-02-30", "%d.%m.%Y": "01.03.26", "%Y-%m-%d ": "2026-03-01", "%Y": "2026x", "%Y%m%d": "2026301",
		"%a %Y-%m-%d": "Mon 2026-03-01", "%Y-%j": "2026-366", "%Y %H:%M": "2026 24:00", "%Y%z": "2026+25:00", "unix": "1e9", "unix_ms": "1.0000001",
	} {
		f, err := ParseFormat(format)
		require.NoError(t, err, format)
		_, err = f.parse(text)
		require.Error(t, err, "%s %s", format, text)
	}
	for format, word := range map[string]string{
		"YYYY-MM-DD": "says nothing", "%Y-%m-%d %Z": "%z", "%Q %Y": "%Q is not known", "%Y%": "ends with", "%H:%M": "no year", "%Y %I": "go together",
	} {
		_, err := ParseFormat(format)
		require.ErrorContains(t, err, word, format)
	}
}

func TestFormatOfAColumn(t *testing.T) {
	t.Parallel()
	format := func(s string) *Format {
		f, err := ParseFormat(s)
		require.NoError(t, err)
		return f
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	c := Column{Name: "at", Type: Type{Kind: Timestamp, Scale: 6}, Format: format("%d.%m.%Y %H:%M")}
	_, f := c.Convert(row.Value{Kind: row.Text, Text: "1.7.2026 12:00"})
	require.Equal(t, row.NoTimeZone, f.Code)
	c.Zone = berlin
	v, f := c.Convert(row.Value{Kind: row.Text, Text: "1.7.2026 12:00"})
	require.Nil(t, f)
	require.Equal(t, "2026-07-01 10:00:00.000000", v)
	_, f = c.Convert(row.Value{Kind: row.Text, Text: "25.10.2026 02:30"})
	require.Equal(t, row.AmbiguousTime, f.Code)
	_, f = c.Convert(row.Value{Kind: row.Number, Text: "20260701"})
	require.Equal(t, row.WrongType, f.Code)
	c = Column{Name: "at", Type: Type{Kind: Timestamp, Scale: 6}, Format: format("unix_ms"), Zone: berlin}
	v, f = c.Convert(row.Value{Kind: row.Number, Text: "1772323200250"})
	require.Nil(t, f)
	require.Equal(t, "2026-03-01 00:00:00.250000", v)
	c = Column{Name: "day", Type: Type{Kind: Date}, Format: format("%d/%m/%Y")}
	v, f = c.Convert(row.Value{Kind: row.Text, Text: "3/4/2026"})
	require.Nil(t, f)
	require.Equal(t, "2026-04-03", v)
	_, f = c.Convert(row.Value{Kind: row.Text, Text: "4/13/2026"})
	require.Equal(t, row.BadDate, f.Code)
	require.Contains(t, f.Message, "%d/%m/%Y")
}

// What a format is and what a text is may be anything: there is a time or an
// error, and Python's own way of writing reads back.
func FuzzFormat(f *testing.F) {
	f.Add("%Y-%m-%d %H:%M:%S.%f%z", "2026-03-01 07:05:09.12+02:00")
	f.Add("%a %d %b %y %I%p", "Sun 01 Mar 26 07AM")
	f.Add("02.01.2006", "01.03.2026")
	f.Add("unix_ms", "-1.5")
	f.Fuzz(func(t *testing.T, format, text string) {
		p, err := ParseFormat(format)
		if err != nil {
			return
		}
		c := Column{Name: "c", Type: Type{Kind: Timestamp, Scale: 6}, Format: p, Zone: time.UTC}
		v, fault := c.Convert(row.Value{Kind: row.Text, Text: text})
		if fault != nil {
			return
		}
		stored, ok := v.(string)
		require.True(t, ok)
		at, err := time.Parse(TimestampLayout, stored)
		require.NoError(t, err)
		require.LessOrEqual(t, at.Year(), 9999)
	})
}
