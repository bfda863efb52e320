package load

import (
	"errors"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/timetable"
)

func count(n int) string { return strconv.Itoa(n) }

func plural(n int, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return count(n) + " " + unit + "s"
}

// timetableArgs are the arguments of a timetable class: the names of the
// positional ones in order, and all that it takes by name.
func timetableArgs(class string) (positional, named []string) {
	switch class {
	case "CronTriggerTimetable":
		return []string{"cron"}, []string{"cron", "timezone", "interval", "run_immediately"}
	case "MultipleCronTriggerTimetable":
		return nil, []string{"crons", "timezone", "interval", "run_immediately"}
	case "CronDataIntervalTimetable":
		return []string{"cron", "timezone"}, []string{"cron", "timezone"}
	case "DeltaTriggerTimetable":
		return []string{"delta"}, []string{"delta", "interval"}
	case "DeltaDataIntervalTimetable":
		return []string{"delta"}, []string{"delta"}
	default: // EventsTimetable
		return []string{"event_dates"}, []string{"event_dates", "restrict_to_events", "presorted", "description"}
	}
}

// timetable reads a timetable class with its arguments.
func (b *builder) timetable(n *node, path, class string) (dag.Schedule, bool) {
	positional, named := timetableArgs(class)
	args, ok := map[string]*node{}, true
	for _, f := range n.fields {
		switch {
		case f.name == "__type__":
		case f.name == "__args__" && f.val.kind == listNode:
			if class == "MultipleCronTriggerTimetable" {
				args["crons"] = f.val
				continue
			}
			for i, item := range f.val.items {
				if i >= len(positional) {
					b.rep.err(item, path, codeBadSchedule, class+" takes "+plural(len(positional), "positional argument"), "")
					ok = false
					break
				}
				args[positional[i]] = item
			}
		case slices.Contains(named, f.name):
			args[f.name] = f.val
		default:
			b.rep.err(f.key, join(path, f.name), codeUnknownKey, quote(f.name)+" is not an argument of "+class, b.rep.didYouMean(f.name, named))
			ok = false
		}
	}
	s := dag.Schedule{}
	switch class {
	case "CronTriggerTimetable", "MultipleCronTriggerTimetable":
		s.Kind = dag.ScheduleCronTrigger
	case "CronDataIntervalTimetable":
		s.Kind = dag.ScheduleCronInterval
	case "DeltaTriggerTimetable":
		s.Kind = dag.ScheduleDelta
	case "DeltaDataIntervalTimetable":
		s.Kind = dag.ScheduleDeltaInterval
	case "EventsTimetable":
		s.Kind = dag.ScheduleEvents
	}
	for _, read := range []func(map[string]*node, string, *dag.Schedule) bool{b.readCrons, b.readDelta, b.readEvents, b.readTrigger} {
		ok = read(args, path, &s) && ok
	}
	return s, ok
}

func (b *builder) missing(path, key string) bool {
	n := b.merged.get("schedule")
	if n == nil {
		n = b.merged.get("timetable")
	}
	b.rep.err(n, path, codeMissingKey, key+" is missing", "")
	return false
}

func (b *builder) readCrons(args map[string]*node, path string, s *dag.Schedule) bool {
	if s.Kind != dag.ScheduleCronTrigger && s.Kind != dag.ScheduleCronInterval {
		return true
	}
	key, n := "cron", args["cron"]
	if n == nil {
		key, n = "crons", args["crons"]
	}
	if n.null() {
		return b.missing(path, "cron")
	}
	texts, ok := b.rep.texts(n, join(path, key))
	if ok && len(texts) == 0 {
		return b.missing(path, "cron")
	}
	for _, text := range texts {
		one, err := timetable.FromText(text, false)
		if err == nil && len(one.Crons) == 0 {
			err = &dag.Error{Code: dag.ErrInvalid, Op: "schedule " + quote(text), Err: errors.New("a timetable of cron texts takes no " + text)}
		}
		if err != nil {
			b.scheduleError(n, join(path, key), err)
			ok = false
			continue
		}
		s.Crons = append(s.Crons, one.Crons...)
	}
	s.Text = strings.Join(s.Crons, ", ")
	return ok
}

func (b *builder) readDelta(args map[string]*node, path string, s *dag.Schedule) bool {
	if s.Kind != dag.ScheduleDelta && s.Kind != dag.ScheduleDeltaInterval {
		return true
	}
	n := args["delta"]
	if n.null() {
		return b.missing(path, "delta")
	}
	d, months, ok := b.rep.period(n, join(path, "delta"))
	if ok && (d < 0 || months < 0 || d == 0 && months == 0) {
		b.rep.err(n, join(path, "delta"), codeBadSchedule, "the period of a schedule must be more than 0", "")
		return false
	}
	s.Delta, s.Months, s.Text = d, months, periodText(d, months)
	return ok
}

func (b *builder) readEvents(args map[string]*node, path string, s *dag.Schedule) bool {
	if s.Kind != dag.ScheduleEvents {
		return true
	}
	n := args["event_dates"]
	if n.null() || n.kind != listNode || len(n.items) == 0 {
		return b.missing(path, "event_dates: a list of dates")
	}
	ok := true
	for i, item := range n.items {
		t, good := b.date(item, index(join(path, "event_dates"), i), b.loc)
		ok = ok && good
		if good {
			s.Events = append(s.Events, *t)
		}
	}
	sort.Slice(s.Events, func(i, j int) bool { return s.Events[i].Before(s.Events[j]) })
	s.Text = plural(len(s.Events), "event")
	for _, key := range []string{"restrict_to_events", "presorted"} {
		if v := args[key]; !v.null() {
			_, good := b.rep.boolean(v, join(path, key))
			ok = ok && good
		}
	}
	if v := args["restrict_to_events"]; !v.null() {
		b.rep.warn(v, join(path, "restrict_to_events"), codeIgnoredKey, "Airlock does not act on restrict_to_events", "")
	}
	if v := args["description"]; !v.null() {
		s.Text, _ = b.rep.text(v, join(path, "description"))
	}
	return ok
}

// readTrigger reads what trigger timetables take besides their times.
func (b *builder) readTrigger(args map[string]*node, path string, s *dag.Schedule) bool {
	ok := true
	if n := args["timezone"]; !n.null() {
		p := join(path, "timezone")
		text, good := b.rep.text(n, p)
		if good {
			if _, err := b.zone(text); err != nil {
				b.rep.err(n, p, codeBadTimezone, err.Error(), "write a name such as Europe/Berlin or UTC")
				good = false
			}
		}
		s.Timezone, ok = text, ok && good
	}
	if n := args["interval"]; !n.null() {
		d, months, good := b.rep.period(n, join(path, "interval"))
		if good && (d < 0 || months < 0) {
			b.rep.err(n, join(path, "interval"), codeBadDuration, "the interval is negative", "")
			good = false
		}
		s.Interval, s.IntervalMonths, ok = d, months, ok && good
	}
	if n := args["run_immediately"]; !n.null() {
		ok = b.readRunImmediately(n, join(path, "run_immediately"), s) && ok
	}
	return ok
}

func (b *builder) readRunImmediately(n *node, path string, s *dag.Schedule) bool {
	if n.kind == scalarNode && n.plain && (bool11.MatchString(n.text) || bool12.MatchString(n.text)) {
		if on, _ := b.rep.boolean(n, path); on {
			always := time.Duration(0)
			s.RunImmediately = &always
		}
		return true
	}
	d, ok := b.rep.duration(n, path)
	if ok {
		s.RunImmediately = &d
	}
	return ok
}
