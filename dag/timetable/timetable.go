package timetable

import (
	"errors"
	"fmt"
	"slices"
	"time"
	_ "time/tzdata" // zones are known on machines that have no zone files

	"github.com/airlock-dag/airlock/dag"
)

// Timetable is a schedule ready to be asked. It is immutable and safe for
// concurrent use.
type Timetable struct {
	schedule dag.Schedule
	loc      *time.Location
	tickers  []ticker
	events   []time.Time
}

// shortestPeriod keeps a delta schedule from flooding the run table.
const shortestPeriod = time.Second

// New checks a schedule and makes its timetable. The zone is the schedule's
// own, else dagZone, else UTC. The error is a *dag.Error of code invalid: a bad
// cron text (which field, what is allowed), one that never fires, an unknown
// zone, a period that is not positive.
func New(s dag.Schedule, dagZone string) (*Timetable, error) {
	zone := s.Timezone
	if zone == "" {
		zone = dagZone
	}
	loc, err := location(zone)
	if err != nil {
		return nil, invalid(s.Text, `zones have IANA names: "UTC", "Europe/Berlin"`, err)
	}
	t := &Timetable{schedule: s, loc: loc}
	switch s.Kind {
	case dag.ScheduleNone, dag.ScheduleOnce, dag.ScheduleContinuous:
	case dag.ScheduleCronTrigger, dag.ScheduleCronInterval:
		err = t.addCrons()
	case dag.ScheduleDelta, dag.ScheduleDeltaInterval:
		if span := time.Duration(s.Months)*28*24*time.Hour + s.Delta; s.Months > maxMonths || span < shortestPeriod {
			err = invalid(s.Text, "the shortest is one second", fmt.Errorf("the period %s is not allowed", period(s.Delta, s.Months)))
		}
	case dag.ScheduleEvents:
		for _, e := range s.Events {
			t.events = append(t.events, e.UTC())
		}
		slices.SortFunc(t.events, time.Time.Compare)
		t.events = slices.CompactFunc(t.events, time.Time.Equal)
	default:
		err = invalid(s.Text, "", fmt.Errorf("there is no schedule of kind %q", s.Kind))
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// ForDAG makes the timetable of a DAG. Besides New it checks that a
// @continuous DAG has one active run at a time.
func ForDAG(d *dag.DAG) (*Timetable, error) {
	if d.Schedule.Kind == dag.ScheduleContinuous && d.MaxActiveRuns != 1 {
		return nil, invalid(d.Schedule.Text, "set max_active_runs: 1",
			fmt.Errorf("a continuous DAG runs one after another, found max_active_runs %d", d.MaxActiveRuns))
	}
	return New(d.Schedule, d.Timezone)
}

// maxMonths keeps calendar arithmetic inside the years that databases know.
const maxMonths = 12 * 100

func (t *Timetable) addCrons() error {
	s := t.schedule
	if len(s.Crons) == 0 {
		return invalid(s.Text, "", errors.New("it has no cron text"))
	}
	if len(s.Crons) > 1 && s.Kind == dag.ScheduleCronInterval {
		return invalid(s.Text, "use a trigger timetable", errors.New("data intervals need exactly one cron text"))
	}
	if s.Interval < 0 || s.IntervalMonths < 0 {
		return invalid(s.Text, "", fmt.Errorf("the interval %s is negative", period(s.Interval, s.IntervalMonths)))
	}
	for _, text := range s.Crons {
		spec, err := checkedCron(text)
		if err != nil {
			return err
		}
		t.tickers = append(t.tickers, ticker{spec: spec, loc: t.loc})
	}
	return nil
}

func location(zone string) (*time.Location, error) {
	if zone == "" || zone == "utc" {
		return time.UTC, nil
	}
	loc, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return nil, fmt.Errorf("there is no time zone %q", zone)
	}
	return loc, nil
}

func period(d time.Duration, months int) string {
	if months == 0 {
		return d.String()
	}
	return fmt.Sprintf("%d months and %s", months, d)
}

// add moves t by a period; a month keeps the day of the month where it can and
// takes the month's last day where it cannot.
func add(t time.Time, d time.Duration, months int) time.Time {
	if months != 0 {
		y, m, day := t.Date()
		first := time.Date(y, m, 1, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), t.Location()).AddDate(0, months, 0)
		t = first.AddDate(0, 0, min(day, daysIn(first.Year(), first.Month()))-1)
	}
	return t.Add(d)
}

// CronNext is the first tick after an instant, in UTC; zero when none follows and
// for schedules that are not cron texts. From a tick it is the next of them all.
// From any other instant the wall clock is read, as Airflow's cron does: what the
// clock shows for the first time of two counts as shown for the second, so that a
// start at the first 01:45 has the tick of 01:30 behind it.
func (t *Timetable) CronNext(after time.Time) time.Time {
	fromTick := len(t.tickers) > 1 && t.isTick(after) // of a single text no tick shows a time that comes again
	var best time.Time
	for _, k := range t.tickers {
		from := after
		if !fromTick {
			from = k.lastShown(after)
		}
		best = earlier(best, k.next(from))
	}
	return best
}

// CronPrev is the last tick strictly before an instant, in UTC; zero for none.
func (t *Timetable) CronPrev(before time.Time) time.Time {
	var best time.Time
	for _, k := range t.tickers {
		best = later(best, k.prev(before))
	}
	return best
}

// isTick tells whether an instant is a tick of any of the texts.
func (t *Timetable) isTick(at time.Time) bool {
	for _, k := range t.tickers {
		if k.next(at.Add(-1)).Equal(at) {
			return true
		}
	}
	return false
}

// atOrAfter is an instant that is a tick itself, else the next tick.
func (t *Timetable) atOrAfter(at time.Time) time.Time {
	if t.isTick(at) {
		return at.UTC()
	}
	return t.CronNext(at)
}

// atOrBefore is an instant that is a tick itself, else the tick before it.
func (t *Timetable) atOrBefore(at time.Time) time.Time { return t.CronPrev(at.Add(1)) }
