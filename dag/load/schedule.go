package load

import (
	"errors"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/timetable"
)

const scheduleForms = `allowed: a cron text in quotes, @daily and the like, @once, @continuous, null, {__type__: datetime.timedelta, hours: 6}, or a timetable by __type__`

func (b *builder) readSchedule() {
	b.d.Schedule = dag.Schedule{Kind: dag.ScheduleNone, Text: "none"}
	key := "schedule"
	n := b.merged.get(key)
	if n == nil {
		key = "timetable"
		n = b.merged.get(key)
	}
	if n.null() {
		return
	}
	path := join(b.path, key)
	var s dag.Schedule
	var ok bool
	switch {
	case n.condition, n.get("__and__") != nil, n.get("__or__") != nil, n.get("datasets") != nil:
		b.rep.err(n, path, codeAssets, "assets cannot be a schedule: Airlock has no assets", "use a cron text, or a trigger_dag_run task in the DAG that makes the data")
	case n.kind == scalarNode:
		s, ok = b.scheduleText(n, path)
	case n.kind == listNode:
		b.rep.err(n, path, codeAssets, "a list of assets cannot be a schedule: Airlock has no assets", "use a cron text, or a trigger_dag_run task in the DAG that makes the data")
	case n.get("__type__") != nil:
		s, ok = b.scheduleObject(n, path)
	default:
		b.rep.err(n, path, codeBadSchedule, "a mapping without __type__ is not a schedule", scheduleForms)
	}
	if !ok {
		return
	}
	if s.Timezone == b.d.Timezone {
		s.Timezone = ""
	}
	b.d.Schedule = s
	if n.kind == mapNode {
		b.checkTimetable(n, path)
	}
	if s.Kind == dag.ScheduleContinuous {
		limit := b.merged.get("max_active_runs")
		switch {
		case limit.null():
			b.d.MaxActiveRuns = 1
		case b.d.MaxActiveRuns != 1:
			b.rep.err(limit, join(b.path, "max_active_runs"), codeBadValue, "@continuous needs max_active_runs: 1", "")
		}
	}
}

func (b *builder) scheduleText(n *node, path string) (dag.Schedule, bool) {
	s, err := timetable.FromText(n.text, b.opts.CronDataIntervals)
	if err != nil {
		b.scheduleError(n, path, err)
		return s, false
	}
	if s.Kind == dag.ScheduleNone {
		s.Text = "none"
	}
	return s, true
}

// scheduleError reports what the timetable says of a schedule.
func (b *builder) scheduleError(n *node, path string, err error) {
	var e *dag.Error
	if !errors.As(err, &e) {
		b.rep.err(n, path, codeBadSchedule, err.Error(), scheduleForms)
		return
	}
	hint := e.Hint
	if hint == "" {
		hint = scheduleForms
	}
	b.rep.err(n, path, codeBadSchedule, e.Op+": "+e.Err.Error(), hint)
}

// checkTimetable asks the timetable itself whether it can work.
func (b *builder) checkTimetable(n *node, path string) {
	if _, err := timetable.New(b.d.Schedule, b.d.Timezone); err != nil {
		b.scheduleError(n, path, err)
	}
}

func (b *builder) deltaKind() dag.ScheduleKind {
	if b.opts.CronDataIntervals {
		return dag.ScheduleDeltaInterval
	}
	return dag.ScheduleDelta
}

// scheduleObject reads a schedule given by __type__.
func (b *builder) scheduleObject(n *node, path string) (dag.Schedule, bool) {
	t := n.get("__type__")
	name := className(t.text)
	switch name {
	case "timedelta", "relativedelta", "duration":
		d, months, ok := b.rep.period(n, path)
		if ok && (d < 0 || months < 0 || d == 0 && months == 0) {
			b.rep.err(n, path, codeBadSchedule, "the period of a schedule must be more than 0", "")
			ok = false
		}
		return dag.Schedule{Kind: b.deltaKind(), Delta: d, Months: months, Text: periodText(d, months)}, ok
	case "NullTimetable":
		return dag.Schedule{Kind: dag.ScheduleNone, Text: "none"}, true
	case "OnceTimetable":
		return dag.Schedule{Kind: dag.ScheduleOnce, Text: "@once"}, true
	case "ContinuousTimetable":
		return dag.Schedule{Kind: dag.ScheduleContinuous, Text: "@continuous"}, true
	case "CronTriggerTimetable", "MultipleCronTriggerTimetable", "CronDataIntervalTimetable",
		"DeltaTriggerTimetable", "DeltaDataIntervalTimetable", "EventsTimetable":
		return b.timetable(n, path, name)
	}
	if strings.Contains(name, "Asset") || strings.Contains(name, "Dataset") {
		b.rep.err(t, path, codeAssets, name+" cannot be a schedule: Airlock has no assets", "use a cron text, or a trigger_dag_run task in the DAG that makes the data")
		return dag.Schedule{}, false
	}
	b.rep.err(t, path, codeBadSchedule, quote(t.text)+" is not a timetable that Airlock has", scheduleForms)
	return dag.Schedule{}, false
}

func periodText(d time.Duration, months int) string {
	if months == 0 {
		return "every " + d.String()
	}
	text := "every " + plural(months, "month")
	if d > 0 {
		text += " and " + d.String()
	}
	return text
}
