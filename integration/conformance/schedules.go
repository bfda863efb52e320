package main

import (
	"fmt"
	"strings"
	"time"
)

// zones are where clocks change in most of the ways that there are: by an hour
// in either half of the world, by half an hour, by two hours, not at all, and
// at midnight.
var zones = []string{
	"UTC", "America/New_York", "Europe/Berlin", "Europe/London", "Australia/Lord_Howe", "Antarctica/Troll",
	"Asia/Kolkata", "Pacific/Auckland", "America/St_Johns", "Africa/Cairo", "Asia/Beirut", "America/Santiago",
}

var presets = []string{"@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@quarterly", "@yearly", "@annually"}

// aroundChanges are days on which some zone changes its clock.
var aroundChanges = []string{
	"2026-03-08", "2026-03-29", "2026-04-05", "2026-09-06", "2026-09-27", "2026-10-04", "2026-10-25", "2026-11-01",
	"2026-04-24", "2026-10-30", "2026-02-28", "2024-02-29", "2025-12-31",
}

// writeSchedule draws the schedule, dates, zone and catchup of a DAG, and when
// the scheduler looks at it. It gives an instant between the dates, at which a
// run has all tasks.
func writeSchedule(d dice, f *fields, c *dagCase, steps int) time.Time {
	zone := pick(d, zones)
	f.add("timezone", zone)
	start := drawDay(d)
	drawKind(d, f, zone)
	hasStart := d.chance(0.93)
	c.undated = !hasStart
	f.add("catchup", hasStart && d.chance(0.5)) // both sides want a start date to catch up from
	switch {
	case hasStart && d.chance(0.15):
		args := map[string]any{"start_date": drawDate(d, start)}
		if d.chance(0.6) {
			args["timezone"] = pick(d, zones)
		}
		if d.chance(0.15) {
			args["end_date"] = drawDate(d, start.AddDate(0, 0, d.between(4, 90)))
		}
		f.add("default_args", args)
	case hasStart:
		f.add("start_date", drawDate(d, start))
	}
	if d.chance(0.12) {
		f.add("end_date", drawDate(d, start.AddDate(0, 0, d.between(4, 90))))
	}
	c.Clock = iso(start.Add(time.Duration(d.between(-3*86400, 60*86400)) * time.Second))
	if d.chance(0.1) {
		c.Clock = iso(start.Add(time.Duration(d.between(0, 48)) * time.Hour)) // on the hour: often on a tick
	}
	for range steps {
		c.Jumps = append(c.Jumps, pick(d, []float64{0, 0, 0.5, 1, 61, 3599, 3600, 7200, 40000}))
	}
	for range 2 {
		c.Manual = append(c.Manual, iso(start.Add(time.Duration(d.between(0, 40*86400))*time.Second)))
	}
	return start.Add(time.Duration(d.between(2*86400, 3*86400)) * time.Second)
}

func iso(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

func drawDay(d dice) time.Time {
	if d.chance(0.7) {
		day, err := time.Parse(time.DateOnly, pick(d, aroundChanges))
		if err != nil {
			panic(err) // a date of this file
		}
		return day.AddDate(0, 0, d.between(-3, 1))
	}
	return time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, d.IntN(1000))
}

// drawDate writes a date with or without a time of day; the DAG's zone is laid
// on it.
func drawDate(d dice, day time.Time) string {
	if d.chance(0.5) {
		return day.Format(time.DateOnly)
	}
	return day.Add(time.Duration(d.IntN(86400)) * time.Second).Format("2006-01-02 15:04:05")
}

func drawKind(d dice, f *fields, zone string) {
	switch r := d.Float64(); {
	case r < 0.12:
		f.add("schedule", pick(d, presets))
	case r < 0.15:
		f.add("schedule", "@once")
	case r < 0.17:
		f.add("schedule", nil)
	case r < 0.55:
		f.add("schedule", drawCron(d))
	case r < 0.67:
		f.add("schedule", drawDelta(d))
	case r < 0.72:
		f.add("schedule", typed("airflow.timetables.trigger.DeltaTriggerTimetable", "delta", drawDelta(d), "interval", drawInterval(d)))
	case r < 0.77:
		f.add("schedule", typed("airflow.timetables.interval.DeltaDataIntervalTimetable", "delta", drawDelta(d)))
	case r < 0.87:
		f.add("schedule", typed("airflow.timetables.interval.CronDataIntervalTimetable", "cron", drawCron(d), "timezone", zone))
	case r < 0.94:
		t := typed("airflow.timetables.trigger.CronTriggerTimetable", "cron", drawCron(d), "timezone", pick(d, zones))
		if d.chance(0.5) {
			t["interval"] = drawInterval(d)
		}
		if d.chance(0.4) {
			t["run_immediately"] = pick(d, []any{true, false, map[string]any{"__type__": "datetime.timedelta", "minutes": 90}})
		}
		f.add("schedule", t)
	default:
		f.add("schedule", typed("airflow.timetables.trigger.MultipleCronTriggerTimetable",
			"__args__", []string{drawCron(d), drawCron(d)}, "timezone", zone))
	}
}

func typed(class string, pairs ...any) map[string]any {
	m := map[string]any{"__type__": class}
	for i := 0; i+1 < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			panic("a key that is no text")
		}
		m[name] = pairs[i+1]
	}
	return m
}

func drawDelta(d dice) map[string]any {
	switch d.IntN(6) {
	case 0:
		return typed("dateutil.relativedelta.relativedelta", "months", d.between(1, 5))
	case 1:
		return typed("dateutil.relativedelta.relativedelta", "days", d.between(1, 9), "hours", d.between(0, 5))
	case 2:
		return typed("datetime.timedelta", "minutes", d.between(7, 500))
	case 3:
		return typed("datetime.timedelta", "weeks", 1)
	default:
		return typed("datetime.timedelta", "hours", d.between(1, 70))
	}
}

func drawInterval(d dice) map[string]any {
	return typed("datetime.timedelta", "hours", d.between(1, 48))
}

// drawCron draws a cron text that has a tick.
func drawCron(d dice) string {
	minute := pick(d, []string{"0", "30", "15", "*/15", "*/20", "5,35", "0-10/5", "59", "*"})
	hour := pick(d, []string{"*", "*/2", "*/6", "0", "1", "2", "2,3", "1-3", "23", "0-23", "*/1", "9-17", "12", "3"})
	day, month, weekday := "*", "*", "*"
	switch d.IntN(10) {
	case 0:
		day = pick(d, []string{"1", "15", "28", "31", "L", "1,15", "*/10", "1-7"})
	case 1:
		weekday = pick(d, []string{"0", "7", "1-5", "MON", "sun", "FRI-SAT", "*/2", "1,3,5"})
	case 2:
		weekday = pick(d, []string{"5#2", "L5", "1#1", "sun#1", "L0", "6#4"})
	case 3:
		day, weekday = pick(d, []string{"1", "13", "15,30"}), pick(d, []string{"5", "MON", "0"})
	case 4:
		month = pick(d, []string{"3", "MAR,OCT", "*/3", "1-6", "11", "jan"})
	case 5:
		day, month = "29", "2"
	}
	if day == "29" && month == "2" || minute == "*" && hour != "2" {
		minute = "0"
	}
	text := strings.Join([]string{minute, hour, day, month, weekday}, " ")
	if d.chance(0.05) {
		text += " " + pick(d, []string{"0", "30", "*/20", "15"}) // seconds stand last
	}
	return text
}

// retryQuestions asks for the delay after each of the first tries of every task.
func retryQuestions(d dice, g *graph) []retryQuestion {
	var out []retryQuestion
	for _, n := range g.nodes {
		logical := fmt.Sprintf("20%02d-%02d-%02dT%02d:%02d:00Z", d.between(20, 35), d.between(1, 12), d.between(1, 28), d.IntN(24), d.IntN(60))
		for _, try := range []int{1, 2, 3, d.between(4, 12), pick(d, []int{20, 60, 400, 1100})} {
			q := retryQuestion{TaskID: n.id(), Try: try, LogicalDate: &logical}
			if d.chance(0.1) {
				q.LogicalDate = nil
			}
			out = append(out, q)
		}
	}
	return out
}
