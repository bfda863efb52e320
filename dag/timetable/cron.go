package timetable

import (
	"errors"
	"fmt"
	"slices"
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
	// nearest is the day of "15W", the weekday nearest to a day; 0 without.
	nearest int
	// domStar and dowStar say that the field leaves every day open, so that only
	// the other one decides. When neither does, either may match.
	domStar, dowStar bool
	// years has y-firstYear set for each year that the text names; nil for all.
	years []bool
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

// firstYear and lastYear bound the seventh field.
const firstYear, lastYear = 1970, 2099

func cronFields() [7]fieldSpec {
	months := map[string]int{
		"jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6,
		"jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12,
	}
	days := map[string]int{"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
	return [7]fieldSpec{
		{"minute", "0-59", 0, 59, cron.Minute, nil},
		{"hour", "0-23", 0, 23, cron.Hour, nil},
		{"day-of-month", "1-31, L (the last day) or 15W (the weekday nearest to the 15th)", 1, 31, cron.Dom, nil},
		{"month", "1-12 or JAN-DEC", 1, 12, cron.Month, months},
		{"day-of-week", "0-7 (0 and 7 are Sunday), SUN-SAT, 5#2 (the second Friday) or L5 (the last Friday)", 0, 6, cron.Dow, days},
		{"second", "0-59", 0, 59, cron.Second, nil},
		{"year", "1970-2099", firstYear, lastYear, 0, nil},
	}
}

// parseCron reads a cron text of five fields, or six with the seconds last, or
// seven with the years behind them, as croniter does.
func parseCron(text string) (*cronSpec, error) {
	if strings.Contains(text, "=") {
		return nil, errors.New("a cron text cannot carry a time zone (TZ=...): set the DAG's timezone instead")
	}
	parts := strings.Fields(strings.ToLower(text))
	if len(parts) < 5 || len(parts) > 7 {
		return nil, fmt.Errorf("found %d fields: a cron text has five (minute hour day-of-month month day-of-week), six with the second last, "+
			"or seven with the year behind it", len(parts))
	}
	fields := cronFields()
	c := &cronSpec{second: 1}
	for i, part := range parts {
		if err := c.setField(i, fields[i], part); err != nil {
			return nil, fmt.Errorf("field %d (%s) is %q: %w; allowed are %s, lists (1,2), ranges (1-5) and steps (*/2)",
				i+1, fields[i].name, strings.Fields(text)[i], err, fields[i].allowed)
		}
	}
	// A field that lists every day leaves them open only beside one with a star.
	c.domStar = c.domStar || !c.lastDom && c.dom == span(1, 31) && strings.Contains(parts[4], "*")
	c.dowStar = c.dowStar || c.dow == span(0, 6) && strings.Contains(parts[2], "*")
	c.everyHour = c.hour == span(0, 23) && !starAmongOthers(parts[1])
	return c, nil
}

// starAmongOthers tells whether a list has a star and something else. It means
// every value, but croniter does not take it for a star.
func starAmongOthers(text string) bool {
	items := strings.Split(text, ",")
	return slices.Contains(items, "*") && slices.ContainsFunc(items, func(item string) bool { return item != "*" })
}

// span is the mask of lo..hi.
func span(lo, hi int) uint64 { return (1<<(hi-lo+1) - 1) << lo }

func (c *cronSpec) setField(i int, f fieldSpec, text string) error {
	var plain []int
	special := false
	if text == "?" && (i == 2 || i == 4) {
		text = "*"
	}
	items := strings.Split(text, ",")
	for _, item := range items {
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
		values, err := f.values(item)
		if err != nil {
			return err
		}
		plain = append(plain, values...)
	}
	switch {
	case special && i == 4 && len(plain) > 0:
		return errors.New("plain days cannot be mixed with # or L days")
	case c.nearest > 0 && i == 2 && len(items) > 1:
		return errors.New("a day with W stands alone, not in a list")
	case i == 6:
		c.setYears(plain)
		return nil
	}
	star := slices.Contains(items, "*")
	mask, err := robfigField(f, plain)
	switch i {
	case 0:
		c.minute = mask
	case 1:
		c.hour = mask
	case 2:
		c.dom, c.domStar = mask, star
	case 3:
		c.month = mask
	case 4:
		c.dow, c.dowStar = mask, star
	case 5:
		c.second = mask
	}
	return err
}

func (c *cronSpec) setYears(years []int) {
	c.years = make([]bool, lastYear-firstYear+1)
	for _, y := range years {
		c.years[y-firstYear] = true
	}
}

// inYear tells whether the text names a year.
func (c *cronSpec) inYear(y int) bool {
	return c.years == nil || y >= firstYear && y <= lastYear && c.years[y-firstYear]
}

// special handles what robfig/cron does not know: L and 15W in the day of the
// month, w#k and Lw in the day of the week.
func (c *cronSpec) special(i int, f fieldSpec, item string) (bool, error) {
	switch {
	case i == 2 && item == "l":
		c.lastDom = true
		return true, nil
	case i == 2 && (strings.HasSuffix(item, "w") || strings.HasPrefix(item, "w")):
		day, err := f.value(strings.TrimPrefix(strings.TrimSuffix(item, "w"), "w"))
		c.nearest = day
		return err == nil, err
	case i == 4 && strings.Contains(item, "#"):
		days, nth, _ := strings.Cut(item, "#")
		k, err := strconv.Atoi(nth)
		if err != nil || k < 1 || k > 5 {
			return false, fmt.Errorf("%q after # must be 1 to 5", nth)
		}
		from, to, isRange := strings.Cut(days, "-")
		if isRange && (len(from) != 3 || len(to) != 3) || strings.ContainsAny(days, "*/") {
			return false, errors.New("before # stands a day, or a range of names: mon-wed#1")
		}
		weekdays, err := f.values(days)
		if err != nil {
			return false, err
		}
		for _, w := range weekdays {
			c.nth[w] |= 1 << k
		}
		return true, nil
	case i == 4 && len(item) == 2 && item[0] == 'l':
		w, err := f.value(item[1:])
		if err != nil {
			return false, err
		}
		c.lastDow |= 1 << w
		return true, nil
	default:
		return false, nil
	}
}

// value reads a number or name within the field's bounds. Sunday as 7 is 0.
func (f fieldSpec) value(s string) (int, error) {
	if n, ok := f.names[s]; ok {
		return n, nil
	}
	n, err := digits(s)
	if err != nil {
		return 0, err
	}
	if f.option == cron.Dow && n == 7 {
		n = 0
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

// values expands one entry of a list: a value, a range, a star, each perhaps
// with a step.
func (f fieldSpec) values(item string) ([]int, error) {
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
	from, to, isRange := strings.Cut(body, "-")
	if body == "*" {
		return steps(f.min, f.max, step), nil
	}
	lo, err := f.value(from)
	if err != nil {
		return nil, err
	}
	switch {
	case !isRange && !hasStep:
		return []int{lo}, nil
	case !isRange:
		return steps(lo, f.max, step), nil
	}
	hi := f.max
	if f.option != cron.Dom || to != "l" {
		if hi, err = f.value(to); err != nil {
			return nil, err
		}
	}
	switch {
	case lo == hi: // SUN-SUN goes once around
		return steps(f.min, f.max, step), nil
	case lo > hi:
		return f.around(lo, hi, step), nil
	default:
		return steps(lo, hi, step), nil
	}
}

func steps(lo, hi, step int) []int {
	var out []int
	for v := lo; v <= hi; v += step {
		out = append(out, v)
	}
	return out
}

// around expands a range that goes on at the field's beginning, such as 22-2 of
// the hours, with croniter's arithmetic for a step across the end.
func (f fieldSpec) around(lo, hi, step int) []int {
	out := steps(lo, f.max, step)
	left, skip := f.max-out[len(out)-1], 0
	if left < step && out[len(out)-1]-f.min+step > f.max-f.min+1 {
		skip = step - left
	}
	return append(out, steps(f.min+skip, hi, step)...)
}

// robfigField lets robfig/cron read one field whose values are already checked,
// and takes the field's mask out of its answer. Its panics become errors.
func robfigField(f fieldSpec, values []int) (mask uint64, err error) {
	if len(values) == 0 {
		return 0, nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the cron parser failed: %v", p)
		}
	}()
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = strconv.Itoa(v)
	}
	s, err := cron.NewParser(f.option).Parse(strings.Join(texts, ","))
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
