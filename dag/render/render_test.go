package render_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/render"
)

func ptr[T any](v T) *T { return &v }

// fixedClock never moves.
type fixedClock time.Time

func (c fixedClock) Now() time.Time                       { return time.Time(c) }
func (c fixedClock) After(time.Duration) <-chan time.Time { return nil }

type fixedRand float64

func (f fixedRand) Float64() float64 { return float64(f) }

type fixedID string

func (f fixedID) NewID() string { return string(f) }

func sample() render.Input {
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	key := dag.TaskInstanceKey{DagID: "daily_sales", RunID: "scheduled__2026-01-02T00:00:00+00:00", TaskID: "load.extract", MapIndex: -1}
	return render.Input{
		DAG:  &dag.DAG{ID: "daily_sales", Owner: "sales", Timezone: "UTC", Tags: []string{"a", "b"}},
		Task: &dag.Task{ID: "load.extract", GroupID: "load", Operator: "bash", Queue: "default", Retry: dag.RetryPolicy{Retries: 2}},
		TI:   &dag.TaskInstance{TaskInstanceKey: key, TryNumber: 2, MaxTries: 3, State: dag.StateRunning},
		Run: &dag.Run{
			DagID: key.DagID, RunID: key.RunID, Type: dag.RunScheduled, LogicalDate: &day, DataIntervalStart: &day,
			DataIntervalEnd: ptr(day.AddDate(0, 0, 1)), RunAfter: day.AddDate(0, 0, 1), Conf: json.RawMessage(`{"shop": 7, "deep": {"x": [1, 2.5]}}`),
		},
		Params:    map[string]any{"shop": json.Number("7"), "rate": 0.5, "names": []any{"x", "y"}, "deep": map[string]any{"k": "v"}, "nothing": nil, "whole": 3.0},
		Variables: func() map[string]string { return map[string]string{"bucket": "s3://b", "cfg": `{"n": 3}`, "bad": "{"} },
		Connection: func(id string) (dag.Connection, error) {
			if id != "wh" {
				return dag.Connection{}, &dag.Error{Code: dag.ErrNotFound, Op: "connection", Err: errors.New("there is no connection " + id)}
			}
			return dag.Connection{ID: "wh", Type: "mysql", Host: "db", Port: 3306, Login: "u", Password: "s3cret", Schema: "sales", Extra: map[string]any{"ssl": true}}, nil
		},
		XCom: func(ids []string, key, dagID string, indexes []int) (any, error) {
			switch {
			case ids[0] == "gone":
				return nil, nil
			case len(indexes) == 1:
				return indexes[0] * 10, nil
			default:
				return map[string]any{"from": ids[0], "key": key, "dag": dagID}, nil
			}
		},
		PreviousSuccess: func() (*dag.Run, error) { return &dag.Run{StartDate: ptr(day.Add(-time.Hour))}, nil },
		Clock:           fixedClock(time.Date(2026, 6, 15, 10, 17, 30, 0, time.UTC)),
		Rand:            fixedRand(0.25),
		IDs:             fixedID("0123456789abcdef0123456789abcdef"),
	}
}

func TestString(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"plain { text }":              "plain { text }",
		"keeps the newline {{ 1 }}\n": "keeps the newline 1\n",

		"{{ ds }} {{ ds_nodash }}":                                                                         "2026-01-01 20260101",
		"{{ ts }} {{ ts_nodash }} {{ ts_nodash_with_tz }}":                                                 "2026-01-01T00:00:00+00:00 20260101T000000 20260101T000000+0000",
		"{{ logical_date }}":                                                                               "2026-01-01 00:00:00+00:00",
		"{{ data_interval_start }}/{{ data_interval_end | ds }}":                                           "2026-01-01 00:00:00+00:00/2026-01-02",
		"{{ logical_date.year }}-{{ logical_date.month }}":                                                 "2026-1",
		"{{ logical_date.strftime('%d.%m.%Y %H:%M %j') }}":                                                 "01.01.2026 00:00 001",
		"{{ logical_date.isoformat() }}":                                                                   "2026-01-01T00:00:00+00:00",
		"{{ logical_date.date() }}":                                                                        "2026-01-01",
		"{{ logical_date.date() - macros.timedelta(days=1) }}":                                             "2025-12-31",
		"{{ logical_date + macros.timedelta(days=1) }}":                                                    "2026-01-02 00:00:00+00:00",
		"{{ (logical_date - macros.timedelta(hours=2)).strftime('%H') }}":                                  "22",
		"{{ data_interval_end - data_interval_start }}":                                                    "1 day, 0:00:00",
		"{{ (data_interval_end - data_interval_start).total_seconds() }}":                                  "86400.0",
		"{{ logical_date < data_interval_end }}":                                                           "True",
		"{{ logical_date == data_interval_start }}":                                                        "True",
		"{{ logical_date.add(months=1, days=2) | ds }}":                                                    "2026-02-03",
		"{{ logical_date.subtract(days=1) | ds_nodash }}":                                                  "20251231",
		"{{ logical_date.in_timezone('America/New_York') }}":                                               "2025-12-31 19:00:00-05:00",
		"{{ logical_date.replace(day=15) | ds }}":                                                          "2026-01-15",
		"{{ logical_date.start_of('month') | ds }} {{ logical_date.end_of('month') | ds }}":                "2026-01-01 2026-01-31",
		"{{ (logical_date + macros.timedelta(minutes=50)).in_timezone('Asia/Kolkata').start_of('hour') }}": "2026-01-01 06:00:00+05:30",
		"{{ logical_date.format('YYYY/MM/DD') }}":                                                          "2026/01/01",
		"{{ logical_date.weekday() }}":                                                                     "3", // 1 January 2026 is a Thursday
		"{{ logical_date.timestamp() }}":                                                                   "1767225600.0",

		"{{ dag.dag_id }} {{ task.task_id }} {{ task.label }} {{ ti.task_id }} {{ task_instance.try_number }}": "daily_sales load.extract extract load.extract 2",
		"{{ run_id }} {{ dag_run.run_id == run_id }}":                                                          "scheduled__2026-01-02T00:00:00+00:00 True",
		"{{ dag_run.conf.shop }} {{ dag_run.conf['deep'].x[1] }} {{ dag_run.conf.get('none', 'd') }}":          "7 2.5 d",
		"{{ dag_run.run_type }}":                                    "scheduled",
		"{{ task_instance_key_str }}":                               "daily_sales__load.extract__20260101",
		"{{ ti.max_tries }} {{ task.retries }}":                     "3 2",
		"{{ prev_start_date_success }} {{ prev_end_date_success }}": "2025-12-31 23:00:00+00:00 None",

		"{{ params.shop }} {{ params.rate }} {{ params['names'] }} {{ params.deep }} {{ params.nothing }} {{ params.whole }}": "7 0.5 ['x', 'y'] {'k': 'v'} None 3",
		"{{ params.get('x', 'y') }}":                                       "y",
		"{% for k, v in params.deep.items() %}{{ k }}={{ v }}{% endfor %}": "k=v",
		"{{ params.names | join(',') }}":                                   "x,y",
		"{{ params.deep | tojson }}":                                       `{"k": "v"}`,

		"{{ var.value.bucket }} {{ var.json.cfg.n }} {{ var.value.get('no', 'd') }} {{ var.value.get('bucket') }}": "s3://b 3 d s3://b",
		"{{ var.value.get('no', default_var='e') }} {{ var.json.get('no', {'n': 1}).n }}":                          "e 1",
		"{{ var.value.no | default('x') }}": "x",
		"{{ conn.wh.host }}:{{ conn.wh.port }} {{ conn.wh.password }} {{ conn.wh.extra_dejson.ssl }}": "db:3306 s3cret True",
		"{{ conn.wh }}":              "wh",
		"{{ conn.get('wh').login }}": "u",

		"{{ ti.xcom_pull(task_ids='a') }}":                     "{'dag': 'daily_sales', 'from': 'a', 'key': 'return_value'}",
		"{{ ti.xcom_pull('a', key='k')['key'] }}":              "k",
		"{{ ti.xcom_pull(['a', 'b'])[1].from }}":               "b",
		"{{ ti.xcom_pull(task_ids='gone') }}":                  "None",
		"{{ ti.xcom_pull(task_ids='gone', default=5) }}":       "5",
		"{{ ti.xcom_pull(task_ids='m', map_indexes=3) }}":      "30",
		"{{ ti.xcom_pull(task_ids='m', map_indexes=[2]) }}":    "[20]",
		"{{ ti.xcom_pull(task_ids='a', dag_id='other').dag }}": "other",

		"{{ macros.ds_add('2026-01-31', 1) }} {{ macros.ds_add(ds, -1) }}": "2026-02-01 2025-12-31",
		"{{ macros.ds_format('2026-01-31', '%Y-%m-%d', '%d/%m/%y') }}":     "31/01/26",
		"{{ macros.datetime(2026, 2, 3) }}":                                "2026-02-03 00:00:00",
		"{{ macros.datetime.now() }}":                                      "2026-06-15 10:17:30",
		"{{ macros.datetime.strptime('03.02.2026', '%d.%m.%Y').date() }}":  "2026-02-03",
		"{{ macros.random() }}":                                            "0.25",
		"{{ macros.uuid.uuid4() }}":                                        "01234567-89ab-4def-a123-456789abcdef",
		"{{ macros.json.dumps({'a': [1, None]}) }}":                        `{"a": [1, null]}`,
		"{{ macros.dateutil.parser.parse('2026-02-03T04:05:06Z').hour }}":  "4",

		"{{ 7 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 2 ** 10 }}":                                              "3.5 3 -4 1 2 1024",
		"{{ 1 + 2 * 3 }} {{ 10 - 4 - 3 }} {{ 0.1 + 0.2 }}":                                                                           "7 3 0.30000000000000004",
		"{{ 'a' ~ 1 ~ none }} {{ 'ab' * 2 }} {{ [1] + [2] }}":                                                                        "a1None abab [1, 2]",
		"{{ '%05.1f|%s' % (2.25, 'x') }} {{ '%d%%' % 5 }}":                                                                           "002.2|x 5%",
		"{{ not 5 }} {{ not [] }} {{ true and 0 }} {{ '' or 'x' }}":                                                                  "False True 0 x",
		"{{ 'x' in params.names }} {{ 'z' not in params.names }} {{ 'k' in params.deep }}":                                           "True True True",
		"{{ 1 if ds == '2026-01-01' else 2 }}":                                                                                       "1",
		"{{ 'yes' if params.shop > 5 }}":                                                                                             "yes",
		"{{ 'a' is defined }} {{ nope is defined }} {{ params.nope is defined }} {{ none is defined }} {{ nope is undefined }}":      "True False False True True",
		"{{ nope | default('d') }} {{ params.nope | default(params.shop) }} {{ '' | default('e', true) }} {{ none | default('n') }}": "d 7 e None",
		"{% set x = 1 + 1 %}{{ x * 2 }}":                                                                                             "4",
		"{% if params.shop + 1 == 8 %}eight{% elif true %}other{% else %}no{% endif %}":                                              "eight",
		"{% for i in range(3) %}{{ i + 1 }}{% if not loop.last %},{% endif %}{% endfor %}":                                           "1,2,3",
		"{{ range(3) | join('-') }} {{ range(1, 6, 2) }}":                                                                            "0-1-2 [1, 3, 5]",
		"{% for i in [1, 2] if i - 1 %}{{ i }}{% else %}none{% endfor %}":                                                            "2",
		"{%- if true -%} a {%- endif -%} b":                                                                                          "ab",
		"{# gone #}x":                                                                                                                "x",
		"{% raw %}{{ ds }}{% endraw %}":                                                                                              "{{ ds }}",
		"{{ 'A-b'.lower().split('-')[1] }} {{ 'x'.replace('x', 'y') }} {{ '{}!'.format('a') }}":                                      "b y a!",
		"{{ [3, 1, 2] | sort }} {{ [1, 2] | sum }} {{ 'a b' | upper }} {{ '5' | int + 1 }}":                                          "[1, 2, 3] 3 A B 6",
		"{{ \"it's\" }} {{ [\"it's\"] }}":                                                                                            `it's ["it's"]`,
		"{{ 1e20 }} {{ 1.0 }} {{ 100 | float }}":                                                                                     "1e+20 1.0 100.0",
		"{{ dag }} {{ 'ü' }} {{ {'ü': '<'} | tojson }}":                                                                              `<DAG: daily_sales> ü {"\u00fc": "\u003c"}`,
		"a\n{{ ds }}\nb": "a\n2026-01-01\nb",
	}
	for tpl, want := range map[string]string{ // conditional expressions inside brackets
		"{{ ('a if b else c') }} if x else y":                        "a if b else c if x else y",
		"{{ macros.ds_add(ds, -1 if params.shop == 7 else 0) }}":     "2025-12-31",
		"{{ (1 if false else 2 if true else 3) + 1 }}":               "3",
		"{{ [1 if true else 2, 3] }} {{ {'a': 1 if false else 2} }}": "[1, 3] {'a': 2}",
		"{{ (nope if false else 5) }} {{ ('' if true else 5) }}|":    "5 |",
		"{{ ti.xcom_pull(task_ids='x' if true else 'y').from }}":     "x",
		"{{ ('(if else)' if params.shop in [7, 8] else ')') }}":      "(if else)",
	} {
		cases[tpl] = want
	}
	r := render.New(sample())
	for tpl, want := range cases {
		got, err := r.String(tpl)
		require.NoError(t, err, tpl)
		require.Equal(t, want, got, tpl)
	}
}
