package timetable

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/robfig/cron/v3"
)

// cronSpec is a parsed cron text. Bit n of a mask stands for the value n.
type cronSpec struct {
	second, minute, hour uint64
	dom, month, dow      uint64
	// lastDom is "L": the last day of the month.
	lastDom bool
	// nth has bit k set in nth[w] for "w#k"; lastDow has bit w set for "Lw".
	nth     [7]uint64
	lastDow uint64
	// domStar and dowStar say that the field leaves every day open, so that only
	// the other one decides. When neither does, either may match.
	domStar, dowStar bool
	// everyHour picks the rule for clock changes: elapsed time instead of the
	// wall clock.
	everyHour bool
}

// fieldSpec describes one cron field to the parser and to its error texts.
type fieldSpec struct {
	name     string
	allowed  string
	min, max int
	option   cron.ParseOption
	names    map[string]int
}

func cronFields() [6]fieldSpec {
	months := map[string]int{
		"jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6,
		"jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12,
	}
	days := map[string]int{"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
	return [6]fieldSpec{
		{"minute", "0-59", 0, 59, cron.Minute, nil},
		{"hour", "0-23", 0, 23, cron.Hour, nil},
		{"day-of-month", "1-31 or L (the last day)", 1, 31, cron.Dom, nil},
		{"month", "1-12 or JAN-DEC", 1, 12, cron.Month, months},
		{"day-of-week", "0-7 (0 and 7 are Sunday), SUN-SAT, 5#2 (the second Friday) or L5 (the last Friday)", 0, 7, cron.Dow, days},
		{"second", "0-59", 0, 59, cron.Second, nil},
	}
}

// parseCron reads a cron text of five fields, or six with the seconds last.
func parseCron(text string) (*cronSpec, error) {
	if strings.Contains(text, "=") {
		return nil, errors.New("a cron text cannot carry a time zone (TZ=...): set the DAG's timezone instead")
	}
	parts := strings.Fields(text)
	if len(parts) != 5 && len(parts) != 6 {
		return nil, fmt.Errorf("found %d fields: a cron text has five (minute hour day-of-month month day-of-week), or six with the second last", len(parts))
	}
	fields := cronFields()
	c := &cronSpec{second: 1}
	for i, part := range parts {
		if err := c.setField(i, fields[i], strings.ToLower(part)); err != nil {
			return nil, fmt.Errorf("field %d (%s) is %q: %w; allowed are %s, lists (1,2), ranges (1-5) and steps (*/2)",
				i+1, fields[i].name, part, err, fields[i].allowed)
		}
	}
	c.domStar = !c.lastDom && c.dom == span(1, 31)
	c.dowStar = c.dow == span(0, 6)
	c.everyHour = c.hour == span(0, 23)
	return c, nil
}

// span is the mask of lo..hi.
func span(lo, hi int) uint64 { return (1<<(hi-lo+1) - 1) << lo }

func (c *cronSpec) setField(i int, f fieldSpec, text string) error {
	var plain []string
	special := false
	for _, item := range strings.Split(text, ",") {
		if item == "" {
			return errors.New("an entry of the list is empty")
		}
		handled, err := c.special(i, f, item)
		if err != nil {
			return err
		}
		if handled {
			special = true
			continue
		}
		norm, err := f.normalise(item)
		if err != nil {
			return err
		}
		plain = append(plain, norm...)
	}
	if special && i == 4 && len(plain) > 0 {
		return errors.New("plain days cannot be mixed with # or L days")
	}
	var mask uint64
	if len(plain) > 0 {
		var err error
		if mask, err = robfigField(f, strings.Join(plain, ",")); err != nil {
			return err
		}
	}
	switch i {
	case 0:
		c.minute = mask
	case 1:
		c.hour = mask
	case 2:
		c.dom = mask
	case 3:
		c.month = mask
	case 4:
		c.dow = mask
	case 5:
		c.second = mask
	}
	return nil
}

// special handles what robfig/cron does not know: L in the day of the month,
// w#k and Lw in the day of the week.
func (c *cronSpec) special(i int, f fieldSpec, item string) (bool, error) {
	switch {
	case i == 2 && item == "l":
		c.lastDom = true
		return true, nil
	case i == 4 && strings.Contains(item, "#"):
		day, nth, _ := strings.Cut(item, "#")
		w, err := f.value(day)
		if err != nil {
			return false, err
		}
		k, err := strconv.Atoi(nth)
		if err != nil || k < 1 || k > 5 {
			return false, fmt.Errorf("%q after # must be 1 to 5", nth)
		}
		c.nth[w%7] |= 1 << k
		return true, nil
	case i == 4 && len(item) == 2 && item[0] == 'l':
		w, err := f.value(item[1:])
		if err != nil {
			return false, err
		}
		c.lastDow |= 1 << (w % 7)
		return true, nil
	default:
		return false, nil
	}
}

// value reads a number or name within the field's bounds.
func (f fieldSpec) value(s string) (int, error) {
	if n, ok := f.names[s]; ok {
		return n, nil
	}
	n, err := digits(s)
	if err != nil {
		return 0, err
	}
	if n < f.min || n > f.max {
		return 0, fmt.Errorf("%d is out of range", n)
	}
	return n, nil
}

// digits reads a short run of decimal digits, with no sign.
func digits(s string) (int, error) {
	if s == "" || len(s) > 4 || strings.Trim(s, "0123456789") != "" {
		return 0, fmt.Errorf("%q is not a number", s)
	}
	return strconv.Atoi(s)
}

// normalise checks one entry of a list and rewrites it to numbers that
// robfig/cron takes; Sunday as 7 becomes 0, L as the end of a range 31.
func (f fieldSpec) normalise(item string) ([]string, error) {
	body, stepText, hasStep := strings.Cut(item, "/")
	step := 1
	if hasStep {
		var err error
		if step, err = digits(stepText); err != nil {
			return nil, fmt.Errorf("the step %w", err)
		}
		if step == 0 {
			return nil, errors.New("a step of 0 never ends")
		}
	}
	lo, hi, err := f.bounds(body, hasStep)
	if err != nil {
		return nil, err
	}
	if f.option != cron.Dow {
		return []string{fmt.Sprintf("%d-%d/%d", lo, hi, step)}, nil
	}
	var days []string
	for v := lo; v <= hi; v += step {
		days = append(days, strconv.Itoa(v%7))
	}
	return days, nil
}

func (f fieldSpec) bounds(body string, hasStep bool) (lo, hi int, err error) {
	top := f.max
	if f.option == cron.Dow {
		top = 6
	}
	if body == "*" || body == "?" && f.option == cron.Dow {
		return f.min, top, nil
	}
	if body == "?" {
		return 0, 0, errors.New(`"?" is not understood here, write "*"`)
	}
	from, to, isRange := strings.Cut(body, "-")
	if lo, err = f.value(from); err != nil {
		return 0, 0, err
	}
	switch {
	case isRange && f.option == cron.Dom && to == "l":
		hi = 31
	case isRange:
		if hi, err = f.value(to); err != nil {
			return 0, 0, err
		}
		if f.option == cron.Dow && hi == 0 {
			hi = 7 // FRI-SUN
		}
	case hasStep:
		hi = max(top, lo)
	default:
		hi = lo
	}
	if lo > hi {
		return 0, 0, fmt.Errorf("the range %s runs backwards", body)
	}
	return lo, hi, nil
}

// robfigField lets robfig/cron expand one field whose text is already checked,
// and takes the field's mask out of its answer. Its panics become errors.
func robfigField(f fieldSpec, text string) (mask uint64, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the cron parser failed: %v", p)
		}
	}()
	s, err := cron.NewParser(f.option).Parse(text)
	if err != nil {
		return 0, err
	}
	spec, ok := s.(*cron.SpecSchedule)
	if !ok {
		return 0, fmt.Errorf("the cron parser gave %T", s)
	}
	switch f.option {
	case cron.Minute:
		mask = spec.Minute
	case cron.Hour:
		mask = spec.Hour
	case cron.Dom:
		mask = spec.Dom
	case cron.Month:
		mask = spec.Month
	case cron.Dow:
		mask = spec.Dow
	default:
		mask = spec.Second
	}
	return mask &^ (1 << 63), nil // the top bit is robfig's own mark for "*"
}
