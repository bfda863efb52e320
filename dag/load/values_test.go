package load_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/load"
)

func TestDurations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"90": 90 * time.Second, "0": 0, "1.5": 1500 * time.Millisecond, `"300"`: 5 * time.Minute, "1e3": 1000 * time.Second, "1_000": 1000 * time.Second,
		"90s": 90 * time.Second, `"15m"`: 15 * time.Minute, "2h30m": 150 * time.Minute, "1d": 24 * time.Hour, "1w2d": 9 * 24 * time.Hour,
		"500ms": 500 * time.Millisecond, "1h 30m": 90 * time.Minute, "2 days": 48 * time.Hour, "1 hour 5 minutes": 65 * time.Minute, "1.5h": 90 * time.Minute,
		"1:30":  90 * time.Second, // YAML 1.1 reads a number in base 60
		"PT15M": 15 * time.Minute, "P1DT2H": 26 * time.Hour, "P2W": 14 * 24 * time.Hour, "PT0.5S": 500 * time.Millisecond,
		"{__type__: datetime.timedelta, minutes: 15}":               15 * time.Minute,
		"{__type__: datetime.timedelta, hours: 1, seconds: 0.5}":    time.Hour + 500*time.Millisecond,
		"{__type__: datetime.timedelta, __args__: [1, 30]}":         24*time.Hour + 30*time.Second,
		"{__type__: datetime.timedelta, __args__: [], weeks: 1}":    7 * 24 * time.Hour,
		"{__type__: datetime.timedelta, days: 1, hours: -1}":        23 * time.Hour,
		"{__type__: dateutil.relativedelta.relativedelta, days: 2}": 48 * time.Hour,
		"{__type__: pendulum.duration, minutes: 2}":                 2 * time.Minute,
	} {
		d := one(t, "d:\n  dagrun_timeout: "+text+"\n"+small)
		require.Equal(t, want, d.DagrunTimeout, text)
	}
	for _, text := range []string{
		"h", `"5 parsecs"`, "5x", `""`, `"-"`, "PT", "P", "P1Y", "1h-", "[1]", "true", ".inf", "1..5h", "{minutes: 5}", "{__type__: datetime.date, days: 1}",
		"{__type__: dateutil.relativedelta.relativedelta, months: 2}", "{__type__: datetime.timedelta, months: 1}", "{__type__: datetime.timedelta, days: many}",
		"{__type__: dateutil.relativedelta.relativedelta, months: 1.5}",
	} {
		res := loadText(t, "d:\n  dagrun_timeout: "+text+"\n"+small)
		require.True(t, res.HasErrors(), text)
		require.Empty(t, res.DAGs, text)
	}
}

func TestDates(t *testing.T) {
	t.Parallel()
	tests := []struct{ zone, text, want string }{
		{"UTC", "2026-01-31", "2026-01-31T00:00:00Z"},
		{"UTC", `"2026-01-31"`, "2026-01-31T00:00:00Z"},
		{"UTC", "20260131", "2026-01-31T00:00:00Z"},
		{"UTC", "2026-01-31 06:30", "2026-01-31T06:30:00Z"},
		{"UTC", "2026-01-31T06:30:15.1234567", "2026-01-31T06:30:15.123456Z"},
		{"UTC", "2026-01-31T06:30:15Z", "2026-01-31T06:30:15Z"},
		{"Europe/Berlin", "2026-01-31", "2026-01-30T23:00:00Z"},
		{"Europe/Berlin", "2026-07-01T12:00:00+02:00", "2026-07-01T10:00:00Z"},
		{"Europe/Berlin", "2026-07-01T12:00:00Z", "2026-07-01T10:00:00Z"},        // replaced, not converted
		{"Europe/Berlin", `"2026-03-29 02:30:00"`, "2026-03-29T01:30:00Z"},       // does not exist: forward by the gap
		{"Europe/Berlin", `"2026-10-25 02:30:00"`, "2026-10-25T01:30:00Z"},       // twice: the second
		{"Australia/Lord_Howe", `"2026-10-04 02:15:00"`, "2026-10-03T15:45:00Z"}, // a gap of half an hour
		{"UTC", "2 days", "2026-11-28T00:00:00Z"},
		{"UTC", "1 hour", "2026-11-29T23:00:00Z"},
		{"Asia/Tokyo", "10 minutes", "2026-11-29T14:50:00Z"}, // 12:34 UTC is 21:34 in Tokyo, whose day began at 15:00 UTC
		{"UTC", "{__type__: datetime.datetime, year: 2026, month: 1, day: 31, hour: 6}", "2026-01-31T06:00:00Z"},
		{"UTC", "{__type__: datetime.date, __args__: [2026, 1, 31]}", "2026-01-31T00:00:00Z"},
	}
	for _, tt := range tests {
		d := one(t, "d:\n  timezone: "+tt.zone+"\n  start_date: "+tt.text+"\n"+small)
		require.Equal(t, tt.want, d.StartDate.Format(time.RFC3339Nano), tt.text)
	}
	for _, text := range []string{
		"today", "2026-13-01", "2026-02-29", "0000-01-01", "2026-01-31 24:00", "2 fortnights", "-1 days", "1_0 days", "{}", "[2026]", "5", "true",
		"{__type__: datetime.datetime, year: 2026, month: 2, day: 30}", "{__type__: datetime.datetime, year: 2026}", "{__type__: datetime.timedelta, days: 1}",
	} {
		require.True(t, loadText(t, "d:\n  start_date: "+text+"\n"+small).HasErrors(), text)
	}
}

func TestDatesThatBoundTheSchedule(t *testing.T) {
	t.Parallel()
	day := func(d int) *time.Time { v := time.Date(2026, 1, d, 0, 0, 0, 0, time.UTC); return &v }
	d := one(t, `
d:
  default_args: {start_date: 2026-01-05, end_date: 2026-01-20}
  tasks:
    a: {operator: empty}
    b: {operator: empty, start_date: 2026-01-03, end_date: 2026-01-25}
`)
	require.Equal(t, day(3), d.StartDate, "the earliest of the tasks")
	require.Equal(t, day(25), d.EndDate, "the latest, as every task has one")
	require.Equal(t, []*time.Time{day(5), day(20)}, []*time.Time{d.Task("a").StartDate, d.Task("a").EndDate})
	require.Equal(t, []*time.Time{nil, nil}, []*time.Time{d.Task("b").StartDate, d.Task("b").EndDate})

	d = one(t, `
d:
  start_date: 2026-01-04
  tasks:
    a: {operator: empty, start_date: 2026-01-02}
    b: {operator: empty, start_date: 2026-01-09, end_date: 2026-01-25}
`)
	require.Equal(t, day(4), d.StartDate)
	require.Nil(t, d.EndDate, "one task has no end")
	require.Nil(t, d.Task("a").StartDate)
	require.Equal(t, day(9), d.Task("b").StartDate)
	require.Equal(t, day(25), d.Task("b").EndDate)
}

// The zone of a schedule comes with the start date, as in dag-factory with
// Airflow; dates in default_args are in the zone beside them, else in UTC.
func TestTimezones(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text, zone, start string
		warns             string
	}{
		{"timezone: Europe/Paris\n  start_date: 2026-06-15", "Europe/Paris", "2026-06-14T22:00:00Z", ""},
		{"start_date: 2026-06-15", "UTC", "2026-06-15T00:00:00Z", ""},
		{"timezone: Europe/Paris\n  default_args: {start_date: 2026-06-15}", "UTC", "2026-06-15T00:00:00Z", "dags.yml:3:13: warning: d.timezone: the schedule runs in UTC, not in Europe/Paris: its zone is that of the start_date"},
		{"default_args: {start_date: 2026-07-01, timezone: America/New_York}", "America/New_York", "2026-07-01T04:00:00Z", ""},
		{"timezone: Europe/Paris\n  default_args: {start_date: 2026-07-01, timezone: America/New_York}", "America/New_York", "2026-07-01T04:00:00Z", "not in Europe/Paris"},
		{"timezone: Europe/Paris\n  start_date: 2026-06-15\n  default_args: {start_date: 2026-07-01}", "Europe/Paris", "2026-06-14T22:00:00Z", "dates in default_args are in UTC, not in Europe/Paris"},
		{"timezone: Europe/Paris\n  start_date: null\n  default_args: {start_date: 2026-07-01, timezone: UTC}", "UTC", "2026-07-01T00:00:00Z", "not in Europe/Paris"},
		{"timezone: Europe/Paris", "Asia/Tokyo", "", "the schedule runs in Asia/Tokyo, not in Europe/Paris"},
		{"end_date: 2026-07-01", "Asia/Tokyo", "", ""},
	}
	o := options()
	o.DefaultTimezone = "Asia/Tokyo"
	for _, tt := range tests {
		res := load.Files(folderText("d:\n  schedule: \"0 2 * * *\"\n  "+tt.text+"\n"+small), o)
		require.Len(t, res.DAGs, 1, tt.text+lines(res.Problems))
		d := res.DAGs[0]
		require.Equal(t, tt.zone, d.Timezone, tt.text)
		if tt.start != "" {
			require.Equal(t, tt.start, d.StartDate.Format(time.RFC3339), tt.text)
		}
		if tt.warns == "" {
			require.Empty(t, lines(res.Problems), tt.text)
		} else {
			require.Contains(t, lines(res.Problems), tt.warns)
		}
	}
}

// A task gets the dates that stand on it, or in its group, as they are: in the
// installation's zone, and with the offset that they name.
func TestDatesOfTasksAreInTheInstallationsZone(t *testing.T) {
	t.Parallel()
	o := options()
	o.DefaultTimezone = "Asia/Tokyo"
	res := load.Files(folderText(`d:
  timezone: Europe/Berlin
  start_date: 2026-06-01
  task_groups: {g: {default_args: {start_date: "2026-06-03 00:00:00", end_date: 2026-08-01}}}
  tasks:
    a: {operator: empty, start_date: 2026-06-03 00:00:00}
    b: {operator: empty, start_date: 2026-06-03 00:00:00+05:00}
    c: {operator: empty, start_date: {__type__: datetime.datetime, year: 2026, month: 6, day: 3}}
    d: {operator: empty, task_group_name: g}
`), o)
	require.False(t, res.HasErrors(), lines(res.Problems))
	for id, want := range map[string]string{"a": "2026-06-02T15:00:00Z", "b": "2026-06-02T19:00:00Z", "c": "2026-06-02T15:00:00Z", "g.d": "2026-06-02T15:00:00Z"} {
		require.Equal(t, want, res.DAGs[0].Task(id).StartDate.Format(time.RFC3339), id)
	}
	require.Equal(t, "2026-07-31T15:00:00Z", res.DAGs[0].Task("g.d").EndDate.Format(time.RFC3339))
	require.Contains(t, lines(res.Problems), "a task's own date is in the time zone Asia/Tokyo, not in the DAG's Europe/Berlin")
}

func TestSchedules(t *testing.T) {
	t.Parallel()
	zero := time.Duration(0)
	hour := time.Hour
	const trigger = "__type__: airflow.timetables.trigger."
	tests := []struct {
		text string
		want dag.Schedule
	}{
		{"null", dag.Schedule{Kind: dag.ScheduleNone, Text: "none"}},
		{"'  None '", dag.Schedule{Kind: dag.ScheduleNone, Text: "none"}},
		{`"@once"`, dag.Schedule{Kind: dag.ScheduleOnce, Text: "@once"}},
		{`"@daily"`, dag.Schedule{Kind: dag.ScheduleCronTrigger, Crons: []string{"0 0 * * *"}, Text: "@daily"}},
		{"0 1 * * 3", dag.Schedule{Kind: dag.ScheduleCronTrigger, Crons: []string{"0 1 * * 3"}, Text: "0 1 * * 3"}},
		{"{__type__: datetime.timedelta, hours: 6}", dag.Schedule{Kind: dag.ScheduleDelta, Delta: 6 * time.Hour, Text: "every 6h0m0s"}},
		{"{__type__: dateutil.relativedelta.relativedelta, months: 1, days: 2}", dag.Schedule{Kind: dag.ScheduleDelta, Months: 1, Delta: 48 * time.Hour, Text: "every 1 month and 48h0m0s"}},
		{"{" + trigger + "CronTriggerTimetable, __args__: [0 1 * * 3], timezone: UTC}", dag.Schedule{Kind: dag.ScheduleCronTrigger, Crons: []string{"0 1 * * 3"}, Text: "0 1 * * 3"}},
		{"{" + trigger + "CronTriggerTimetable, cron: '@hourly', timezone: Asia/Tokyo, interval: {__type__: datetime.timedelta, hours: 1}, run_immediately: true}",
			dag.Schedule{Kind: dag.ScheduleCronTrigger, Crons: []string{"0 * * * *"}, Timezone: "Asia/Tokyo", Interval: time.Hour, RunImmediately: &zero, Text: "0 * * * *"}},
		{"{" + trigger + "CronTriggerTimetable, cron: '@hourly', run_immediately: {__type__: datetime.timedelta, hours: 1}}",
			dag.Schedule{Kind: dag.ScheduleCronTrigger, Crons: []string{"0 * * * *"}, RunImmediately: &hour, Text: "0 * * * *"}},
		{"{" + trigger + "CronTriggerTimetable, cron: '@hourly', run_immediately: false, interval: {__type__: dateutil.relativedelta.relativedelta, months: 1}}",
			dag.Schedule{Kind: dag.ScheduleCronTrigger, Crons: []string{"0 * * * *"}, IntervalMonths: 1, Text: "0 * * * *"}},
		{"{" + trigger + "MultipleCronTriggerTimetable, __args__: [0 1 * * *, 0 5 * * *], timezone: UTC}",
			dag.Schedule{Kind: dag.ScheduleCronTrigger, Crons: []string{"0 1 * * *", "0 5 * * *"}, Text: "0 1 * * *, 0 5 * * *"}},
		{"{__type__: airflow.timetables.interval.CronDataIntervalTimetable, __args__: ['@daily', UTC]}",
			dag.Schedule{Kind: dag.ScheduleCronInterval, Crons: []string{"0 0 * * *"}, Text: "0 0 * * *"}},
		{"{" + trigger + "DeltaTriggerTimetable, __args__: [{__type__: datetime.timedelta, days: 1}]}", dag.Schedule{Kind: dag.ScheduleDelta, Delta: 24 * time.Hour, Text: "every 24h0m0s"}},
		{"{__type__: airflow.timetables.interval.DeltaDataIntervalTimetable, delta: 1h}", dag.Schedule{Kind: dag.ScheduleDeltaInterval, Delta: time.Hour, Text: "every 1h0m0s"}},
		{"{__type__: airflow.timetables.events.EventsTimetable, event_dates: [2026-02-01, 2026-01-01]}",
			dag.Schedule{Kind: dag.ScheduleEvents, Events: []time.Time{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)}, Text: "2 events"}},
		{"{__type__: airflow.timetables.simple.NullTimetable}", dag.Schedule{Kind: dag.ScheduleNone, Text: "none"}},
		{"{__type__: airflow.timetables.simple.OnceTimetable}", dag.Schedule{Kind: dag.ScheduleOnce, Text: "@once"}},
	}
	for _, tt := range tests {
		for _, key := range []string{"schedule", "timetable"} {
			d := one(t, "d:\n  "+key+": "+tt.text+"\n"+small)
			require.Equal(t, tt.want, d.Schedule, tt.text)
			require.Equal(t, 16, d.MaxActiveRuns)
		}
	}
	require.Equal(t, dag.ScheduleNone, one(t, "d:\n"+small).Schedule.Kind, "no schedule is none")

	d := one(t, "d:\n  schedule: '@continuous'\n"+small)
	require.Equal(t, 1, d.MaxActiveRuns, "continuous runs one after another")

	o := options()
	o.CronDataIntervals = true
	for text, want := range map[string]dag.ScheduleKind{"'@daily'": dag.ScheduleCronInterval, "{__type__: datetime.timedelta, days: 1}": dag.ScheduleDeltaInterval} {
		require.Equal(t, want, load.Files(folderText("d:\n  schedule: "+text+"\n"+small), o).DAGs[0].Schedule.Kind)
	}
}

func TestScalarsOfAnyType(t *testing.T) {
	t.Parallel()
	d := one(t, `
d:
  params:
    text: hello
    version: 1.0.0
    quoted: "yes"
    octal_text: '0777'
    number: 10
    negative: -5
    hex: 0xff
    fraction: 2.50
    big: 12345678901234567890
    on: true
    none: null
    date: 2026-01-31
    block: |
      yes
    tagged: !!str 5
    list: [1, "2", null, {a: b}]
    span: {__type__: datetime.timedelta, minutes: 2}
    joined: {__join__: [a, 1, "b"]}
    either: {__or__: [a, {__and__: [b, "3"]}]}
    single: {__and__: [a]}
  tasks: {t: {operator: empty}}
`)
	require.Equal(t, map[string]any{
		"text": "hello", "version": "1.0.0", "quoted": "yes", "octal_text": "0777", "number": 10.0, "negative": -5.0, "hex": 255.0, "fraction": 2.5,
		"big": json.Number("12345678901234567890"), "on": true, "none": nil, "date": "2026-01-31", "block": "yes\n", "tagged": "5",
		"list": []any{1.0, "2", nil, map[string]any{"a": "b"}}, "span": 120.0, "joined": "a1b", "either": "(a | (b & 3))", "single": "a",
	}, d.Params)
}

func TestTheTypeOfAFieldDecides(t *testing.T) {
	t.Parallel()
	d := one(t, `
d:
  description: yes
  doc_md: 0777
  catchup: no
  fail_fast: On
  max_active_runs: 0x10
  max_active_tasks: 1_0
  tags: [on, 1e5, 1:30, 2026-01-31]
  tasks:
    t: {operator: http, timeout: 1e1, log_response: yes, endpoint: 1:30}
`)
	require.Equal(t, "yes", d.Description)
	require.Equal(t, "0777", d.DocMD)
	require.False(t, d.Catchup)
	require.True(t, d.FailFast)
	require.Equal(t, 16, d.MaxActiveRuns)
	require.Equal(t, 10, d.MaxActiveTasks)
	require.Equal(t, []string{"on", "1e5", "1:30", "2026-01-31"}, d.Tags)
	require.Equal(t, map[string]any{"timeout": 10.0, "log_response": true, "endpoint": "1:30"}, d.Task("t").Args)
}

func TestAByteOrderMarkAndWindowsLines(t *testing.T) {
	t.Parallel()
	d := one(t, "\xef\xbb\xbfd:\r\n  description: ü\r\n  tasks:\r\n    t: {operator: empty}\r\n")
	require.Equal(t, "ü", d.Description)
	res := loadText(t, "\xef\xbb\xbfd:\n  größe: {x: 1}\n"+small)
	require.Equal(t, "dags.yml:2:3", res.Problems[0].String()[:12])
}

func TestMergeKeys(t *testing.T) {
	t.Parallel()
	d := one(t, `
d:
  vars:
    a: &a {pool: a, owner: a}
    b: &b {pool: b, queue: default, priority_weight: 2}
  tasks:
    first: {operator: empty, <<: [*a, *b], owner: own}
    last: {<<: *b, operator: empty, pool: own}
`)
	first, last := d.Task("first"), d.Task("last")
	require.Equal(t, []any{"own", "a", 2}, []any{first.Owner, first.Pool, first.PriorityWeight})
	require.Equal(t, []any{"own", 2}, []any{last.Pool, last.PriorityWeight})
}

func TestUserDefinedMacros(t *testing.T) {
	t.Parallel()
	d := one(t, "d:\n  user_defined_macros: {rate: 1.5, ports: [1, a], shop: {id: 7, open: true}}\n"+small)
	require.Equal(t, map[string]any{"rate": 1.5, "ports": []any{1.0, "a"}, "shop": map[string]any{"id": 7.0, "open": true}}, d.Macros)
	for text, want := range map[string]string{
		"{clean: shop.macros.clean}":                     `"shop.macros.clean" is the path of a Python function`,
		"{shop: {clean: shop.macros.clean}}":             "user_defined_macros.shop.clean",
		"{day: {__type__: datetime.timedelta, days: 1}}": "objects of \"datetime.timedelta\" are not supported in templates",
		"{'a b': 1}": `"a b" cannot be a name in templates`,
		"[1]":        "user_defined_macros must be a mapping",
	} {
		res := loadText(t, "d:\n  user_defined_macros: "+text+"\n"+small)
		require.True(t, res.HasErrors(), text)
		require.Contains(t, lines(res.Problems), want)
	}
}

func TestArgumentsOfCallbacks(t *testing.T) {
	t.Parallel()
	o := options()
	o.CallbackSpecs = map[string]dag.OperatorSpec{"command": {
		Name: "command", Ignored: []string{"shell"},
		Fields: []dag.Field{{Name: "command", Type: dag.FieldString, Required: true}, {Name: "env", Type: dag.FieldMap}, {Name: "timeout", Type: dag.FieldDuration}},
		Validate: func(args map[string]any) []dag.Problem {
			if args["command"] == "no" {
				return []dag.Problem{{Severity: dag.SeverityError, Code: "x", Message: "not this one", Path: "command"}}
			}
			return nil
		},
	}}
	o.CallbackNames = []string{"reason"}
	read := func(args string) load.Result {
		return load.Files(folderText("d:\n  on_failure_callback: {callback: command, "+args+"}\n"+small), o)
	}
	res := read(`command: "echo {{ reason }} {{ ds }} {{ var.value.x }}", env: {A: 1}, timeout: PT5S, shell: zsh`)
	require.False(t, res.HasErrors(), lines(res.Problems))
	require.Contains(t, lines(res.Problems), "Airlock does not act on shell of the callback command")
	require.Equal(t, map[string]any{"command": "echo {{ reason }} {{ ds }} {{ var.value.x }}", "env": map[string]any{"A": 1.0}, "timeout": 5.0},
		res.DAGs[0].Callbacks.OnFailure[0].Args)
	for args, want := range map[string]string{
		"comand: x":              `"comand" is not an argument of the callback command; did you mean command?`,
		"command: [sh, -c, x]":   "a text must stand here, not a list",
		"env: {A: 1}":            "command is missing: the callback command needs it",
		"command: no":            "dags.yml:2:53: error: d.on_failure_callback.command: not this one",
		`command: "{{ reasn }}"`: `did you mean "reason"?`,
		`command: "{{ ti }}"`:    `"ti" is not defined`,
		`command: "{% if %}"`:    "the template fails",
		"command: x, env: a":     "env must be a mapping",
		"command: x, timeout: y": "is not a duration",
		"command: x, timeout: 0": "timeout must be above 0",
	} {
		res := read(args)
		require.True(t, res.HasErrors(), args)
		require.Contains(t, lines(res.Problems), want)
	}
	// Airflow's own, whose arguments say nothing to a webhook, is named and left out.
	res = load.Files(folderText("d:\n  on_failure_callback: {callback: airflow.providers.http.notifications.HttpNotifier, endpoint: x}\n"+small), o)
	require.False(t, res.HasErrors(), lines(res.Problems))
	require.Contains(t, lines(res.Problems), "HttpNotifier\" is not called")
	require.Empty(t, res.DAGs[0].Callbacks.OnFailure)
	require.False(t, load.Files(folderText("d:\n  on_failure_callback: {callback: log, anything: [1]}\n"+small), o).HasErrors(), "not listed")
}
