package timetable

import (
	"math/bits"
	"time"
)

// matchesDay tells whether the cron text names a day at all. Beside a weekday
// with # or L, and beside a day with W, a plain day of the other field counts
// for nothing, as in croniter.
func (c *cronSpec) matchesDay(year int, month time.Month, day int) bool {
	if c.month&(1<<month) == 0 || !c.inYear(year) {
		return false
	}
	switch numbered := c.numbered(); {
	case c.nearest > 0 && numbered:
		return c.matchesDom(year, month, day) && c.matchesDow(year, month, day)
	case c.domStar && c.dowStar:
		return true
	case c.nearest > 0, c.dowStar:
		return c.matchesDom(year, month, day)
	case numbered, c.domStar:
		return c.matchesDow(year, month, day)
	default:
		return c.matchesDom(year, month, day) || c.matchesDow(year, month, day)
	}
}

// numbered tells whether the weekdays are those with # or L.
func (c *cronSpec) numbered() bool { return c.lastDow != 0 || c.nth != [7]uint64{} }

func (c *cronSpec) matchesDom(year int, month time.Month, day int) bool {
	if c.nearest > 0 {
		return day == nearestWeekday(year, month, min(c.nearest, daysIn(year, month)))
	}
	return c.dom&(1<<day) != 0 || c.lastDom && day == daysIn(year, month)
}

func (c *cronSpec) matchesDow(year int, month time.Month, day int) bool {
	weekday := weekdayOf(year, month, day)
	return c.dow&(1<<weekday) != 0 ||
		c.nth[weekday]&(1<<((day-1)/7+1)) != 0 ||
		c.lastDow&(1<<weekday) != 0 && day+7 > daysIn(year, month)
}

func weekdayOf(year int, month time.Month, day int) time.Weekday {
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Weekday()
}

// nearestWeekday is the day from Monday to Friday that is nearest to a day of a
// month, in the same month.
func nearestWeekday(year int, month time.Month, day int) int {
	switch weekday := weekdayOf(year, month, day); {
	case weekday == time.Saturday && day > 1:
		return day - 1
	case weekday == time.Saturday:
		return day + 2
	case weekday == time.Sunday && day < daysIn(year, month):
		return day + 1
	case weekday == time.Sunday:
		return day - 2
	default:
		return day
	}
}

func daysIn(year int, month time.Month) int {
	return time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// everFires looks for a matching day in 400 years, the calendar's period, or in
// the years that the text names. Where croniter asks for a day that both fields
// name, and there is none, it finds no date at all.
func (c *cronSpec) everFires() bool {
	from, to := 2000, 2400
	if c.years != nil {
		from, to = firstYear, lastYear+1
	}
	both := c.numbered() && !c.domStar || c.nearest > 0 && !c.dowStar
	for y := from; y < to; y++ {
		for m := time.January; m <= time.December; m++ {
			if c.month&(1<<m) == 0 || !c.inYear(y) {
				continue
			}
			for d := 1; d <= daysIn(y, m); d++ {
				if c.matchesDay(y, m, d) && (!both || c.matchesDom(y, m, d) && c.matchesDow(y, m, d)) {
					return true
				}
			}
		}
	}
	return false
}

// searchYears bounds a search: 29 February can be eight years away, the fifth
// Monday of a February forty.
const searchYears = 50

// nextWall is the first match strictly after t on a clock without a zone
// (UTC stands for it); zero when there is none.
func (c *cronSpec) nextWall(t time.Time) time.Time {
	t = t.Truncate(time.Second).Add(time.Second)
	y, m, d := t.Date()
	clock := t.Hour()*3600 + t.Minute()*60 + t.Second()
	limit := y + searchYears
	for y <= limit {
		if !c.inYear(y) {
			y, m, d, clock = y+1, time.January, 1, 0
			continue
		}
		if c.month&(1<<m) == 0 {
			y, m, d, clock = nextMonth(y, m)
			continue
		}
		if d > daysIn(y, m) {
			y, m, d, clock = nextMonth(y, m)
			continue
		}
		if c.matchesDay(y, m, d) {
			if s := c.nextClock(clock); s >= 0 {
				return time.Date(y, m, d, 0, 0, s, 0, time.UTC)
			}
		}
		d++
		clock = 0
	}
	return time.Time{}
}

func nextMonth(y int, m time.Month) (int, time.Month, int, int) {
	if m == time.December {
		return y + 1, time.January, 1, 0
	}
	return y, m + 1, 1, 0
}

// prevWall is the last match strictly before t; zero when there is none.
func (c *cronSpec) prevWall(t time.Time) time.Time {
	if f := t.Truncate(time.Second); f.Equal(t) {
		t = f.Add(-time.Second)
	} else {
		t = f
	}
	y, m, d := t.Date()
	clock := t.Hour()*3600 + t.Minute()*60 + t.Second()
	limit := y - searchYears
	for y >= limit {
		if !c.inYear(y) {
			y, m, d, clock = y-1, time.December, 31, 24*3600-1
			continue
		}
		if d < 1 || c.month&(1<<m) == 0 {
			if m--; m < time.January {
				y, m = y-1, time.December
			}
			d, clock = daysIn(y, m), 24*3600-1
			continue
		}
		if c.matchesDay(y, m, d) {
			if s := c.prevClock(clock); s >= 0 {
				return time.Date(y, m, d, 0, 0, s, 0, time.UTC)
			}
		}
		d--
		clock = 24*3600 - 1
	}
	return time.Time{}
}

// nextClock is the first matching second of a day at or after s, -1 for none.
func (c *cronSpec) nextClock(s int) int {
	h, m, sec := s/3600, s/60%60, s%60
	if c.hour&(1<<h) != 0 {
		if c.minute&(1<<m) != 0 {
			if v := bitFrom(c.second, sec); v >= 0 {
				return h*3600 + m*60 + v
			}
		}
		if v := bitFrom(c.minute, m+1); v >= 0 {
			return h*3600 + v*60 + bits.TrailingZeros64(c.second)
		}
	}
	if v := bitFrom(c.hour, h+1); v >= 0 {
		return v*3600 + bits.TrailingZeros64(c.minute)*60 + bits.TrailingZeros64(c.second)
	}
	return -1
}

// prevClock is the last matching second of a day at or before s, -1 for none.
func (c *cronSpec) prevClock(s int) int {
	h, m, sec := s/3600, s/60%60, s%60
	if c.hour&(1<<h) != 0 {
		if c.minute&(1<<m) != 0 {
			if v := bitUpTo(c.second, sec); v >= 0 {
				return h*3600 + m*60 + v
			}
		}
		if v := bitUpTo(c.minute, m-1); v >= 0 {
			return h*3600 + v*60 + bitUpTo(c.second, 59)
		}
	}
	if v := bitUpTo(c.hour, h-1); v >= 0 {
		return v*3600 + bitUpTo(c.minute, 59)*60 + bitUpTo(c.second, 59)
	}
	return -1
}

// bitFrom is the lowest set bit at or above n, -1 for none.
func bitFrom(mask uint64, n int) int {
	if mask >>= n; mask == 0 {
		return -1
	}
	return n + bits.TrailingZeros64(mask)
}

// bitUpTo is the highest set bit at or below n, -1 for none.
func bitUpTo(mask uint64, n int) int {
	if n < 0 {
		return -1
	}
	return bits.Len64(mask&(1<<(n+1)-1)) - 1
}
