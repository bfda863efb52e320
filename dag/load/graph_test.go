package load_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

// edges shows each task with what it waits for, in the order of the DAG.
func edges(d *dag.DAG) [][2]any {
	var out [][2]any
	for _, t := range d.Tasks {
		out = append(out, [2]any{t.ID, t.Upstream})
	}
	return out
}

func TestTasksComeInTopologicalOrder(t *testing.T) {
	t.Parallel()
	d := one(t, `
d:
  tasks:
    z: {operator: empty, dependencies: [m, a]}
    m: {operator: empty, dependencies: [a]}
    b: {operator: empty}
    a: {operator: empty}
    c: {operator: empty, dependencies: b}
`)
	require.Equal(t, [][2]any{
		{"b", []string(nil)}, {"a", []string(nil)}, {"m", []string{"a"}}, {"z", []string{"a", "m"}}, {"c", []string{"b"}},
	}, edges(d))
}

func TestGroups(t *testing.T) {
	t.Parallel()
	d := one(t, `
d:
  task_groups:
    - {group_name: outer, tooltip: all of it, dependencies: [start]}
    - {group_name: inner, parent_group_name: outer, dependencies: [o1]}
    - {group_name: bare, parent_group_name: inner, prefix_group_id: false}
  tasks:
    - {task_id: start, operator: empty}
    - {task_id: o1, operator: empty, task_group_name: outer}
    - {task_id: i1, operator: empty, task_group_name: inner}
    - {task_id: i2, operator: empty, task_group_name: inner, dependencies: [i1]}
    - {task_id: b1, operator: empty, task_group_name: bare, dependencies: [outer.inner.i2]}
    - {task_id: end, operator: empty, dependencies: [outer]}
    - {task_id: after, operator: empty, dependencies: [inner]}
`)
	require.Equal(t, []dag.Group{
		{ID: "outer", Tooltip: "all of it"}, {ID: "outer.inner", ParentID: "outer"}, {ID: "outer.inner.bare", ParentID: "outer.inner"},
	}, d.Groups)
	require.Equal(t, [][2]any{
		{"start", []string(nil)},
		{"outer.o1", []string{"start"}},
		{"outer.inner.i1", []string{"outer.o1"}},
		{"outer.inner.i2", []string{"outer.inner.i1"}},
		{"b1", []string{"outer.inner.i2"}},
		{"end", []string{"b1"}},
		{"after", []string{"b1"}},
	}, edges(d))
	require.Equal(t, "outer.inner.bare", d.Task("b1").GroupID)
}

func TestAGroupWaitsWithItsFirstTasks(t *testing.T) {
	t.Parallel()
	d := one(t, `
d:
  task_groups: {g: {dependencies: [x, h]}, h: {}}
  tasks:
    x: {operator: empty}
    h1: {operator: empty, task_group_name: h}
    h2: {operator: empty, task_group_name: h}
    h3: {operator: empty, task_group_name: h, dependencies: [h1]}
    g1: {operator: empty, task_group_name: g}
    g2: {operator: empty, task_group_name: g, dependencies: [g1]}
    g3: {operator: empty, task_group_name: g}
`)
	require.Equal(t, []string{"h.h2", "h.h3", "x"}, d.Task("g.g1").Upstream)
	require.Equal(t, []string{"g.g1"}, d.Task("g.g2").Upstream)
	require.Equal(t, []string{"h.h2", "h.h3", "x"}, d.Task("g.g3").Upstream)
}

func TestNobodyWaitsForTheCleanUpOfAGroup(t *testing.T) {
	t.Parallel()
	d := one(t, `
d:
  task_groups: {g: {}}
  tasks:
    make: {operator: empty, task_group_name: g, is_setup: true}
    work: {operator: empty, task_group_name: g, dependencies: [make]}
    drop: {operator: empty, task_group_name: g, dependencies: [make, work], is_teardown: true, on_failure_fail_dagrun: true}
    next: {operator: empty, dependencies: [g]}
`)
	require.Equal(t, []string{"g.work"}, d.Task("next").Upstream)
	drop := d.Task("g.drop")
	require.Equal(t, dag.AllDoneSetupSuccess, drop.TriggerRule)
	require.True(t, drop.IsTeardown && drop.FailDagrunOnFail)
	require.True(t, d.Task("g.make").IsSetup)
}

func TestGroupDefaultArgs(t *testing.T) {
	t.Parallel()
	d := one(t, `
d:
  default_args: {pool: dag, owner: dag, queue: default}
  task_groups:
    outer: {default_args: {pool: outer, owner: outer}}
    inner: {parent_group_name: outer, default_args: {pool: inner}}
  tasks:
    a: {operator: empty}
    b: {operator: empty, task_group_name: inner}
    c: {operator: empty, task_group_name: inner, pool: own}
`)
	require.Equal(t, []string{"dag", "dag"}, []string{d.Task("a").Pool, d.Task("a").Owner})
	require.Equal(t, []string{"inner", "outer"}, []string{d.Task("outer.inner.b").Pool, d.Task("outer.inner.b").Owner})
	require.Equal(t, "own", d.Task("outer.inner.c").Pool)
	require.Equal(t, "dag", d.Owner)
}

func TestExpandForms(t *testing.T) {
	t.Parallel()
	const head = `
d:
  task_groups: {g: {}}
  tasks:
    make: {operator: python, python_callable: a.b, task_group_name: g}
    t: {operator: python, python_callable: a.b, `
	lit := func(v ...any) dag.ExpandSource { return dag.ExpandSource{Literal: append([]any{}, v...)} }
	tests := []struct {
		name, text string
		want       dag.ExpandSource
	}{
		{"list", "[1, two, [3]]", lit(1.0, "two", []any{3.0})},
		{"empty list", "[]", lit()},
		{"mapping", "{a: 1, b: 2}", lit([]any{"a", 1.0}, []any{"b", 2.0})},
		{"output", "make.output", dag.ExpandSource{XCom: "g.make"}},
		{"output with the full id", "g.make.output", dag.ExpandSource{XCom: "g.make"}},
		{"one key of the output", `"make.output['parts']"`, dag.ExpandSource{XCom: "g.make", Key: "parts"}},
		{"XcomArg", "XcomArg(make)", dag.ExpandSource{XCom: "g.make"}},
		{"XComArg with quotes", `XComArg("g.make")`, dag.ExpandSource{XCom: "g.make"}},
		{"plus", "+make", dag.ExpandSource{XCom: "g.make"}},
		{"plus with a key", `"+make['k']"`, dag.ExpandSource{XCom: "g.make", Key: "k"}},
		{"xcom", "{xcom: make}", dag.ExpandSource{XCom: "g.make"}},
		{"xcom with a key", "{xcom: make.output, key: other}", dag.ExpandSource{XCom: "g.make", Key: "other"}},
		{"glob", `{glob: "{{ params.inbox }}/*.mp4"}`, dag.ExpandSource{Glob: "{{ params.inbox }}/*.mp4"}},
		{"builtins.list", "{__type__: builtins.list, items: [a, b]}", lit("a", "b")},
		{"object", "{__type__: airflow.models.xcom_arg.XComArg, __args__: [make]}", dag.ExpandSource{XCom: "g.make"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := one(t, head+"expand: {op_args: "+tt.text+"}}\n")
			task := d.Task("t")
			require.Equal(t, &dag.Expand{Names: []string{"op_args"}, Args: map[string]dag.ExpandSource{"op_args": tt.want}}, task.Expand)
			if tt.want.XCom != "" {
				require.Equal(t, []string{"g.make"}, task.Upstream, "the source is upstream")
			} else {
				require.Empty(t, task.Upstream)
			}
		})
	}
}

func TestPartialAndKwargs(t *testing.T) {
	t.Parallel()
	d := one(t, `
d:
  default_args: {bash_command: inherited}
  tasks:
    make: {operator: python, python_callable: a.b}
    cross:
      operator: bash
      cwd: /tmp
      partial: {append_env: true}
      expand: {env: [{A: "1"}, {A: "2"}], bash_command: make.output}
    kwargs:
      operator: bash
      expand_kwargs: [{bash_command: one, env: {A: b}}, {bash_command: two}]
    all:
      operator: bash
      expand_kwargs: make.output
    limits:
      operator: bash
      expand: {bash_command: [a, b]}
      partial: {env: {A: "1"}, retries: 4, retry_delay: 90, pool: narrow, trigger_rule: all_done}
      priority_weight: 7
`)
	limits := d.Task("limits") // the task's own keys may stand under partial, as in Airflow
	require.Equal(t, map[string]any{"env": map[string]any{"A": "1"}}, limits.Expand.Partial)
	require.Equal(t, []any{4, 90 * time.Second, "narrow", dag.AllDone, 7},
		[]any{limits.Retry.Retries, limits.Retry.Delay, limits.Pool, limits.TriggerRule, limits.PriorityWeight})
	cross := d.Task("cross")
	require.Equal(t, map[string]any{"cwd": "/tmp", "append_env": true}, cross.Args)
	require.Equal(t, []string{"env", "bash_command"}, cross.Expand.Names)
	require.Equal(t, map[string]any{"append_env": true}, cross.Expand.Partial)
	require.Equal(t, []any{map[string]any{"A": "1"}, map[string]any{"A": "2"}}, cross.Expand.Args["env"].Literal)
	require.Equal(t, []any{map[string]any{"bash_command": "one", "env": map[string]any{"A": "b"}}, map[string]any{"bash_command": "two"}}, d.Task("kwargs").Expand.Kwargs.Literal)
	require.Equal(t, "make", d.Task("all").Expand.Kwargs.XCom)
}

// Letters are those of every script, as in Airflow.
func TestIDsInAnyScript(t *testing.T) {
	t.Parallel()
	d := one(t, `
größe.été:
  task_groups: {Übung: {}}
  tasks:
    запрос: {operator: python, python_callable: a.b, task_group_name: Übung}
    日次: {operator: bash, expand: {bash_command: Übung.запрос.output}}
    after_٣: {operator: empty, dependencies: [日次, Übung]}
`)
	require.Equal(t, [][2]any{
		{"Übung.запрос", []string(nil)}, {"日次", []string{"Übung.запрос"}}, {"after_٣", []string{"Übung.запрос", "日次"}},
	}, edges(d))
}

func TestAnIDThatItsGroupsMakeTooLong(t *testing.T) {
	t.Parallel()
	outer, inner := strings.Repeat("o", 150), strings.Repeat("i", 97)
	text := func(task string) string {
		return "d:\n  task_groups: {" + outer + ": {}, " + inner + ": {parent_group_name: " + outer + "}}\n  tasks: {" + task + ": {operator: empty, task_group_name: " + inner + "}}\n"
	}
	require.Empty(t, lines(loadText(t, text("a")).Problems), "150 + 1 + 97 + 1 + 1 bytes")
	require.Contains(t, lines(loadText(t, text("ab")).Problems), "with the names of its groups the task's id has 251 bytes; at most 250 are allowed")
}
