package timetable

import "time"

// ticker turns the matches of a cron text on a wall clock into instants of a
// zone. It looks at the set of all ticks, so that going from one to the next
// gives them all: none is lost and none comes twice.
type ticker struct {
	spec *cronSpec
	loc  *time.Location
}

// segment is a stretch of time with one offset from UTC.
type segment struct {
	start, end time.Time // zero when open
	offset     time.Duration
	// before and after are the offsets of the neighbours, equal to offset where
	// there is none.
	before, after time.Duration
}

// segmentAt is the segment that holds t.
func (k ticker) segmentAt(t time.Time) segment {
	in := t.In(k.loc)
	s := segment{offset: offsetOf(in)}
	s.start, s.end = in.ZoneBounds()
	if !s.end.IsZero() && !s.end.After(t) {
		// For a leap year that the zone's own table does not reach (after 2037)
		// the library ends the year one day early. No zone changes in that day, and
		// it takes the year up again with the next.
		s.end = t.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	}
	s.before, s.after = s.offset, s.offset
	if !s.start.IsZero() {
		s.before = offsetOf(s.start.Add(-1).In(k.loc))
	}
	if !s.end.IsZero() {
		s.after = offsetOf(s.end.In(k.loc))
	}
	return s
}

func offsetOf(t time.Time) time.Duration {
	_, sec := t.Zone()
	return time.Duration(sec) * time.Second
}

// wall is t on a clock that runs offset ahead of UTC, as a time in UTC.
func wall(t time.Time, offset time.Duration) time.Time { return t.UTC().Add(offset) }

// maxSegments bounds a walk over segments; a zone has two or three a year.
const maxSegments = 4 * searchYears

// next is the first tick strictly after t; zero when there is none.
func (k ticker) next(t time.Time) time.Time {
	t = t.UTC()
	s := k.segmentAt(t)
	for range maxSegments {
		if tick := k.nextIn(s, t); !tick.IsZero() {
			return tick
		}
		if s.end.IsZero() {
			break
		}
		s = k.segmentAt(s.end)
	}
	return time.Time{}
}

// nextIn is the segment's first tick strictly after t; zero for none.
func (k ticker) nextIn(s segment, t time.Time) time.Time {
	from := t
	if !s.start.IsZero() && t.Before(s.start) {
		from = s.start.Add(-1)
	}
	var moved time.Time
	if k.spec.everyHour {
		if moved = k.carried(s); moved.After(t) {
			return moved
		}
		moved = time.Time{}
	} else if lo, hi, ok := s.gap(); ok {
		if m := k.spec.nextWall(later(wall(t, s.before), lo.Add(-1))); !m.IsZero() && m.Before(hi) {
			moved = m.Add(-s.before)
		}
	}
	m := k.spec.nextWall(wall(from, s.offset))
	if limit := k.ownedUntil(s); m.IsZero() || !limit.IsZero() && !m.Before(limit) {
		return moved
	}
	return earlier(moved, m.Add(-s.offset))
}

// lastShown is t, or where the clock shows t's time once more after going back,
// that later instant. A text that covers every hour goes by elapsed time and
// tells the two apart.
func (k ticker) lastShown(t time.Time) time.Time {
	if k.spec.everyHour {
		return t
	}
	s := k.segmentAt(t.UTC())
	if s.end.IsZero() || s.after >= s.offset {
		return t
	}
	if again := t.Add(s.offset - s.after); !again.Before(s.end) {
		return again
	}
	return t
}

// prev is the last tick strictly before t; zero when there is none.
func (k ticker) prev(t time.Time) time.Time {
	t = t.UTC()
	s := k.segmentAt(t.Add(-1))
	for range maxSegments {
		if tick := k.prevIn(s, t); !tick.IsZero() {
			return tick
		}
		if s.start.IsZero() {
			break
		}
		s = k.segmentAt(s.start.Add(-1))
	}
	return time.Time{}
}

// prevIn is the segment's last tick strictly before t; zero for none.
func (k ticker) prevIn(s segment, t time.Time) time.Time {
	bound := wall(t, s.offset)
	if limit := k.ownedUntil(s); !limit.IsZero() && limit.Before(bound) {
		bound = limit
	}
	var regular time.Time
	if m := k.spec.prevWall(bound); !m.IsZero() {
		if regular = m.Add(-s.offset); regular.Before(s.start) {
			regular = time.Time{}
		}
	}
	if k.spec.everyHour {
		moved := k.carried(s)
		switch {
		case moved.IsZero() || regular.After(moved):
			return regular
		case moved.Before(t):
			return moved
		default:
			return time.Time{}
		}
	}
	var moved time.Time
	if lo, hi, ok := s.gap(); ok {
		if m := k.spec.prevWall(earlier(wall(t, s.before), hi)); !m.IsZero() && !m.Before(lo) {
			moved = m.Add(-s.before)
		}
	}
	return later(regular, moved)
}

// gap gives the wall times that the clock leaps over where the segment begins:
// from lo up to, not including, hi. A match in there keeps the old offset,
// which moves it forward by the length of the gap.
func (s segment) gap() (lo, hi time.Time, ok bool) {
	if s.start.IsZero() || s.before >= s.offset {
		return lo, hi, false
	}
	return wall(s.start, s.before), wall(s.start, s.offset), true
}

// carried is, for a text that covers every hour, the tick that the last tick
// before the change leads to in elapsed time: it keeps the old offset and is
// the segment's first tick. It is zero where the clock does not change, and
// where the step is longer than an hour (the text names certain days only) and
// ends outside the gap: such a step follows the wall clock.
func (k ticker) carried(s segment) time.Time {
	if s.start.IsZero() || s.before == s.offset {
		return time.Time{}
	}
	lo, hi := wall(s.start, s.before), wall(s.start, s.offset)
	m := k.spec.nextWall(lo.Add(-1))
	if m.IsZero() || m.Sub(k.spec.prevWall(lo)) > time.Hour && !m.Before(hi) {
		return time.Time{}
	}
	return m.Add(-s.before)
}

// ownedUntil is the wall time at which the segment's own matches end: where
// the clock goes back, the hour that comes twice belongs to the second time,
// unless the text covers every hour.
func (k ticker) ownedUntil(s segment) time.Time {
	if s.end.IsZero() {
		return time.Time{}
	}
	if k.spec.everyHour || s.after >= s.offset {
		return wall(s.end, s.offset)
	}
	return wall(s.end, s.after)
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if a.IsZero() || b.After(a) {
		return b
	}
	return a
}
