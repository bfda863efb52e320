package timetable_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/timetable"
)

// What croniter 7 takes beside the plain fields. The days are counted on a
// calendar: 1 January 2026 is a Thursday, and 1 February and 1 March are Sundays.
func TestCroniterExtensions(t *testing.T) {
	t.Parallel()
	from := time.Date(2025, 12, 31, 23, 59, 59, 0, time.UTC)
	for text, want := range map[string][]string{
		// ranges that go on at the beginning of the field, with steps across it
		"0 22-2 * * *":      {"2026-01-01T00:00", "2026-01-01T01:00", "2026-01-01T02:00", "2026-01-01T22:00"},
		"0 22-4/3 * * *":    {"2026-01-01T02:00", "2026-01-01T22:00", "2026-01-02T02:00"}, // it counts on from 23, the last of the day
		"0 0 * * fri-mon":   {"2026-01-02T00:00", "2026-01-03T00:00", "2026-01-04T00:00", "2026-01-05T00:00", "2026-01-09T00:00"},
		"0 0 * * 5-7":       {"2026-01-02T00:00", "2026-01-03T00:00", "2026-01-04T00:00", "2026-01-09T00:00"},
		"0 0 1 nov-feb *":   {"2026-01-01T00:00", "2026-02-01T00:00", "2026-11-01T00:00", "2026-12-01T00:00"},
		"0 0 30-2 * *":      {"2026-01-01T00:00", "2026-01-02T00:00", "2026-01-30T00:00", "2026-01-31T00:00", "2026-02-01T00:00"},
		"0 0 * * sun-sun":   {"2026-01-01T00:00", "2026-01-02T00:00"}, // once around
		"0 9-9/12 * * *":    {"2026-01-01T00:00", "2026-01-01T12:00", "2026-01-02T00:00"},
		"0 0 1 12/3 *":      {"2026-12-01T00:00", "2027-12-01T00:00"}, // from December on
		"59/15 0 1 * *":     {"2026-01-01T00:59", "2026-02-01T00:59"},
		"0 0 1W * *":        {"2026-01-01T00:00", "2026-02-02T00:00", "2026-03-02T00:00"},
		"0 0 w31 * *":       {"2026-01-30T00:00", "2026-02-27T00:00", "2026-03-31T00:00"}, // 28 February is a Saturday
		"0 0 15W * mon":     {"2026-01-15T00:00", "2026-02-16T00:00"},                     // the Monday counts for nothing
		"0 0 15W * thu#3":   {"2026-01-15T00:00", "2026-10-15T00:00"},                     // both
		"0 0 13 * fri#2":    {"2026-01-09T00:00", "2026-02-13T00:00"},                     // the 13th counts for nothing
		"0 0 * * mon-wed#1": {"2026-01-05T00:00", "2026-01-06T00:00", "2026-01-07T00:00", "2026-02-02T00:00"},
		"0 0 ? * 1":         {"2026-01-05T00:00", "2026-01-12T00:00"},
		"0 0 5 * ?":         {"2026-01-05T00:00", "2026-02-05T00:00"},
		// a list of all days is no star, unless the other field has one
		"0 0 1-31 * 1":                 {"2026-01-01T00:00", "2026-01-02T00:00"},
		"0 0 1 * 0-6":                  {"2026-01-01T00:00", "2026-01-02T00:00"},
		"0 0 1 * */1":                  {"2026-01-01T00:00", "2026-01-02T00:00"},
		"0 0 */1 * */3":                {"2026-01-03T00:00", "2026-01-04T00:00", "2026-01-07T00:00"}, // Saturday, Sunday, Wednesday
		"0 0 */9 * 0-6":                {"2026-01-01T00:00", "2026-01-10T00:00", "2026-01-19T00:00"},
		"0 0 1 1 * 0 2027-2031/2,2040": {"2027-01-01T00:00", "2029-01-01T00:00", "2031-01-01T00:00", "2040-01-01T00:00", ""},
		"0 12 * * * 0 *":               {"2026-01-01T12:00"},
		"0 0 * * * 0 2025":             {""},
	} {
		schedule, err := timetable.FromText(text, false)
		require.NoError(t, err, text)
		tt, err := timetable.New(schedule, "UTC")
		require.NoError(t, err, text)
		at := from
		for _, w := range want {
			if at = tt.CronNext(at); w == "" {
				require.True(t, at.IsZero(), "%s: %s", text, at)
				break
			}
			require.Equal(t, w, at.Format("2006-01-02T15:04"), text)
			back := tt.CronPrev(at.Add(time.Second))
			require.Equal(t, at, back, text)
		}
	}
}

// A text whose years are over makes no run before the start date.
func TestAfterTheLastYear(t *testing.T) {
	t.Parallel()
	start, now := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	for _, intervals := range []bool{false, true} {
		schedule, err := timetable.FromText("0 0 * * * 0 2020-2025", intervals)
		require.NoError(t, err)
		tt, err := timetable.New(schedule, "UTC")
		require.NoError(t, err)
		for _, catchup := range []bool{false, true} {
			r := timetable.Restriction{Earliest: &start, Catchup: catchup}
			require.Nil(t, tt.Next(nil, r, now))
			last := time.Date(2025, 12, 31, 0, 0, 0, 0, time.UTC)
			require.Nil(t, tt.Next(&dag.PlannedRun{LogicalDate: last, DataIntervalStart: last, DataIntervalEnd: last, RunAfter: last}, r, now))
		}
		over := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
		require.Nil(t, tt.Next(&dag.PlannedRun{DataIntervalStart: now, DataIntervalEnd: now}, timetable.Restriction{Earliest: &over}, now))
		from, to := tt.ManualInterval(time.Date(2019, 5, 1, 0, 0, 0, 0, time.UTC))
		require.Equal(t, from, to)
	}
}
