package timetable_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/timetable"
)

func ptr[T any](v T) *T { return &v }

// drive makes every run that is due up to each of the given instants.
func drive(tt *timetable.Timetable, r timetable.Restriction, last *dag.PlannedRun, nows ...time.Time) []dag.PlannedRun {
	var made []dag.PlannedRun
	for _, now := range nows {
		for next := tt.Next(last, r, now); next != nil && !next.RunAfter.After(now); next = tt.Next(last, r, now) {
			made = append(made, *next)
			last = next
		}
	}
	return made
}

func TestDownForThreeDays(t *testing.T) {
	t.Parallel()
	start := at(t, "2026-06-01T00:00:00Z")
	down := at(t, "2026-06-10T00:30:00Z")
	up := down.Add(72 * time.Hour)
	for _, kind := range []dag.ScheduleKind{dag.ScheduleCronTrigger, dag.ScheduleCronInterval} {
		tt := cronTable(t, "0 * * * *", "UTC", kind)
		before := drive(tt, timetable.Restriction{Earliest: &start, Catchup: true}, nil, down)
		last := &before[len(before)-1]

		missed := drive(tt, timetable.Restriction{Earliest: &start, Catchup: true}, last, up)
		require.Len(t, missed, 72, kind)
		require.Equal(t, last.RunAfter.Add(time.Hour), missed[0].RunAfter)
		for i := 1; i < len(missed); i++ {
			require.Equal(t, missed[i-1].DataIntervalEnd.Add(time.Hour), missed[i].DataIntervalEnd)
		}

		one := drive(tt, timetable.Restriction{Earliest: &start}, last, up)
		require.Len(t, one, 1, kind)
		require.Equal(t, up.Truncate(time.Hour), one[0].RunAfter, "the latest complete interval")
		next := tt.Next(&one[0], timetable.Restriction{Earliest: &start}, up)
		require.Equal(t, up.Truncate(time.Hour).Add(time.Hour), next.RunAfter, "and on as usual")
	}
	tt := cronTable(t, "* * * * *", "UTC", dag.ScheduleCronTrigger)
	last := tt.Next(nil, timetable.Restriction{Earliest: &down}, down)
	require.Len(t, drive(tt, timetable.Restriction{Earliest: &start, Catchup: true}, last, down.Add(2000*time.Minute)), 2000)
}

func TestDailyAtHalfPastTwoInBerlin(t *testing.T) {
	t.Parallel()
	r := timetable.Restriction{Earliest: ptr(at(t, "2026-03-27T00:00:00+01:00")), Catchup: true}
	tt := cronTable(t, "30 2 * * *", "Europe/Berlin", dag.ScheduleCronTrigger)
	var logical []string
	runs := drive(tt, r, nil, at(t, "2026-12-01T00:00:00Z"))
	for _, run := range runs {
		day := run.LogicalDate.Format(time.RFC3339)
		switch day[5:10] {
		case "03-28", "03-29", "03-30", "10-24", "10-25", "10-26":
			logical = append(logical, day)
		}
	}
	require.Equal(t, []string{
		"2026-03-28T01:30:00Z", "2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z",
		"2026-10-24T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z",
	}, logical)
	require.Len(t, runs, 5+30+31+30+31+31+30+31+30, "one for each local date from 27 March to 30 November")

	tt = cronTable(t, "30 2 * * *", "Europe/Berlin", dag.ScheduleCronInterval)
	intervals := drive(tt, r, nil, at(t, "2026-12-01T00:00:00Z"))
	for i := 1; i < len(intervals); i++ {
		require.Equal(t, intervals[i-1].DataIntervalEnd, intervals[i].DataIntervalStart, "intervals touch")
		require.True(t, intervals[i].DataIntervalStart.Before(intervals[i].DataIntervalEnd), "none is empty")
	}
}

// TestStepByStepEqualsCatchup plans with a clock that never stops and once more
// afterwards; both must make the same runs.
func TestStepByStepEqualsCatchup(t *testing.T) {
	t.Parallel()
	for _, zone := range zones {
		for _, kind := range []dag.ScheduleKind{dag.ScheduleCronTrigger, dag.ScheduleCronInterval} {
			for _, cron := range []string{"30 2 * * *", "0 * * * *", "*/30 1-3 * * *"} {
				tt := cronTable(t, cron, zone, kind)
				from, to := at(t, "2026-01-01T00:00:00Z"), at(t, "2027-01-01T00:00:00Z")
				r := timetable.Restriction{Earliest: &from, Catchup: true}
				var minutes []time.Time
				for now := from; !now.After(to); now = now.Add(30 * time.Minute) {
					minutes = append(minutes, now)
				}
				all := drive(tt, r, nil, to)
				require.Equal(t, all, drive(tt, r, nil, minutes...))
				r.Catchup = false
				live := drive(tt, r, nil, minutes...)
				if kind == dag.ScheduleCronTrigger || live[0].LogicalDate.Equal(all[0].LogicalDate) {
					require.Equal(t, all[len(all)-1], live[len(live)-1])
				}
				require.InDelta(t, len(all), len(live), 1, "never stopped, nothing missed")
			}
		}
	}
}

func TestOtherKinds(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-06-15T10:17:00Z")
	start := at(t, "2026-06-10T00:00:00Z")
	make := func(s dag.Schedule) *timetable.Timetable {
		tt, err := timetable.New(s, "UTC")
		require.NoError(t, err)
		return tt
	}
	run := func(start, end time.Time) *dag.PlannedRun {
		return &dag.PlannedRun{LogicalDate: start, DataIntervalStart: start, DataIntervalEnd: end, RunAfter: end}
	}
	from := timetable.Restriction{Earliest: &start}

	require.Nil(t, make(dag.Schedule{Kind: dag.ScheduleNone}).Next(nil, from, now))

	once := make(dag.Schedule{Kind: dag.ScheduleOnce})
	require.Equal(t, run(start, start), once.Next(nil, from, now))
	require.Equal(t, run(now, now), once.Next(nil, timetable.Restriction{}, now))
	require.Nil(t, once.Next(run(start, start), from, now))
	require.Nil(t, once.Next(nil, timetable.Restriction{Earliest: &now, Latest: &start}, now))

	continuous := make(dag.Schedule{Kind: dag.ScheduleContinuous})
	first := continuous.Next(nil, from, now)
	require.Equal(t, run(start, now), first)
	later := now.Add(time.Minute)
	require.Equal(t, run(now, later), continuous.Next(first, from, later))
	future := timetable.Restriction{Earliest: &later}
	first = continuous.Next(nil, future, now)
	require.Equal(t, run(later, later), first)
	require.NotEqual(t, first.LogicalDate, continuous.Next(first, future, later).LogicalDate, "a logical date is used once")

	month := make(dag.Schedule{Kind: dag.ScheduleDelta, Months: 1})
	require.Equal(t, at(t, "2026-02-28T06:00:00Z"),
		month.Next(run(at(t, "2026-01-31T06:00:00Z"), at(t, "2026-01-31T06:00:00Z")), timetable.Restriction{Catchup: true}, now).LogicalDate)

	span := make(dag.Schedule{Kind: dag.ScheduleCronTrigger, Crons: []string{"0 6 * * *"}, Interval: 24 * time.Hour})
	require.Equal(t, run(at(t, "2026-06-14T06:00:00Z"), at(t, "2026-06-15T06:00:00Z")), span.Next(nil, from, now))
	s, e := span.ManualInterval(now)
	require.Equal(t, now.Add(-24*time.Hour), s)
	require.Equal(t, now, e)
	delta := make(dag.Schedule{Kind: dag.ScheduleDelta, Delta: 6 * time.Hour, Interval: 2 * time.Hour})
	s, e = delta.ManualInterval(now)
	require.Equal(t, now.Add(-2*time.Hour), s)
	require.Equal(t, now, e)

	several := make(dag.Schedule{Kind: dag.ScheduleCronTrigger, Crons: []string{"0 6 * * *", "30 9 * * *"}})
	require.Equal(t, at(t, "2026-06-15T09:30:00Z"), several.Next(nil, from, now).RunAfter)
	require.Equal(t, at(t, "2026-06-10T06:00:00Z"), several.Next(nil, timetable.Restriction{Earliest: &start, Catchup: true}, now).RunAfter)
}

func TestFirstRunWithoutAStart(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-06-15T10:17:00Z")
	cases := map[string]struct {
		rule *time.Duration
		want string
	}{
		"false waits: 17 minutes are more than 6":   {nil, "2026-06-15T11:00:00Z"},
		"true takes the tick that passed":           {ptr(time.Duration(0)), "2026-06-15T10:00:00Z"},
		"a span takes it when it is no older":       {ptr(20 * time.Minute), "2026-06-15T10:00:00Z"},
		"a span leaves it when it is older":         {ptr(10 * time.Minute), "2026-06-15T11:00:00Z"},
		"a span of the same age still takes it":     {ptr(17 * time.Minute), "2026-06-15T10:00:00Z"},
		"a span that is one second short leaves it": {ptr(17*time.Minute - time.Second), "2026-06-15T11:00:00Z"},
	}
	for name, c := range cases {
		tt, err := timetable.New(dag.Schedule{Kind: dag.ScheduleCronTrigger, Crons: []string{"0 * * * *"}, RunImmediately: c.rule}, "")
		require.NoError(t, err)
		require.Equal(t, at(t, c.want), tt.Next(nil, timetable.Restriction{}, now).RunAfter, name)
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	day := func(d int) time.Time { return time.Date(2026, 6, d, 12, 0, 0, 0, time.UTC) }
	tt, err := timetable.New(dag.Schedule{Kind: dag.ScheduleEvents, Events: []time.Time{day(20), day(10), day(12), day(12)}}, "")
	require.NoError(t, err)
	start := day(1)
	now := day(15)
	days := func(runs []dag.PlannedRun) (out []int) {
		for _, r := range runs {
			out = append(out, r.LogicalDate.Day())
		}
		return out
	}
	require.Equal(t, []int{10, 12}, days(drive(tt, timetable.Restriction{Earliest: &start, Catchup: true}, nil, now)))
	require.Equal(t, []int{12, 20}, days(drive(tt, timetable.Restriction{Earliest: &start}, nil, now, day(21))))
	require.Equal(t, []int{20}, days(drive(tt, timetable.Restriction{}, nil, now, day(20).Add(time.Minute))))
	require.Nil(t, tt.Next(&dag.PlannedRun{DataIntervalEnd: day(20)}, timetable.Restriction{}, day(21)))
	require.Nil(t, tt.Next(nil, timetable.Restriction{Earliest: &start, Latest: &start}, now))
}

func TestRestrictionForDAG(t *testing.T) {
	t.Parallel()
	day := func(d int) *time.Time { return ptr(time.Date(2026, 6, d, 0, 0, 0, 0, time.UTC)) }
	d := &dag.DAG{StartDate: day(5), EndDate: day(20), Catchup: true, Tasks: []dag.Task{
		{ID: "a", StartDate: day(3), EndDate: day(25)}, {ID: "b"},
	}}
	require.Equal(t, timetable.Restriction{Earliest: day(3), Latest: day(20), Catchup: true}, timetable.RestrictionFor(d))
	d.Tasks[1].EndDate = day(22)
	require.Equal(t, day(25), timetable.RestrictionFor(d).Latest, "every task ends: the largest counts")
	require.Equal(t, timetable.Restriction{}, timetable.RestrictionFor(&dag.DAG{}))
}

type fixedIDs string

func (f fixedIDs) NewID() string { return string(f) }

func TestRunIDs(t *testing.T) {
	t.Parallel()
	logical := time.Date(2026, 6, 10, 0, 0, 0, 0, time.UTC)
	p := dag.PlannedRun{LogicalDate: logical, DataIntervalStart: logical, RunAfter: logical.AddDate(0, 0, 1)}
	require.Equal(t, "scheduled__2026-06-11T00:00:00+00:00", timetable.RunID(dag.RunScheduled, p))
	require.Equal(t, "backfill__2026-06-10T00:00:00+00:00", timetable.RunID(dag.RunBackfill, p))
	asked := time.Date(2026, 6, 11, 12, 30, 1, 250_000_000, time.FixedZone("CEST", 7200))
	ids := fixedIDs("0123456789abcdef0123456789abcdef")
	require.Equal(t, "manual__2026-06-11T10:30:01.250000+00:00", timetable.ManualRunID(&logical, asked, ids))
	require.Equal(t, "manual__2026-06-11T10:30:01.250000+00:00_01234567", timetable.ManualRunID(nil, asked, ids))
}

func BenchmarkPlan10000DAGs(b *testing.B) {
	crons := []string{"0 * * * *", "30 2 * * *", "*/5 * * * *", "0 0 1 * *", "0 6 * * MON-FRI"}
	tables := make([]*timetable.Timetable, 10_000)
	for i := range tables {
		tables[i] = cronTable(b, crons[i%len(crons)], zones[i%len(zones)], dag.ScheduleKind([]dag.ScheduleKind{dag.ScheduleCronTrigger, dag.ScheduleCronInterval}[i%2]))
	}
	now := time.Date(2026, 6, 15, 10, 17, 0, 0, time.UTC)
	for b.Loop() {
		for _, tt := range tables {
			tt.Next(nil, timetable.Restriction{}, now)
		}
	}
}

// TestMonthsWithoutCatchupAreCountedFromTheStart: 31 January, 28 February and so
// on, as the runs of a DAG that catches up would have been.
func TestMonthsWithoutCatchupAreCountedFromTheStart(t *testing.T) {
	t.Parallel()
	table, err := timetable.New(dag.Schedule{Kind: dag.ScheduleDeltaInterval, Months: 1}, "UTC")
	require.NoError(t, err)
	span := func(start, end time.Time) *dag.PlannedRun {
		return &dag.PlannedRun{LogicalDate: start, DataIntervalStart: start, DataIntervalEnd: end, RunAfter: end}
	}
	start, now := at(t, "2026-01-31T06:00:00Z"), at(t, "2026-06-15T10:00:00Z")
	require.Equal(t, span(at(t, "2026-04-28T06:00:00Z"), at(t, "2026-05-28T06:00:00Z")), table.Next(nil, timetable.Restriction{Earliest: &start}, now))
	require.Equal(t, span(at(t, "2026-05-15T10:00:00Z"), now), table.Next(nil, timetable.Restriction{}, now))
	later := now.Add(time.Hour)
	require.Equal(t, span(later, at(t, "2026-07-15T11:00:00Z")), table.Next(nil, timetable.Restriction{Earliest: &later}, now))
}
