package render_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/render"
)

func TestCheckFindsWhatFailsInEveryRun(t *testing.T) {
	t.Parallel()
	d := &dag.DAG{ID: "films", Params: map[string]any{"work": "/srv"}, ParamSchemas: map[string]json.RawMessage{"when": json.RawMessage(`{}`)}}
	task := &dag.Task{ID: "encode", Params: map[string]any{"own": 1}}
	for tpl, want := range map[string]string{
		"no template at all":                                              "",
		"{{ params.work }}/{{ ds_nodash }}":                               "",
		"{{ params.when }} {{ params.own }}":                              "",
		"{{ params['work'] }}":                                            "",
		"{{ ti.xcom_pull(task_ids='a')['x'] }}":                           "",
		"{{ var.value.folder }}":                                          "",
		"{{ conn.store.host }}":                                           "",
		"{{ dag_run.conf['x'] }}":                                         "",
		"{{ params.other | default('x') }}":                               "",
		"{% for x in [1] %}{{ x }}{% endfor %}":                           "",
		"{{ (data_interval_end - macros.timedelta(days=1)) | ds }}":       "",
		"{{ ti.log_url | default('-') }}":                                 "",
		"{% if dag_run.conf %}{% set n = 1 %}{% endif %}{{ n }}":          "",
		"{% if dag_run.conf %}{%- set who = 'x' %}{% endif %}{{ who }}":   "",
		"{% if dag_run.conf %}{% set n = 1 %}{% endif %}{{ m }}":          `"m" is not defined`,
		"{% for f in fles %}{{ f }}{% endfor %}":                          `"fles" is not defined`,
		"{% set n = nme %}{{ n }}":                                        `"nme" is not defined`,
		"{% with n = nme %}{{ n }}{% endwith %}":                          `"nme" is not defined`,
		"{% if dag_run.conf %}{% set t %}x{% endset %}{% endif %}{{ t }}": "",
		"{{ ti.log_url }}":                                                `task_instance has no "log_url"`,
		"{{ params.work ":                                                 "line 1",
		"{{ parms.work }}":                                                `did you mean "params"?`,
		"{{ execution_date }}":                                            "logical_date",
		"{{ ds | uper }}":                                                 `did you mean "upper"?`,
		"{{ ds is ":                                                       "an expression in it is not whole",
		"{{ ds not ":                                                      "an expression in it is not whole",
		"n=${#list[@]}":                                                   "{% raw %}",
		"n={% raw %}${#list[@]}{% endraw %}":                              "",
		"{% nope %}":                                                      "there is no statement",
		"{{ params.wrk }}":                                                `did you mean "work"?`,
		"{{ params.nothing_like_it }}":                                    "declare it",
	} {
		err := render.Check(tpl, d, task)
		if want == "" {
			require.NoError(t, err, tpl)
			continue
		}
		require.Error(t, err, tpl)
		var known *dag.Error
		require.ErrorAs(t, err, &known)
		require.Contains(t, err.Error()+" "+known.Hint, want, tpl)
		require.Equal(t, tpl == "{{ params.wrk }}" || tpl == "{{ params.nothing_like_it }}", errors.Is(err, render.ErrUndeclaredParam), tpl)
	}
}

func TestCheckOfAnEvent(t *testing.T) {
	t.Parallel()
	d := &dag.DAG{ID: "films"}
	names := []string{"exception", "reason"}
	require.NoError(t, render.CheckEvent("{{ exception | upper }} {{ ti.task_id }}", d, &dag.Task{ID: "encode"}, names))
	require.NoError(t, render.CheckEvent("{{ reason }} {{ dag_run.run_id }}", d, nil, names))
	require.ErrorContains(t, render.CheckEvent("{{ ti.task_id }}", d, nil, names), `"ti" is not defined`)
	require.ErrorContains(t, render.Check("{{ exception }}", d, &dag.Task{ID: "encode"}), `"exception" is not defined`)
}
