package column

import "time"

// quickTime reads the forms of a timestamp that nearly all files have, twenty
// times as fast as trying one layout after the other: 2006-01-02 15:04:05 with a
// T or a blank between, up to nine digits of a fraction, and Z or nothing
// behind. ok is false for everything else, also for what is none.
func quickTime(text string) (t time.Time, zoned, ok bool) {
	if len(text) < 19 || text[4] != '-' || text[7] != '-' || (text[10] != ' ' && text[10] != 'T') || text[13] != ':' || text[16] != ':' {
		return t, false, false
	}
	year, month, day := natural(text[:4]), natural(text[5:7]), natural(text[8:10])
	hour, minute, second := natural(text[11:13]), natural(text[14:16]), natural(text[17:19])
	if year < 0 || month < 1 || month > 12 || day < 1 || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59 {
		return t, false, false
	}
	rest := text[19:]
	if n := len(rest); n > 0 && rest[n-1] == 'Z' {
		zoned, rest = true, rest[:n-1]
	}
	nano := 0
	if rest != "" {
		if rest[0] != '.' || len(rest) < 2 || len(rest) > 10 {
			return t, false, false
		}
		if nano = natural(rest[1:]); nano < 0 {
			return t, false, false
		}
		for range 10 - len(rest) {
			nano *= 10
		}
	}
	t = time.Date(year, time.Month(month), day, hour, minute, second, nano, time.UTC)
	return t, zoned, t.Day() == day // the 30th of February would be in March
}

// natural is a number of up to nine digits, -1 for anything else.
func natural(s string) int {
	n := 0
	for i := range len(s) {
		c := s[i] - '0'
		if c > 9 {
			return -1
		}
		n = 10*n + int(c)
	}
	return n
}

// stamp writes an instant of the years 1 to 9999 in TimestampLayout.
func stamp(t time.Time) string {
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	var b [26]byte
	put := func(at, width, v int) {
		for i := at + width - 1; i >= at; i-- {
			b[i] = byte('0' + v%10)
			v /= 10
		}
	}
	put(0, 4, year)
	put(5, 2, int(month))
	put(8, 2, day)
	put(11, 2, hour)
	put(14, 2, minute)
	put(17, 2, second)
	put(20, 6, t.Nanosecond()/1000)
	b[4], b[7], b[10], b[13], b[16], b[19] = '-', '-', ' ', ':', ':', '.'
	return string(b[:])
}
