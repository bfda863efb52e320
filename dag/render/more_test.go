package render_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/render"
)

func TestErrors(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"{{ nothere }}":                             `line 1: "nothere" is not defined`,
		"a\nb {{ ds }}\n{{ nothere.x }}":            `line 3: "nothere" is not defined`,
		"a\n{% if nothere %}\n{% endif %}":          `line 2: "nothere" is not defined`,
		"{% if true %}\n\n{{ nothere }}{% endif %}": `line 3: "nothere" is not defined`,
		"{{ nothere() }}":                           `"nothere" is not defined`,
		"{{ logical_dat }}":                         `did you mean "logical_date"?`,
		"{{ execution_date }}":                      "write logical_date",
		"{{ next_ds }}":                             "data_interval_end | ds",
		"{{ params.nope }}":                         "params of this run are deep, names, nothing, rate, shop, whole",
		"{{ params.names[5] }}":                     "there is no item 5",
		"{{ var.value.no }}":                        "airlock variables set no VALUE",
		"{{ var.json.bad }}":                        "does not hold JSON",
		"{{ conn.nope.host }}":                      "there is no connection nope",
		"{{ params.nothing.x }}":                    "None where its field is read",
		"{{ 1 / 0 }}":                               "division by zero",
		"{{ 1 % 0 }}":                               "division by zero",
		"{{ 'a' + 1 }}":                             "|int",
		"{{ params.shop > '5' }}":                   "|int",
		"{{ 'x' * 99999999 }}":                      "larger than 1 MiB",
		"{{ [0] * 99999999 }}":                      "10000 items",
		"{{ 10 ** 400 }}":                           "too large",
		"{{ range(100000) }}":                       "10000 items",
		"{{ '%999999d' % 1 }}":                      "not understood",
		"{{ '%d' % 'x' }}":                          "takes a number",
		"{{ 'x'.center(99999999) }}":                "more than 10000",
		"{{ 'x' | center(99999999) }}":              "more than 10000",
		"{{ '{:99999999}'.format(1) }}":             "more than 10000",
		"{% set x = 'a' * 1000000 %}{{ x | replace('a', x) }}": "larger than 1 MiB",
		"{% set x = 'a' * 1000000 %}{{ [x, x, x] | join }}":    "larger than 1 MiB",
		"{% set x = 'a' * 1000000 %}{{ x }}{{ x }}":            "larger than 1 MiB",
		"{% include '/etc/passwd' %}":                          "no statement {% include %}",
		"{% extends 'x' %}":                                    "no statement {% extends %}",
		"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}":      "no statement {% macro %}",
		"{{ ds":                                               "'}}' expected",
		"{% if ds %}":                                         "expected tag elif or else or endif",
		"{{ ds | nofilter }}":                                 "filter 'nofilter' not found",
		"{{ macros.nope }}":                                   `macros has no "nope"`,
		"{{ macros.timedelta(foo=1) }}":                       "weeks",
		"{{ macros.datetime(2026, 13, 1) }}":                  "there is no date",
		"{{ macros.ds_add('x', 1) }}":                         "2026-01-31",
		"{{ ds.strftime('%Y') }}":                             `no method "strftime"`,
		"{{ ds | ds_nodash }}":                                "takes a datetime, found text",
		"{{ logical_date.replace(day=32) }}":                  "does not exist",
		"{{ logical_date.in_timezone('Mars/Olympus') }}":      "no time zone",
		"{{ logical_date + macros.timedelta(days=9999999) }}": "out of range",
		"{{ dag.Task }}":                                      `dag has no "Task"`,
		"{{ ti.xcom_pull(task_ids=3) }}":                      "list of them",
		"{{ [] + 1 }}":                                        "list + number",
		"{{ " + strings.Repeat("(", 20_000) + "1" + strings.Repeat(")", 20_000) + " }}": "a tag is longer",
		// Neither ends at its first "}}".
		"a\n{{ '}}' ~ " + strings.Repeat("(", 200_000):         "line 2: a tag is longer",
		"{{ [{'a': {'b': 1}}, " + strings.Repeat("[", 200_000): "a tag is longer",
		"{% if '%}' in " + strings.Repeat("[", 200_000):        "a tag is longer",
		"{{ '}}' ~ " + strings.Repeat("1+", 200_000) + "1 }}":  "a tag is longer",
		strings.Repeat("{% if 1 %}", 20_000):                   "more than 10000 tags",
		strings.Repeat("x", render.MaxTemplate) + "{{ ds }}":   "more than 1 MiB",
	}
	for tpl, want := range cases {
		_, err := render.New(sample()).String(tpl)
		require.ErrorContains(t, err, want, short(tpl))
		require.Equal(t, dag.ErrInvalid, dag.CodeOf(err), short(tpl))
		require.Less(t, len(err.Error()), 1000, short(tpl))
		require.NotContains(t, err.Error(), "s3cret")
	}
}

func short(s string) string { return s[:min(len(s), 80)] }

func TestNoLogicalDate(t *testing.T) {
	t.Parallel()
	in := sample()
	in.Run.LogicalDate, in.Run.DataIntervalStart, in.Run.DataIntervalEnd = nil, nil, nil
	for _, name := range []string{"ds", "ds_nodash", "ts", "ts_nodash", "ts_nodash_with_tz", "logical_date", "data_interval_start", "data_interval_end"} {
		_, err := render.New(in).String("{{ " + name + " }}")
		require.ErrorContains(t, err, `"`+name+`" is not defined`)
		require.ErrorContains(t, err, "the run has no logical date")
	}
	got, err := render.New(in).String("{{ ds | default('none') }} {{ dag_run.logical_date }} {{ dag_run.run_after | ds }}")
	require.NoError(t, err)
	require.Equal(t, "none None 2026-01-02", got)
}

// runningClock moves on at every look.
type runningClock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *runningClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(10 * time.Millisecond)
	return c.t
}

func (c *runningClock) After(time.Duration) <-chan time.Time { return nil }

func TestEndlessTemplatesEnd(t *testing.T) {
	t.Parallel()
	loop := "{% for i in range(30) %}"
	for _, tpl := range []string{
		strings.Repeat(loop, 6) + strings.Repeat("{% endfor %}", 6),
		strings.Repeat(loop, 6) + "{% set x = 1 %}" + strings.Repeat("{% endfor %}", 6),
		strings.Repeat(loop, 6) + "{{ nope | default('x') }}" + strings.Repeat("{% endfor %}", 6),
		"{{ (" + strings.Repeat("1 + ", 500) + "1) | default('never') }}",
	} {
		in := sample()
		in.Clock = &runningClock{}
		_, err := render.New(in).String(tpl)
		require.ErrorContains(t, err, "the template took longer than 2s", short(tpl))
	}
}

func TestNothingIsReadBeforeItIsAskedFor(t *testing.T) {
	t.Parallel()
	in := sample()
	in.Variables = func() map[string]string { panic("read") }
	in.Connection = func(string) (dag.Connection, error) { panic("read") }
	in.XCom = func([]string, string, string, []int) (any, error) { panic("read") }
	in.PreviousSuccess = func() (*dag.Run, error) { panic("read") }
	got, err := render.New(in).String("{{ ds }} {{ params.shop }} {{ dag_run.conf.shop }}")
	require.NoError(t, err)
	require.Equal(t, "2026-01-01 7 7", got)
	_, err = render.New(in).String("{{ var.value.x }}")
	require.ErrorContains(t, err, "template engine failed", "a panic is an error of the template")
}

func TestTemplatesCannotChangeTheirInput(t *testing.T) {
	t.Parallel()
	in := sample()
	r := render.New(in)
	_, err := r.String("{% set params.shop = 99 %}{% do params.names.append('z') %}{% do params.deep.update({'k': 0}) %}")
	require.NoError(t, err)
	require.Equal(t, json.Number("7"), in.Params["shop"])
	require.Equal(t, []any{"x", "y"}, in.Params["names"])
	require.Equal(t, map[string]any{"k": "v"}, in.Params["deep"])
}

func TestPasswordsStayHidden(t *testing.T) {
	t.Parallel()
	r := render.New(sample())
	for _, tpl := range []string{"{{ conn.wh }}", "{{ conn }}", "{{ [conn.wh] }}", "{{ {'c': conn.wh} }}", "{{ conn.wh | string }}", "{{ '%s' % conn.wh }}"} {
		got, err := r.String(tpl)
		require.NoError(t, err, tpl)
		require.NotContains(t, got, "s3cret", tpl)
	}
	_, err := r.String("{{ conn.wh | tojson }}")
	require.ErrorContains(t, err, "cannot be written as JSON")
}

func TestValue(t *testing.T) {
	t.Parallel()
	in := map[string]any{
		"cmd": "echo {{ ds }}", "{{ ds }}": 1.5, "list": []any{"{{ params.shop }}", nil, true, []any{"{{ ds_nodash }}"}}, "names": []string{"{{ run_id }}"},
	}
	got, err := render.New(sample()).Value(in)
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"cmd": "echo 2026-01-01", "{{ ds }}": 1.5, "list": []any{"7", nil, true, []any{"20260101"}},
		"names": []any{"scheduled__2026-01-02T00:00:00+00:00"},
	}, got)
	require.Equal(t, "echo {{ ds }}", in["cmd"], "what is given is left alone")
	_, err = render.New(sample()).Value([]any{"ok", map[string]any{"k": "{{ nope }}"}})
	require.Error(t, err)
}

func TestNative(t *testing.T) {
	t.Parallel()
	r := render.New(sample())
	cases := map[string]any{
		"{{ params.shop }}":         7,
		"{{ [1, 'a', None] }}":      []any{1, "a", nil},
		"{{ params.deep }}":         map[string]any{"k": "v"},
		"{{ none }}":                nil,
		"{{ ds }}":                  "2026-01-01",
		"{{ ds_nodash }}":           20260101,
		"1{{ 2 }}":                  12,
		"[{{ 1 }}, {{ 2 }}]":        []any{1, 2},
		"('a', {{ 1.5 }})":          []any{"a", 1.5},
		"{'a': {{ 'True' }}}":       map[string]any{"a": true},
		"({{ 5 }})":                 5,
		"x {{ 1 }}":                 "x 1",
		"{{ '007' }}":               "007",
		"{{ logical_date }}":        "2026-01-01T00:00:00+00:00",
		"{{ params.shop == 7 }}":    true,
		"{{ 1 if false else 'b' }}": "b",
		"12":                        "12",
		"{{ 'os.remove()' }}":       "os.remove()",
	}
	for tpl, want := range cases {
		got, err := r.Native(tpl)
		require.NoError(t, err, tpl)
		require.Equal(t, want, got, tpl)
	}
}

func TestExtraNames(t *testing.T) {
	t.Parallel()
	got, err := render.New(render.Input{Extra: map[string]any{"exception": "EXIT_CODE: 3", "reason": "task_failure", "at": map[string]any{"n": int64(3)}}}).
		String("{{ exception }} {{ reason }} {{ at.n }}")
	require.NoError(t, err)
	require.Equal(t, "EXIT_CODE: 3 task_failure 3", got)
}

func TestNamesOfTheDAGsOwn(t *testing.T) {
	t.Parallel()
	in := sample()
	in.DAG.Macros = map[string]any{"rate": 1.5, "shop": map[string]any{"ids": []any{7.0, 8.0}}, "run_id": "mine"}
	got, err := render.New(in).String("{{ rate }} {{ shop.ids[1] }} {{ run_id }}")
	require.NoError(t, err)
	require.Equal(t, "1.5 8 scheduled__2026-01-02T00:00:00+00:00", got, "Airflow's own names win")
}

func TestOneRendererForManyGoroutines(t *testing.T) {
	t.Parallel()
	r := render.New(sample())
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			got, err := r.String(fmt.Sprintf("{{ ds }} {{ %d + 1 }}", i))
			if err == nil && got != fmt.Sprintf("2026-01-01 %d", i+1) {
				err = errors.New(got)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestMergeParams(t *testing.T) {
	t.Parallel()
	d := &dag.DAG{
		Params: map[string]any{"shop": 1.0, "mode": "full", "when": "2026-01-01", "keep": true},
		ParamSchemas: map[string]json.RawMessage{
			"shop": json.RawMessage(`{"type": "integer", "minimum": 1}`),
			"mode": json.RawMessage(`{"enum": ["full", "delta"]}`),
			"when": json.RawMessage(`{"type": "string", "format": "date"}`),
		},
	}
	task := &dag.Task{Params: map[string]any{"mode": "delta", "own": "t"}}
	got, err := render.MergeParams(d, task, json.RawMessage(`{"shop": 12, "extra": [1]}`))
	require.NoError(t, err)
	require.Equal(t, map[string]any{"shop": 12, "mode": "delta", "when": "2026-01-01", "keep": true, "own": "t", "extra": []any{1}}, got)

	_, err = render.MergeParams(d, task, json.RawMessage(`{"shop": 0, "mode": "all", "when": "soon"}`))
	require.ErrorContains(t, err, "shop is 0")
	require.ErrorContains(t, err, `mode is "all"`)
	require.ErrorContains(t, err, `when is "soon"`)
	require.Equal(t, dag.ErrInvalid, dag.CodeOf(err))

	for _, conf := range []string{"", "null", "{}", "  "} {
		_, err = render.MergeParams(d, nil, json.RawMessage(conf))
		require.NoError(t, err, conf)
	}
	for _, conf := range []string{"[1]", `"x"`, "{", "3"} {
		_, err = render.MergeParams(d, nil, json.RawMessage(conf))
		require.ErrorContains(t, err, "not a JSON object", conf)
	}
	_, err = render.MergeParams(&dag.DAG{ParamSchemas: map[string]json.RawMessage{"must": json.RawMessage(`{"type": "string"}`)}}, nil, nil)
	require.ErrorContains(t, err, "must is not set")
	_, err = render.MergeParams(&dag.DAG{Params: map[string]any{"x": 1}, ParamSchemas: map[string]json.RawMessage{"x": json.RawMessage(`{"$ref": "file:///etc/passwd"}`)}}, nil, nil)
	require.ErrorContains(t, err, "cannot refer to")
	got, err = render.MergeParams(nil, nil, nil)
	require.NoError(t, err)
	require.Empty(t, got)
}

func FuzzString(f *testing.F) {
	for _, s := range []string{"{{ ds }}", "{% for i in range(3) %}{{ i }}{% endfor %}", "{{ (a if b else c) }}", "{{ params['x'][-1] | join(',') }}", "{{ '%5d' % 3 }}", "{{ logical_date + macros.timedelta(days=1) }}", "{% set x %}a{% endset %}{{ x ~ 1 }}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, tpl string) {
		in := sample()
		in.Clock = dag.SystemClock{}
		in.Timeout = 200 * time.Millisecond
		r := render.New(in)
		_, err := r.String(tpl)
		_, _ = r.Native(tpl)
		if err != nil {
			require.Equal(t, dag.ErrInvalid, dag.CodeOf(err))
		}
	})
}

func BenchmarkRender1000(b *testing.B) {
	in := sample()
	in.Clock = dag.SystemClock{}
	for b.Loop() {
		r := render.New(in)
		for i := range 1000 {
			if _, err := r.String("aws s3 cp {{ var.value.bucket }}/{{ ds }}/{{ params.shop }} {{ logical_date.strftime('%Y/%m/%d') }} {% if true %}x{% endif %}"); err != nil {
				b.Fatal(i, err)
			}
		}
	}
}
