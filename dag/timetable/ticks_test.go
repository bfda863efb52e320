package timetable_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/timetable"
)

func cronTable(t require.TestingT, cron, zone string, kind dag.ScheduleKind) *timetable.Timetable {
	tt, err := timetable.New(dag.Schedule{Kind: kind, Crons: []string{cron}, Text: cron}, zone)
	require.NoError(t, err)
	return tt
}

func at(t require.TestingT, text string) time.Time {
	v, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return v.UTC()
}

// wallClock lists the instants of a zone's wall times by trial: the later of
// two, and for one that does not exist the time moved by the length of the gap.
func wallClock(loc *time.Location, wall time.Time) time.Time {
	offset := func(t time.Time) time.Duration {
		_, sec := t.In(loc).Zone()
		return time.Duration(sec) * time.Second
	}
	before, after := offset(wall.Add(-36*time.Hour)), offset(wall.Add(36*time.Hour))
	var found time.Time
	for _, off := range []time.Duration{before, after} {
		if u := wall.Add(-off); offset(u) == off && u.After(found) {
			found = u
		}
	}
	if found.IsZero() {
		found = wall.Add(-before)
	}
	return found
}

// byHand lists all ticks of "minutes hours * * *" in [from, to).
func byHand(loc *time.Location, from, to time.Time, hours, minutes []int) []time.Time {
	seen := map[time.Time]bool{}
	var out []time.Time
	for day := from.AddDate(0, 0, -2); day.Before(to.AddDate(0, 0, 2)); day = day.AddDate(0, 0, 1) {
		for _, h := range hours {
			for _, m := range minutes {
				u := wallClock(loc, day.Add(time.Duration(h)*time.Hour+time.Duration(m)*time.Minute))
				if !u.Before(from) && u.Before(to) && !seen[u] {
					seen[u] = true
					out = append(out, u)
				}
			}
		}
	}
	slices.SortFunc(out, time.Time.Compare)
	return out
}

func cronList(v []int) string {
	s := make([]string, len(v))
	for i := range v {
		s[i] = fmt.Sprint(v[i])
	}
	return strings.Join(s, ",")
}

func walk(tt *timetable.Timetable, from, to time.Time) []time.Time {
	var out []time.Time
	for at := tt.CronNext(from.Add(-1)); !at.IsZero() && at.Before(to); at = tt.CronNext(at) {
		out = append(out, at)
	}
	return out
}

func walkBack(tt *timetable.Timetable, from, to time.Time) []time.Time {
	var out []time.Time
	for at := tt.CronPrev(to); !at.IsZero() && !at.Before(from); at = tt.CronPrev(at) {
		out = append(out, at)
	}
	slices.Reverse(out)
	return out
}

var zones = []string{"America/New_York", "Europe/Berlin", "Australia/Lord_Howe"}

func TestNoWallClockTickIsLostOrDoubled(t *testing.T) {
	t.Parallel()
	cases := []struct{ hours, minutes []int }{
		{[]int{2}, []int{30}},
		{[]int{1}, []int{30}},
		{[]int{0}, []int{0}},
		{[]int{2, 3}, []int{30}},
		{[]int{2}, []int{10, 35, 40}},
		{[]int{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22}, []int{0, 59}},
		{[]int{1, 2, 3}, []int{0, 15, 45}},
		{[]int{23}, []int{59}},
	}
	more := append([]string{"Africa/Cairo", "America/Havana", "Asia/Beirut", "America/Santiago", "UTC"}, zones...)
	for _, zone := range more {
		loc, err := time.LoadLocation(zone)
		require.NoError(t, err)
		for _, c := range cases {
			cron := cronList(c.minutes) + " " + cronList(c.hours) + " * * *"
			t.Run(zone+" "+cron, func(t *testing.T) {
				t.Parallel()
				tt := cronTable(t, cron, zone, dag.ScheduleCronTrigger)
				from, to := at(t, "2025-01-01T00:00:00Z"), at(t, "2027-01-01T00:00:00Z")
				want := byHand(loc, from, to, c.hours, c.minutes)
				require.Equal(t, want, walk(tt, from, to))
				require.Equal(t, want, walkBack(tt, from, to))
			})
		}
	}
}

// TestEveryHourIsElapsedTime steps as Airflow states it: the distance between
// two wall times, added to the instant.
func TestEveryHourIsElapsedTime(t *testing.T) {
	t.Parallel()
	for _, zone := range append([]string{"Asia/Beirut", "America/Havana"}, zones...) {
		for _, minutes := range [][]int{{0}, {45}, {0, 15, 30, 45}, {7, 52}} {
			t.Run(fmt.Sprint(zone, minutes), func(t *testing.T) {
				t.Parallel()
				loc, err := time.LoadLocation(zone)
				require.NoError(t, err)
				from, to := at(t, "2025-01-01T12:00:00Z"), at(t, "2027-01-01T12:00:00Z")
				tt := cronTable(t, cronList(minutes)+" * * * *", zone, dag.ScheduleCronTrigger)
				got := walk(tt, from, to)
				require.Greater(t, len(got), 2*365*24*len(minutes)-10)
				for i := 1; i < len(got); i++ {
					local := got[i-1].In(loc)
					step := 1
					for !slices.Contains(minutes, (local.Minute()+step)%60) {
						step++
					}
					require.Equal(t, got[i-1].Add(time.Duration(step)*time.Minute), got[i])
				}
				require.Equal(t, got, walkBack(tt, got[0], to))
			})
		}
	}
}

func TestAnyInstantFindsTheSameTicks(t *testing.T) {
	t.Parallel()
	crons := []string{"30 2 * * *", "0 * * * *", "*/20 * * * *", "45 * * * *", "15 1-3 * * *", "0 0 * * 1", "*/15 * * * 1-5", "0 */2 1 * *", "0 12 L * *", "0 6 * * 5#2", "0 0 29 2 *", "10,35 2 * * *"}
	rapid.Check(t, func(t *rapid.T) {
		zone := rapid.SampledFrom(zones).Draw(t, "zone")
		cron := rapid.SampledFrom(crons).Draw(t, "cron")
		after := time.Unix(rapid.Int64Range(1.7e9, 1.9e9).Draw(t, "s"), 0).UTC()
		tt := cronTable(t, cron, zone, dag.ScheduleCronTrigger)
		next := tt.CronNext(after)
		require.True(t, next.After(after))
		prev := tt.CronPrev(next)
		require.False(t, prev.IsZero())
		require.True(t, prev.Before(next))
		back := tt.CronNext(prev)
		require.Equal(t, next, back, "the tick after the tick before is the tick itself")
	})
}

func TestDayRestrictedHoursFollowTheWallClock(t *testing.T) {
	t.Parallel()
	// Friday 6 March to Monday 9 March 2026 in New York, with the change on
	// Sunday: Monday begins at midnight, not an hour late.
	tt := cronTable(t, "*/15 * * * 1-5", "America/New_York", dag.ScheduleCronTrigger)
	require.Equal(t, at(t, "2026-03-09T04:00:00Z"), tt.CronNext(at(t, "2026-03-07T04:45:00Z")))
}

// In New York the clock goes back from 02:00 to 01:00 at 06:00 UTC on 1 November
// 2026, so that 01:30 is shown at 05:30 and at 06:30 UTC and the text's tick is
// the second.
func TestATimeThatIsShownTwiceCountsAsShownTheSecondTime(t *testing.T) {
	t.Parallel()
	tt := cronTable(t, "30 1 * * *", "America/New_York", dag.ScheduleCronTrigger)
	second, dayAfter := at(t, "2026-11-01T06:30:00Z"), at(t, "2026-11-02T06:30:00Z")
	for _, c := range []struct {
		after string
		next  time.Time
	}{
		{"2026-10-31T05:30:00Z", second}, // the tick before
		{"2026-11-01T04:59:00Z", second},
		{"2026-11-01T05:29:00Z", second},   // 01:29 for the first time
		{"2026-11-01T05:30:00Z", dayAfter}, // 01:30 for the first time
		{"2026-11-01T05:59:00Z", dayAfter},
		{"2026-11-01T06:29:00Z", second}, // 01:29 for the second time
		{"2026-11-01T06:30:00Z", dayAfter},
	} {
		require.Equal(t, c.next, tt.CronNext(at(t, c.after)), c.after)
		start := at(t, c.after)
		want := c.next
		if start.Equal(second) || c.after == "2026-10-31T05:30:00Z" {
			want = start // a tick is its own beginning
		}
		got := tt.Next(nil, timetable.Restriction{Earliest: &start, Catchup: true}, at(t, "2026-12-01T00:00:00Z"))
		require.Equal(t, want, got.RunAfter, "a start at %s", c.after)
	}
}

// The other text's tick at the first 01:45 does not hide the tick at the second 01:30.
func TestSeveralTextsLoseNoTickWhenTheClockGoesBack(t *testing.T) {
	t.Parallel()
	tt, err := timetable.New(dag.Schedule{Kind: dag.ScheduleCronTrigger, Crons: []string{"45 * * * *", "30 1 * * *"}}, "America/New_York")
	require.NoError(t, err)
	require.Equal(t, []time.Time{
		at(t, "2026-11-01T04:45:00Z"), at(t, "2026-11-01T05:45:00Z"), at(t, "2026-11-01T06:30:00Z"), at(t, "2026-11-01T06:45:00Z"), at(t, "2026-11-01T07:45:00Z"),
	}, walk(tt, at(t, "2026-11-01T04:30:00Z"), at(t, "2026-11-01T08:00:00Z")))
}

func TestSpecialDays(t *testing.T) {
	t.Parallel()
	cases := []struct{ cron, after, next string }{
		{"0 0 L * *", "2026-02-01T00:00:00Z", "2026-02-28T00:00:00Z"},
		{"0 0 L * *", "2028-02-28T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"0 0 1,L * *", "2026-04-30T00:00:00Z", "2026-05-01T00:00:00Z"},
		{"0 0 30-L 2,3 *", "2026-01-01T00:00:00Z", "2026-03-30T00:00:00Z"},
		{"0 0 * * L5", "2026-11-01T00:00:00Z", "2026-11-27T00:00:00Z"},
		{"0 0 * * 5#2", "2026-11-01T00:00:00Z", "2026-11-13T00:00:00Z"},
		{"0 0 * * MON#1,MON#3", "2026-11-02T00:00:00Z", "2026-11-16T00:00:00Z"},
		{"0 0 * * 7", "2026-11-30T00:00:00Z", "2026-12-06T00:00:00Z"},
		{"0 0 * * sun", "2026-11-30T00:00:00Z", "2026-12-06T00:00:00Z"},
		{"0 0 * * FRI-SUN", "2026-12-05T00:00:00Z", "2026-12-06T00:00:00Z"},
		{"0 0 * * 5-7/2", "2026-11-30T00:00:00Z", "2026-12-04T00:00:00Z"},
		{"0 0 * JAN-MAR ?", "2026-11-30T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"0 0 29 2 *", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"},
		{"30 5 * * * */20", "2026-11-30T05:30:20Z", "2026-11-30T05:30:40Z"},
		{"5/20 9 * * *", "2026-11-30T09:25:00Z", "2026-11-30T09:45:00Z"},
		{"0 0 13 * FRI", "2026-11-01T00:00:00Z", "2026-11-06T00:00:00Z"},
		{"0 0 1-31 * FRI", "2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z"}, // no star anywhere: either may match
	}
	for _, c := range cases {
		tt := cronTable(t, c.cron, "UTC", dag.ScheduleCronTrigger)
		require.Equal(t, at(t, c.next), tt.CronNext(at(t, c.after)), c.cron)
	}
}

// The library's zone bounds of leap years after 2037 end on 30 December.
func TestTicksGoOnAfterTheZoneTables(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Antarctica/Troll"} {
		loc, err := time.LoadLocation(zone)
		require.NoError(t, err)
		table, err := timetable.New(dag.Schedule{Kind: dag.ScheduleCronTrigger, Crons: []string{"0 12 * * *"}}, zone)
		require.NoError(t, err)
		at := time.Date(2040, 12, 27, 12, 0, 0, 0, loc)
		for range 1500 { // over the ends of 2040 and 2044
			y, m, d := at.In(loc).Date()
			want := time.Date(y, m, d+1, 12, 0, 0, 0, loc)
			got := table.CronNext(at)
			require.True(t, got.Equal(want), "%s: after %s comes %s, not %s", zone, at, want, got)
			require.True(t, table.CronPrev(got).Equal(at), "%s: before %s comes %s", zone, got, at)
			at = got
		}
	}
}
