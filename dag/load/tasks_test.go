package load_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/bundle"
	"github.com/airlock-dag/airlock/dag/load"
)

func TestTaskDefaults(t *testing.T) {
	t.Parallel()
	d := one(t, "d:\n  tasks:\n    t: {operator: airflow.operators.bash.BashOperator, bash_command: echo}\n")
	require.Equal(t, []dag.Task{{
		ID: "t", Operator: "bash", OperatorText: "airflow.operators.bash.BashOperator", Args: map[string]any{"bash_command": "echo"},
		TriggerRule: dag.AllSuccess, Queue: "default", Pool: "default_pool", PoolSlots: 1, PriorityWeight: 1, WeightRule: "downstream",
		Retry:                    dag.RetryPolicy{Delay: 300 * time.Second, MaxCrashes: 3, MaxThrottleTime: time.Hour},
		IgnoreFirstDependsOnPast: true, DoXComPush: true, Line: 3,
	}}, d.Tasks)
}

func TestEveryTaskKey(t *testing.T) {
	t.Parallel()
	d := one(t, `
d:
  tasks:
    t:
      operator: empty
      owner: me
      queue: default
      pool: p
      pool_slots: 2
      priority_weight: -7
      weight_rule: absolute
      trigger_rule: none_failed
      execution_timeout: 5m
      wait_for_downstream: true
      ignore_first_depends_on_past: false
      max_active_tis_per_dag: 3
      max_active_tis_per_dagrun: 4
      do_xcom_push: false
      multiple_outputs: true
      map_index_template: "{{ x }}"
      doc_md: text
      task_display_name: The Task
      circuit: gpu
      params: {a: 1}
`)
	require.Equal(t, dag.Task{
		ID: "t", DisplayName: "The Task", Operator: "empty", OperatorText: "empty", TriggerRule: dag.NoneFailed, Queue: "default", Pool: "p", PoolSlots: 2,
		PriorityWeight: -7, WeightRule: "absolute", Retry: dag.RetryPolicy{Delay: 300 * time.Second, MaxCrashes: 3, MaxThrottleTime: time.Hour},
		ExecutionTimeout: 5 * time.Minute, DependsOnPast: true, WaitForDownstream: true, MaxActiveTisPerDag: 3, MaxActiveTisPerDagrun: 4,
		MultipleOutputs: true, MapIndexTemplate: "{{ x }}", Params: map[string]any{"a": 1.0}, Owner: "me", DocMD: "text", Circuit: "gpu", Line: 4,
	}, d.Tasks[0])
}

func TestEveryDAGKey(t *testing.T) {
	t.Parallel()
	d := one(t, `
d:
  dag_display_name: The DAG
  description: text
  doc_md: "# doc"
  tags: one
  concurrency: 5
  max_active_tasks: 4
  max_active_runs: 3
  max_consecutive_failed_dag_runs: 2
  dagrun_timeout: 1h
  fail_fast: true
  is_paused_upon_creation: false
  render_template_as_native_obj: true
  end_date: 2026-12-31
  tasks: {t: {operator: empty}}
`)
	paused := false
	end := time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC)
	d.Tasks = nil
	require.Equal(t, &dag.DAG{
		ID: "d", DisplayName: "The DAG", Description: "text", DocMD: "# doc", FileLoc: "dags.yml", Tags: []string{"one"},
		Schedule: dag.Schedule{Kind: dag.ScheduleNone, Text: "none"}, Timezone: "UTC", EndDate: &end, MaxActiveRuns: 3, MaxActiveTasks: 5,
		MaxConsecutiveFailedDagRuns: 2, DagrunTimeout: time.Hour, FailFast: true, IsPausedUponCreation: &paused, RenderTemplateAsNativeObj: true, Line: 2,
	}, d)
}

func TestTemplatesStandForAnyType(t *testing.T) {
	t.Parallel()
	d := one(t, `
d:
  tasks:
    t:
      operator: merge
      conn_id: "{{ params.c }}"
      sql: ["{% if ds %}a{% endif %}", b]
      chunk: "{{ params.chunk }}"
      when_matched: {delete: "{{ ds }}"}
    u: {operator: merge, conn_id: c, source: "{{ params.source }}"}
    v: {operator: merge, conn_id: c, source: {file: "{{ ds }}", format: "{{ ds }}", "null": "{{ ds }}"}}
`)
	require.Equal(t, map[string]any{
		"conn_id": "{{ params.c }}", "sql": []any{"{% if ds %}a{% endif %}", "b"}, "chunk": "{{ params.chunk }}", "when_matched": map[string]any{"delete": "{{ ds }}"},
	}, d.Task("t").Args)
	require.Equal(t, "{{ params.source }}", d.Task("u").Args["source"])
	require.Equal(t, map[string]any{"file": "{{ ds }}", "format": "{{ ds }}", "null": "{{ ds }}"}, d.Task("v").Args["source"])
}

func TestANullArgument(t *testing.T) {
	t.Parallel()
	d := one(t, "d:\n  tasks:\n    t: {operator: bash, bash_command: x, cwd: null, skip_on_exit_code: null}\n")
	require.Equal(t, map[string]any{"bash_command": "x", "skip_on_exit_code": nil}, d.Task("t").Args,
		"null takes a default away where any value may stand, and says nothing elsewhere")
}

func TestVariablesAsArguments(t *testing.T) {
	t.Parallel()
	d := one(t, "d:\n  tasks:\n    t: {operator: bash, bash_command: echo 3, variables_as_arguments: [{variable: v, attribute: bash_command}, {variable: w, attribute: cwd}]}\n")
	require.Equal(t, map[string]any{
		"bash_command": "{% if var.value.get('v', '') %}{{ var.value.get('v') }}{% else %}echo 3{% endif %}",
		"cwd":          "{{ var.value.get('w') }}",
	}, d.Task("t").Args)
}

func TestCallbackForms(t *testing.T) {
	t.Parallel()
	d := one(t, `
d:
  default_args:
    on_retry_callback: log
    on_execute_callback: [log, {callback: command, command: "echo {{ ti.task_id }}"}]
    on_skipped_callback: [{callback: webhook, url: u, secret_conn_id: s}]
  on_failure_callback:
    callback: airflow.providers.slack.notifications.slack.send_slack_notification
    slack_conn_id: slack
    text: down
  on_success_callback: {callback: airflow.providers.smtp.notifications.smtp.SmtpNotifier, to: me}
  tasks:
    t: {operator: empty, on_success_callback: {callback: log, level: info}, on_failure_callback: {callback: airflow.providers.pagerduty.notifications.pagerduty.PagerdutyNotifier}}
`)
	require.Equal(t, dag.Callbacks{
		OnFailure: []dag.Callback{{Name: "slack", Args: map[string]any{"slack_conn_id": "slack", "text": "down"}}},
		OnSuccess: []dag.Callback{{Name: "email", Args: map[string]any{"to": "me"}}},
	}, d.Callbacks)
	require.Equal(t, dag.Callbacks{
		OnExecute: []dag.Callback{{Name: "log"}, {Name: "command", Args: map[string]any{"command": "echo {{ ti.task_id }}"}}},
		OnSuccess: []dag.Callback{{Name: "log", Args: map[string]any{"level": "info"}}},
		OnFailure: []dag.Callback{{Name: "pagerduty"}},
		OnRetry:   []dag.Callback{{Name: "log"}},
		OnSkipped: []dag.Callback{{Name: "webhook", Args: map[string]any{"url": "u", "secret_conn_id": "s"}}},
	}, d.Task("t").Callbacks)

	o := options()
	o.Callbacks = []string{"log"}
	res := load.Files(folderText("d:\n  on_failure_callback: airflow.providers.slack.notifications.slack.SlackNotifier\n"+small), o)
	require.Empty(t, res.DAGs[0].Callbacks.OnFailure)
	require.Equal(t, "callback-unsupported", res.Problems[0].Code, "a notifier that there is none of is dropped with a word")
	o.Callbacks = nil
	res = load.Files(folderText("d:\n  on_failure_callback: anything\n"+small), o)
	require.Equal(t, []dag.Callback{{Name: "anything"}}, res.DAGs[0].Callbacks.OnFailure)
}

func TestParams(t *testing.T) {
	t.Parallel()
	d := one(t, `
d:
  schedule: "@daily"
  params:
    plain: 10
    ranged: {__type__: airflow.models.param.Param, default: 5, type: integer, minimum: 1, title: How many}
    positional: {__type__: airflow.sdk.Param, __args__: [x, a text], type: [string, "null"]}
    day: {__type__: airflow.sdk.definitions.param.Param, default: "2026-01-31", type: string, format: date}
    object: {inner: 1}
  tasks: {t: {operator: empty, params: {p: {__type__: airflow.sdk.Param, default: 1, type: integer}, q: 2}}}
`)
	require.Equal(t, map[string]any{"plain": 10.0, "ranged": 5.0, "positional": "x", "day": "2026-01-31", "object": map[string]any{"inner": 1.0}}, d.Params)
	require.Len(t, d.ParamSchemas, 3)
	require.JSONEq(t, `{"type":"integer","minimum":1,"title":"How many"}`, string(d.ParamSchemas["ranged"]))
	require.JSONEq(t, `{"type":["string","null"],"description":"a text"}`, string(d.ParamSchemas["positional"]))
	require.Equal(t, map[string]any{"p": 1.0, "q": 2.0}, d.Task("t").Params)

	// Without a schedule somebody gives the values: the defaults may be missing or wrong.
	d = one(t, "d:\n  params: {a: {__type__: airflow.sdk.Param, type: integer}, b: {__type__: airflow.sdk.Param, default: null, type: integer}}\n"+small)
	require.Equal(t, map[string]any{"b": nil}, d.Params)
	require.Len(t, d.ParamSchemas, 2)
	// format is checked.
	require.True(t, loadText(t, "d:\n  schedule: '@daily'\n  params: {a: {__type__: airflow.sdk.Param, default: soon, type: string, format: date}}\n"+small).HasErrors())
}

func TestUnknownOperatorsCanBeKept(t *testing.T) {
	t.Parallel()
	o := options()
	o.AllowUnknownOperators = true
	res := load.Files(folderText("d:\n  tasks:\n    t: {operator: acme.Bread, bread_type: rye, retries: 2, expand: {slices: [1, 2]}}\n"), o)
	require.False(t, res.HasErrors(), lines(res.Problems))
	task := res.DAGs[0].Task("t")
	require.Equal(t, "acme.Bread", task.Operator)
	require.Equal(t, map[string]any{"bread_type": "rye"}, task.Args)
	require.Equal(t, []any{1.0, 2.0}, task.Expand.Args["slices"].Literal)
	require.Equal(t, "unknown-operator", res.Problems[0].Code)
}

func TestDAGsThatOthersName(t *testing.T) {
	t.Parallel()
	res := load.Files([]bundle.File{
		{Path: "a.yml", Data: []byte("a:\n  params: {x: b}\n  tasks:\n    t: {operator: trigger_dag_run, trigger_dag_id: b}\n    u: {operator: trigger_dag_run, trigger_dag_id: \"{{ params.x }}\"}\n    v: {operator: trigger_dag_run, trigger_dag_id: broken}\n")},
		{Path: "b.yml", Data: []byte("b:\n" + small)},
		{Path: "broken.yml", Data: []byte("broken:\n  retires: 1\n" + small)},
	}, options())
	require.Equal(t, 1, strings.Count(lines(res.Problems), "\n"), lines(res.Problems))
	require.Equal(t, "unknown-key", res.Problems[0].Code)
}

func TestADAGGoesToJSONAndBack(t *testing.T) {
	t.Parallel()
	res := loadFiles(t, map[string]string{"policies.yml": policies, "d.yml": `
d:
  schedule: {__type__: airflow.timetables.trigger.CronTriggerTimetable, cron: "@hourly", run_immediately: true}
  timezone: Europe/Berlin
  start_date: 2026-01-01
  params: {big: 12345678901234567890, n: 1, f: 1.5, s: "<&>", p: {__type__: airflow.sdk.Param, default: 1, type: integer}}
  on_failure_callback: {callback: log, n: 98765432109876543210}
  task_groups: {g: {}}
  tasks:
    a: {operator: bash, bash_command: "a < b && c", env: {n: 9007199254740993, m: 9007199254740992}, queue: gpu, task_group_name: g}
    b: {operator: bash, expand: {bash_command: []}, partial: {env: {n: 9007199254740993}}}
    c: {operator: bash, expand: {bash_command: a.output}, retry_on: [{exit_code: 1}]}
`})
	d := find(t, res, "d")
	raw, err := json.Marshal(d)
	require.NoError(t, err)
	var back dag.DAG
	require.NoError(t, json.Unmarshal(raw, &back))
	require.Equal(t, d, &back)
	require.Equal(t, d.Hash(), back.Hash())
	require.Len(t, d.Hash(), 64)

	other := find(t, loadFiles(t, map[string]string{"d.yml": "d:\n  description: x\n" + small}), "d")
	require.NotEqual(t, d.Hash(), other.Hash())
}

func TestTheExampleOnThePageLoads(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join(projectRoot(t), "docs", "yaml.md"))
	require.NoError(t, err)
	_, text, found := strings.Cut(string(raw), "```yaml\n")
	require.True(t, found)
	text, _, _ = strings.Cut(text, "```")
	res := loadText(t, text)
	require.Empty(t, lines(res.Problems))
	require.Equal(t, []string{"fetch"}, res.DAGs[0].Task("report").Upstream)
}
