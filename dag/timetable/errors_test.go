package timetable_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/timetable"
)

func TestBadTexts(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"":                    "null",
		"TZ=0":                "timezone",
		"CRON_TZ=Zone":        "timezone",
		"TZ=UTC 0 0 * * *":    "timezone",
		"0 0 31 2 *":          "never fires",
		"0 0 30 2 *":          "never fires",
		"0 0 31 4,6,9,11 *":   "never fires",
		"61 * * * *":          "field 1 (minute)",
		"* 24 * * *":          "field 2 (hour)",
		"* * 0 * *":           "field 3 (day-of-month)",
		"* * * 13 *":          "field 4 (month)",
		"* * * * 8":           "field 5 (day-of-week)",
		"* * * * * 60":        "field 6 (second)",
		"* * * *":             "found 4 fields",
		"* * * * * * * *":     "found 8 fields",
		"0 0 * * * 0 1969":    "field 7 (year)",
		"0 0 29 2 * 0 2027":   "never fires",
		"0 0 1 * mon#3":       "never fires",
		"0 0 15W * sat":       "never fires",
		"0 0 15W,20 * *":      "stands alone",
		"0 0 32W * *":         "out of range",
		"0 0 LW * *":          "field 3",
		"0 0 * * 1-3#1":       "range of names",
		"*/0 * * * *":         "step of 0",
		"1,,2 * * * *":        "empty",
		", * * * *":           "empty",
		"*-5 * * * *":         "allowed are",
		"+5 * * * *":          "is not a number",
		"5- * * * *":          "is not a number",
		"1-2-3 * * * *":       "is not a number",
		"1/2/3 * * * *":       "is not a number",
		"* ? * * *":           "is not a number",
		"0 0 ?,1 * *":         "field 3",
		"* * * * 5#6":         "1 to 5",
		"* * * * 5#":          "1 to 5",
		"* * * * MON,5#1":     "mixed",
		"* * * * L9":          "out of range",
		"H * * * *":           "allowed are 0-59",
		"99999999999 * * * *": "is not a number",
		"@dayly":              "@daily",
		"@Quarterly":          "@quarterly",
		"@every 5m":           "datetime.timedelta",
		"@reboot":             "@hourly",
	}
	for text, want := range cases {
		_, err := timetable.FromText(text, false)
		require.ErrorContains(t, err, want, text)
		require.Equal(t, dag.ErrInvalid, dag.CodeOf(err), text)
	}
}

func TestTexts(t *testing.T) {
	t.Parallel()
	cases := map[string]dag.Schedule{
		" none ":      {Kind: dag.ScheduleNone, Text: "none"},
		"None":        {Kind: dag.ScheduleNone, Text: "None"},
		"@once":       {Kind: dag.ScheduleOnce, Text: "@once"},
		"@continuous": {Kind: dag.ScheduleContinuous, Text: "@continuous"},
		"@daily":      {Kind: dag.ScheduleCronTrigger, Crons: []string{"0 0 * * *"}, Text: "@daily"},
		"@Weekly":     {Kind: dag.ScheduleCronTrigger, Crons: []string{"0 0 * * 0"}, Text: "@Weekly"},
		"0 0 29 2 *":  {Kind: dag.ScheduleCronTrigger, Crons: []string{"0 0 29 2 *"}, Text: "0 0 29 2 *"},
	}
	for text, want := range cases {
		got, err := timetable.FromText(text, false)
		require.NoError(t, err, text)
		require.Equal(t, want, got)
		_, err = timetable.New(got, "")
		require.NoError(t, err, text)
	}
	got, err := timetable.FromText("@daily", true)
	require.NoError(t, err)
	require.Equal(t, dag.ScheduleCronInterval, got.Kind)
}

func TestBadSchedules(t *testing.T) {
	t.Parallel()
	daily := []string{"0 0 * * *"}
	cases := map[string]struct {
		s    dag.Schedule
		zone string
	}{
		"no time zone":            {dag.Schedule{Kind: dag.ScheduleCronTrigger, Crons: daily}, "Mars/Olympus"},
		`time zone "Local"`:       {dag.Schedule{Kind: dag.ScheduleNone}, "Local"},
		`zone "../etc/passwd"`:    {dag.Schedule{Kind: dag.ScheduleNone, Timezone: "../etc/passwd"}, "UTC"},
		"no cron text":            {dag.Schedule{Kind: dag.ScheduleCronTrigger}, ""},
		"exactly one":             {dag.Schedule{Kind: dag.ScheduleCronInterval, Crons: []string{"0 0 * * *", "0 1 * * *"}}, ""},
		"is negative":             {dag.Schedule{Kind: dag.ScheduleCronTrigger, Crons: daily, Interval: -1}, ""},
		"period 0s":               {dag.Schedule{Kind: dag.ScheduleDelta}, ""},
		"period -1h0m0s":          {dag.Schedule{Kind: dag.ScheduleDeltaInterval, Delta: -time.Hour}, ""},
		"period 1 months and -70": {dag.Schedule{Kind: dag.ScheduleDelta, Months: 1, Delta: -700 * time.Hour}, ""},
		"period 9999999 months":   {dag.Schedule{Kind: dag.ScheduleDelta, Months: 9999999}, ""},
		`kind "asset"`:            {dag.Schedule{Kind: "asset"}, ""},
	}
	for want, c := range cases {
		_, err := timetable.New(c.s, c.zone)
		require.ErrorContains(t, err, want)
		require.Equal(t, dag.ErrInvalid, dag.CodeOf(err))
	}
	_, err := timetable.ForDAG(&dag.DAG{Schedule: dag.Schedule{Kind: dag.ScheduleContinuous}, MaxActiveRuns: 16})
	require.ErrorContains(t, err, "max_active_runs: 1")
	_, err = timetable.ForDAG(&dag.DAG{Schedule: dag.Schedule{Kind: dag.ScheduleContinuous}, MaxActiveRuns: 1})
	require.NoError(t, err)
}

func FuzzCron(f *testing.F) {
	for _, s := range []string{"0 0 * * *", "TZ=0", "*/5 1-3 L * 5#2", "0 0 31 2 *", "5/15 * * JAN-DEC SUN", "@daily", "* * * * * */7", "0 22-2/3 15W NOV-FEB ?", "0 0 ? * MON-WED#1 0 2020-2030/2"} {
		f.Add(s)
	}
	now := time.Date(2026, 3, 29, 0, 30, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := timetable.FromText(text, true)
		if err != nil || len(s.Crons) == 0 {
			return
		}
		tt, err := timetable.New(s, "Europe/Berlin")
		require.NoError(t, err, "a text that parses makes a timetable")
		next := tt.CronNext(now)
		if len(strings.Fields(text)) == 7 && next.IsZero() {
			return // its years are over
		}
		require.True(t, next.After(now), "a text that fires has a next tick")
		require.True(t, tt.CronPrev(next).Before(next))
	})
}
