package timetable

import (
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// Restriction bounds the automatic runs of a DAG.
type Restriction struct {
	// Earliest is the first instant that counts, Latest the last one at which a
	// run may begin; nil for no bound.
	Earliest, Latest *time.Time
	// Catchup makes up for the runs that were missed, one after another; without
	// it only the latest is made.
	Catchup bool
}

// RestrictionFor finds the bounds of a DAG: the smallest of its start date and
// its tasks' start dates; its end date or, when every task has an end date, the
// largest of them all.
func RestrictionFor(d *dag.DAG) Restriction {
	r := Restriction{Earliest: d.StartDate, Latest: d.EndDate, Catchup: d.Catchup}
	allEnd := len(d.Tasks) > 0
	for i := range d.Tasks {
		task := &d.Tasks[i]
		if task.StartDate != nil && (r.Earliest == nil || task.StartDate.Before(*r.Earliest)) {
			r.Earliest = task.StartDate
		}
		allEnd = allEnd && task.EndDate != nil
	}
	for i := 0; allEnd && i < len(d.Tasks); i++ {
		if end := d.Tasks[i].EndDate; r.Latest == nil || end.After(*r.Latest) {
			r.Latest = end
		}
	}
	return r
}

func (r Restriction) allows(t time.Time) bool { return r.Latest == nil || !t.After(*r.Latest) }

// Next is the next automatic run, which may be due already (RunAfter <= now),
// or nil when there is none. last is the last automatic run as it was planned,
// nil when there was none. All instants of the answer are in UTC.
func (t *Timetable) Next(last *dag.PlannedRun, r Restriction, now time.Time) *dag.PlannedRun {
	now = now.UTC()
	switch t.schedule.Kind {
	case dag.ScheduleOnce:
		return t.nextOnce(last, r, now)
	case dag.ScheduleContinuous:
		return t.nextContinuous(last, r, now)
	case dag.ScheduleCronTrigger, dag.ScheduleDelta:
		return t.nextTrigger(last, r, now)
	case dag.ScheduleCronInterval, dag.ScheduleDeltaInterval:
		return t.nextInterval(last, r, now)
	case dag.ScheduleEvents:
		return t.nextEvent(last, r, now)
	default:
		return nil
	}
}

// exact is a run whose interval is one instant.
func exact(at time.Time) *dag.PlannedRun {
	at = at.UTC()
	return &dag.PlannedRun{LogicalDate: at, DataIntervalStart: at, DataIntervalEnd: at, RunAfter: at}
}

func interval(start, end time.Time) *dag.PlannedRun {
	start, end = start.UTC(), end.UTC()
	return &dag.PlannedRun{LogicalDate: start, DataIntervalStart: start, DataIntervalEnd: end, RunAfter: end}
}

func (t *Timetable) nextOnce(last *dag.PlannedRun, r Restriction, now time.Time) *dag.PlannedRun {
	at := now
	if r.Earliest != nil {
		at = *r.Earliest
	}
	if last != nil || !r.allows(at) {
		return nil
	}
	return exact(at)
}

func (t *Timetable) nextContinuous(last *dag.PlannedRun, r Restriction, now time.Time) *dag.PlannedRun {
	start := now
	if r.Earliest != nil {
		start = *r.Earliest
	}
	if last != nil {
		start = last.DataIntervalEnd
		if !start.After(last.LogicalDate) {
			// The last interval was empty (it began when it was planned): the
			// logical date is taken.
			start = maxTime(now, last.LogicalDate.Add(time.Microsecond))
		}
	}
	end := maxTime(start, now)
	if !r.allows(end) {
		return nil
	}
	return interval(start, end)
}

// nextTrigger plans timetables whose ticks are the runs.
func (t *Timetable) nextTrigger(last *dag.PlannedRun, r Restriction, now time.Time) *dag.PlannedRun {
	var at time.Time
	switch {
	case r.Catchup && last != nil:
		at = t.after(last.DataIntervalEnd)
	case r.Catchup && r.Earliest != nil:
		at = t.align(*r.Earliest)
	case last == nil && r.Earliest == nil:
		at = t.firstRun(now)
	default:
		at = t.latestBy(now)
		bounds := make([]time.Time, 0, 2)
		if last != nil {
			bounds = append(bounds, t.after(last.DataIntervalEnd))
		}
		if r.Earliest != nil {
			bounds = append(bounds, t.align(*r.Earliest))
		}
		for _, bound := range bounds {
			if bound.IsZero() {
				return nil // a text with years whose last is over
			}
			at = maxTime(at, bound)
		}
	}
	if at.IsZero() || !r.allows(at) {
		return nil
	}
	run := exact(at)
	run.LogicalDate = add(run.RunAfter, -t.schedule.Interval, -t.schedule.IntervalMonths)
	run.DataIntervalStart = run.LogicalDate
	return run
}

// graceFraction and graceFloor say how late a tick of an unbounded DAG may be
// noticed and still count, when run_immediately is false.
const (
	graceFraction = 10
	graceFloor    = 5 * time.Minute
)

// firstRun is the first tick of a DAG with neither a start date nor a run.
func (t *Timetable) firstRun(now time.Time) time.Time {
	if len(t.tickers) == 0 {
		return now
	}
	past := t.atOrBefore(now)
	if past.IsZero() {
		return t.CronNext(now)
	}
	next := t.CronNext(past)
	grace := graceFloor
	if !next.IsZero() {
		grace = max(grace, next.Sub(past)/graceFraction)
	}
	if given := t.schedule.RunImmediately; given != nil {
		if grace = *given; grace == 0 {
			return past
		}
	}
	if now.Sub(past) <= grace {
		return past
	}
	return next
}

// nextInterval plans timetables whose runs cover the time between two ticks.
func (t *Timetable) nextInterval(last *dag.PlannedRun, r Restriction, now time.Time) *dag.PlannedRun {
	var start time.Time
	if r.Earliest != nil {
		if start = t.align(*r.Earliest); start.IsZero() {
			return nil // a text with years whose last is over
		}
	}
	if !r.Catchup {
		start = maxTime(start, t.lastComplete(now, r.Earliest))
	}
	if last != nil {
		from := t.alignBack(last.DataIntervalEnd)
		if last.DataIntervalStart.Equal(last.DataIntervalEnd) {
			// The last run came from a trigger timetable: the period that begins
			// with it would have the logical date that it has.
			if from = t.after(last.DataIntervalEnd); from.IsZero() {
				return nil
			}
		}
		start = maxTime(start, from)
	}
	if start.IsZero() || !r.allows(start) {
		return nil
	}
	end := t.after(start)
	if end.IsZero() {
		return nil
	}
	return interval(start, end)
}

// lastComplete is the start of the most recent interval that has ended by now.
// Months have no fixed length: they are counted from the earliest date (from
// now, where there is none), one after another, as catching up would.
func (t *Timetable) lastComplete(now time.Time, earliest *time.Time) time.Time {
	if len(t.tickers) > 0 {
		return t.CronPrev(t.atOrBefore(now))
	}
	if t.schedule.Months > 0 {
		end := now
		if earliest != nil {
			end = earliest.UTC()
			for next := t.after(end); !next.After(now); next = t.after(end) {
				end = next
			}
		}
		return add(end, -t.schedule.Delta, -t.schedule.Months)
	}
	sinceEpoch := now.Sub(time.Unix(0, 0))
	return now.Add(-(sinceEpoch % t.schedule.Delta)).Add(-t.schedule.Delta)
}

// nextEvent plans a list of instants. Without catchup the latest that has
// passed counts, as with ticks; of a DAG with neither a start date nor a run
// only one that passed a moment ago.
func (t *Timetable) nextEvent(last *dag.PlannedRun, r Restriction, now time.Time) *dag.PlannedRun {
	var found *time.Time
	for i := range t.events {
		e := t.events[i]
		switch {
		case last != nil && !e.After(last.DataIntervalEnd),
			r.Earliest != nil && e.Before(*r.Earliest),
			!r.Catchup && last == nil && r.Earliest == nil && e.Before(now.Add(-graceFloor)):
			continue
		}
		if found != nil && e.After(now) {
			break
		}
		found = &e
		if r.Catchup || e.After(now) {
			break
		}
	}
	if found == nil || !r.allows(*found) {
		return nil
	}
	return exact(*found)
}

// after is the tick that follows a run: of a period, one period later.
func (t *Timetable) after(at time.Time) time.Time {
	if len(t.tickers) > 0 {
		return t.CronNext(at)
	}
	return add(at.UTC(), t.schedule.Delta, t.schedule.Months)
}

// align moves forward to a tick; a period has no ticks to align to.
func (t *Timetable) align(at time.Time) time.Time {
	if len(t.tickers) > 0 {
		return t.atOrAfter(at)
	}
	return at.UTC()
}

func (t *Timetable) alignBack(at time.Time) time.Time {
	if len(t.tickers) > 0 {
		return t.atOrBefore(at)
	}
	return at.UTC()
}

func (t *Timetable) latestBy(now time.Time) time.Time {
	if len(t.tickers) > 0 {
		return t.atOrBefore(now)
	}
	return now
}

// ManualInterval is the data interval of a manual run with a logical date: the
// last complete interval for data-interval timetables, an empty one at that
// instant (or the timetable's own interval before it) for all others.
func (t *Timetable) ManualInterval(logical time.Time) (start, end time.Time) {
	logical = logical.UTC()
	switch t.schedule.Kind {
	case dag.ScheduleCronInterval:
		if end = t.atOrBefore(logical); end.IsZero() {
			return logical, logical // before the first of a text's years
		}
		if start = t.CronPrev(end); start.IsZero() {
			start = end
		}
		return start, end
	case dag.ScheduleDeltaInterval:
		return add(logical, -t.schedule.Delta, -t.schedule.Months), logical
	case dag.ScheduleCronTrigger, dag.ScheduleDelta:
		return add(logical, -t.schedule.Interval, -t.schedule.IntervalMonths), logical
	default:
		return logical, logical
	}
}

func maxTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
