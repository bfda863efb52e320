package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/timetable"
	"github.com/airlock-dag/airlock/sql/sqltest"
)

func date(y int, m time.Month, d, hh, mm int) time.Time {
	return time.Date(y, m, d, hh, mm, 0, 0, time.UTC)
}

// The year is 2026: all three zones change their clocks twice in it.
var (
	yearBegin = date(2026, 1, 1, 0, 0)
	yearEnd   = date(2027, 1, 1, 0, 0)
)

// yearOfDAGs are 50 DAGs with catchup true and false, in three zones. Those with
// a run every half hour run only around the days on which clocks change.
func yearOfDAGs() files {
	every := []string{
		`"0 6 * * *"`,
		`"30 2 * * *"`,
		`"0 */6 * * 1-5"`,
		`"0 0 L * *"`,
		`"30 1 * * 0#2,0#3"`,
		`{__type__: airflow.timetables.interval.CronDataIntervalTimetable, cron: "30 2 * * *", timezone: ZONE}`,
		`{__type__: airflow.timetables.trigger.MultipleCronTriggerTimetable, __args__: ["0 6 * * *", "0 18 1,15 * *"], timezone: ZONE}`,
	}
	dense := `{__type__: airflow.timetables.interval.CronDataIntervalTimetable, cron: "*/30 * * * *", timezone: ZONE}`
	out := files{}
	add := func(id, schedule, zone, more string) {
		out[id+".yml"] = fmt.Sprintf("%s:\n  schedule: %s\n  timezone: %s\n  is_paused_upon_creation: false\n%s  tasks:\n    only: {operator: empty}\n",
			id, strings.ReplaceAll(schedule, "ZONE", zone), zone, more)
	}
	zones := map[string]string{"berlin": "Europe/Berlin", "new_york": "America/New_York", "lord_howe": "Australia/Lord_Howe"}
	changes := map[string][2]string{
		"berlin": {"2026-03-29", "2026-10-25"}, "new_york": {"2026-03-08", "2026-11-01"}, "lord_howe": {"2026-10-04", "2026-04-05"},
	}
	for name, zone := range zones {
		for i, s := range every {
			for _, catchup := range []bool{true, false} {
				add(fmt.Sprintf("%s_%d_%t", name, i, catchup), s, zone, fmt.Sprintf("  start_date: 2025-12-30\n  catchup: %t\n", catchup))
			}
		}
		for i, day := range changes[name] {
			end, _ := time.Parse(time.DateOnly, day)
			add(fmt.Sprintf("%s_dense_%d", name, i), dense, zone,
				fmt.Sprintf("  start_date: %s\n  end_date: %s\n  catchup: true\n", end.AddDate(0, 0, -1).Format(time.DateOnly), end.AddDate(0, 0, 2).Format(time.DateOnly)))
		}
	}
	add("deltas", `{__type__: datetime.timedelta, hours: 12}`, "UTC", "  start_date: 2026-01-01\n  catchup: true\n")
	add("months", `{__type__: dateutil.relativedelta.relativedelta, months: 1}`, "UTC", "  start_date: 2026-01-31\n  catchup: true\n")
	return out
}

// plannersList steps the timetable on its own, with a scheduler that is never
// late: the runs up to an instant.
func plannersList(t *testing.T, d *dag.DAG, begin, end time.Time) []dag.PlannedRun {
	t.Helper()
	tt, err := timetable.ForDAG(d)
	require.NoError(t, err)
	restriction := timetable.RestrictionFor(d)
	var out []dag.PlannedRun
	now := begin
	for last := tt.Next(nil, restriction, now); last != nil && last.RunAfter.Before(end); last = tt.Next(last, restriction, now) {
		out = append(out, *last)
		if last.RunAfter.After(now) {
			now = last.RunAfter
		}
	}
	return out
}

// requirePlan compares every run in the table with the planner's list.
func (c *clockwork) requirePlan(begin, end time.Time) {
	c.t.Helper()
	for _, d := range c.sync().DAGs {
		want := plannersList(c.t, d, begin, end)
		runs := c.runs(d.ID)
		require.Equal(c.t, want, planned(runs), d.ID)
		for _, r := range runs {
			require.Equal(c.t, dag.RunSuccess, r.State, "%s %s", r.DagID, r.RunID)
			require.Equal(c.t, "scheduled__"+r.RunAfter.Format("2006-01-02T15:04:05-07:00"), r.RunID)
			require.False(c.t, r.StartDate.Before(r.RunAfter), "%s began before its time", r.RunID)
		}
	}
}

func TestAYearOfFiftyDAGs(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a year takes some seconds")
	}
	c := newClockwork(t, sqliteFile(t), yearBegin, yearOfDAGs())
	require.Len(t, c.files, 50)
	began := time.Now()
	// A restart, files read again, and clocks that jump back, in between.
	for m := time.Month(2); m <= 12; m++ {
		c.until(date(2026, m, 1, 2, 17))
		switch m % 3 {
		case 0:
			c.start(1)
		case 1:
			c.clock.Advance(-time.Hour)
		default:
			c.sync()
		}
	}
	c.until(yearEnd)
	c.requirePlan(yearBegin, yearEnd)
	t.Logf("%d passes in %s", c.passes, time.Since(began))

	// What the planner's list cannot be wrong about: one run for each local day.
	require.Len(t, c.runs("berlin_1_false"), 366, "the latest tick before the year, and 365")
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	for i, r := range c.runs("berlin_1_false") {
		local := r.LogicalDate.In(berlin)
		require.Equal(t, time.Date(2025, 12, 31+i, 0, 0, 0, 0, berlin).Format(time.DateOnly), local.Format(time.DateOnly))
		want := "02:30"
		if local.Format(time.DateOnly) == "2026-03-29" {
			want = "03:30"
		}
		require.Equal(t, want, local.Format("15:04"))
	}
	require.Len(t, c.runs("deltas"), 730)
	// Two days of half hours, one of which has 23 hours, and one of 25 hours; the
	// interval that begins with the end date counts too.
	require.Len(t, c.runs("new_york_dense_0"), (24+23+24)*2+1)
	require.Len(t, c.runs("new_york_dense_1"), (24+25+24)*2+1)
}

func TestAWeekOfFiftyDAGsOnAServer(t *testing.T) {
	t.Parallel()
	begin := date(2026, 3, 26, 0, 0)
	c := newClockwork(t, sqltest.Servers(t)[0].DSN, begin, yearOfDAGs())
	c.start(2)
	c.until(date(2026, 3, 31, 0, 0))
	c.requirePlan(begin, date(2026, 3, 31, 0, 0))
}
