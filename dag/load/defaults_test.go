package load_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/bundle"
	"github.com/airlock-dag/airlock/dag/load"
)

// loadFiles loads files by name and text.
func loadFiles(t *testing.T, texts map[string]string) load.Result {
	t.Helper()
	var files []bundle.File
	for name, text := range texts {
		files = append(files, bundle.File{Path: name, Data: []byte(text)})
	}
	return load.Files(files, options())
}

func find(t *testing.T, res load.Result, id string) *dag.DAG {
	t.Helper()
	for _, d := range res.DAGs {
		if d.ID == id {
			return d
		}
	}
	t.Fatalf("no DAG %s:\n%s", id, lines(res.Problems))
	return nil
}

func TestDefaultsStrongestFirst(t *testing.T) {
	t.Parallel()
	res := loadFiles(t, map[string]string{
		"defaults.yml":      "description: root\nmax_active_runs: 1\nmax_active_tasks: 1\ndoc_md: root\ntags: [r, a]\ndefault_args: {owner: root, retries: 1, pool: root, queue: root}\n",
		"team/defaults.yml": "max_active_runs: 2\nmax_active_tasks: 2\ntags: [t, a]\ndefault_args: {retries: 2, pool: team}\n",
		// Not on the way from the file to the root.
		"other/defaults.yml": "description: other\n",
		"team/sub/a.yml": `
default:
  max_active_tasks: 3
  doc_md: block
  dagrun_timeout: 3m
  default_args: {pool: block, priority_weight: 3}
d:
  max_active_runs: 4
  default_args: {priority_weight: 4}
  tasks: {t: {operator: empty, priority_weight: 5}, u: {operator: empty}}
`,
	})
	d := find(t, res, "d")
	require.Equal(t, 4, d.MaxActiveRuns, "the DAG's own")
	require.Equal(t, 2, d.MaxActiveTasks, "a DAG key of defaults.yml beats the block")
	require.Equal(t, "root", d.DocMD)
	require.Equal(t, "root", d.Description)
	require.Equal(t, 3*time.Minute, d.DagrunTimeout, "only the block says it")
	require.Equal(t, []string{"a", "r", "t"}, d.Tags, "tags of the files are united and sorted")
	require.Equal(t, "root", d.Owner)
	u := d.Task("u")
	require.Equal(t, "block", u.Pool, "of default_args the block beats the files")
	require.Equal(t, 2, u.Retry.Retries, "the nearest file wins")
	require.Equal(t, "root", u.Queue)
	require.Equal(t, 4, u.PriorityWeight)
	require.Equal(t, 5, d.Task("t").PriorityWeight)
}

func TestMappingsMergeDeepAndListsDoNot(t *testing.T) {
	t.Parallel()
	d := one(t, `
default:
  params: {a: 1, inner: {x: 1, y: 2}}
  tags: [one]
  on_failure_callback: {callback: webhook, url: u, headers: {h: v}}
  on_success_callback: {callback: command, command: c}
d:
  params: {b: 2, inner: {y: 3}}
  tags: [two]
  on_failure_callback: {callback: webhook, url: v}
  on_success_callback: {callback: log}
  tasks: {t: {operator: empty}}
`)
	require.Equal(t, map[string]any{"a": 1.0, "b": 2.0, "inner": map[string]any{"x": 1.0, "y": 3.0}}, d.Params)
	require.Equal(t, []string{"two"}, d.Tags)
	require.Equal(t, []dag.Callback{{Name: "webhook", Args: map[string]any{"url": "v", "headers": map[string]any{"h": "v"}}}}, d.Callbacks.OnFailure)
	require.Equal(t, []dag.Callback{{Name: "log"}}, d.Callbacks.OnSuccess, "another callback does not get this one's keys")
}

func TestTasksOfTheDefaultBlock(t *testing.T) {
	t.Parallel()
	res := loadText(t, `
default:
  tasks:
    - {task_id: extract, operator: bash, bash_command: echo extract}
    - {task_id: load, operator: bash, dependencies: [extract]}
a:
  tasks:
    - {task_id: load, bash_command: echo a}
b:
  tasks:
    load: {bash_command: echo b}
    more: {operator: empty}
`)
	a, b := find(t, res, "a"), find(t, res, "b")
	require.Equal(t, "echo a", a.Task("load").Args["bash_command"])
	require.Equal(t, "echo b", b.Task("load").Args["bash_command"])
	require.Equal(t, []string{"extract"}, b.Task("load").Upstream)
	require.Len(t, a.Tasks, 2)
	require.Len(t, b.Tasks, 3)
}

func TestANullTakesADefaultBack(t *testing.T) {
	t.Parallel()
	d := one(t, `
default:
  schedule: "@daily"
  dagrun_timeout: 1h
  default_args: {retries: 5, pool: special, execution_timeout: 5m}
d:
  schedule: null
  dagrun_timeout: ~
  tasks: {t: {operator: empty, retries: null, pool: , execution_timeout: null}}
`)
	require.Equal(t, dag.ScheduleNone, d.Schedule.Kind)
	require.Zero(t, d.DagrunTimeout)
	require.Equal(t, 0, d.Task("t").Retry.Retries)
	require.Equal(t, dag.DefaultPool, d.Task("t").Pool)
	require.Zero(t, d.Task("t").ExecutionTimeout)
}

func TestOperatorKeysInDefaultArgs(t *testing.T) {
	t.Parallel()
	d := one(t, `
d:
  default_args: {conn_id: warehouse, cwd: /data, append_env: true}
  tasks:
    a: {operator: bash, bash_command: x, append_env: false}
    b: {operator: merge, sql: MERGE}
`)
	require.Equal(t, map[string]any{"bash_command": "x", "cwd": "/data", "append_env": false}, d.Task("a").Args)
	require.Equal(t, map[string]any{"conn_id": "warehouse", "sql": "MERGE"}, d.Task("b").Args)
}

func TestAMistakeInADefaultsFile(t *testing.T) {
	t.Parallel()
	texts := map[string]string{
		"a/defaults.yml": "max_active_runs: many\n",
		"a/one.yml":      "one:\n" + small,
		"a/two.yml":      "two:\n" + small,
		"three.yml":      "three:\n" + small,
	}
	res := loadFiles(t, texts)
	require.Equal(t, []string{"a/one.yml", "a/two.yml"}, res.Broken)
	require.Equal(t, "three", res.DAGs[0].ID)
	require.Equal(t, `a/defaults.yml:1:18: error: one.max_active_runs: a whole number must stand here, not "many" [wrong-type]
a/one.yml: error: the file inherits from a/defaults.yml, which has errors; repair a/defaults.yml first [broken-defaults]
a/two.yml: error: the file inherits from a/defaults.yml, which has errors; repair a/defaults.yml first [broken-defaults]
`, lines(res.Problems))

	texts["a/defaults.yml"] = "max_active_runs: [\n"
	res = loadFiles(t, texts)
	require.Equal(t, []string{"a/one.yml", "a/two.yml"}, res.Broken)
	require.Len(t, res.Problems, 3)
	require.Equal(t, "a/defaults.yml", res.Problems[0].File)
	require.Equal(t, "a/one.yml: error: the file inherits from a/defaults.yml, which has errors; repair a/defaults.yml first", res.Problems[1].String())

	texts["a/defaults.yml"] = "max_active_rums: 1\n"
	res = loadFiles(t, texts)
	require.Equal(t, []string{"a/one.yml", "a/two.yml"}, res.Broken)
	require.Contains(t, lines(res.Problems), `a/defaults.yml:1:1: error: max_active_rums: "max_active_rums" is not a key of a DAG; did you mean max_active_runs? [unknown-key]`)
}

func TestTwoDefaultsFilesInOneFolder(t *testing.T) {
	t.Parallel()
	res := loadFiles(t, map[string]string{
		"defaults.yml": "description: yml\n", "defaults.yaml": "description: yaml\n", "d.yml": "d:\n" + small,
	})
	require.Equal(t, "yml", find(t, res, "d").Description)
	require.Equal(t, "defaults.yaml: warning: the file is not used: the same folder has defaults.yml; keep one of the two [ignored-key]\n", lines(res.Problems))
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	o := options()
	env := map[string]string{"HOST": "db1", "N": "3", "EMPTY": "", "LIST": "[a, b]", "LINES": "one\ntwo", "TMPL": "{{ ds }}", "ON": "true"}
	o.LookupEnv = func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	res := load.Files([]bundle.File{{Path: "d.yml", Data: []byte(`
d:
  description: $HOST and ${HOST} and $UNKNOWN and ${UN-KNOWN} and $$
  max_active_runs: $N
  catchup: $ON
  dagrun_timeout: $EMPTY
  start_date: 2026-01-01
  tags: $LIST
  tasks:
    t:
      operator: bash
      bash_command: "echo $LINES"
      cwd: $TMPL
      pool_slots: zero
`)}}, o)
	require.Equal(t, `d.yml:14:19: error: d.tasks.t.pool_slots: a whole number must stand here, not "zero" [wrong-type]`+"\n", lines(res.Problems),
		"a value of several lines does not move the places")

	res = load.Files([]bundle.File{{Path: "d.yml", Data: []byte(`
d:
  description: $HOST and ${HOST} and $UNKNOWN and ${UN-KNOWN} and $$
  max_active_runs: $N
  dagrun_timeout: $EMPTY
  tags: $LIST
  tasks:
    t: {operator: bash, bash_command: "echo $LINES", cwd: $TMPL}
`)}}, o)
	d := find(t, res, "d")
	require.Equal(t, "db1 and db1 and $UNKNOWN and ${UN-KNOWN} and $$", d.Description)
	require.Equal(t, 3, d.MaxActiveRuns)
	require.Zero(t, d.DagrunTimeout)
	require.Equal(t, []string{"a", "b"}, d.Tags)
	require.Equal(t, map[string]any{"bash_command": "echo one\ntwo", "cwd": "{{ ds }}"}, d.Task("t").Args)

	d = one(t, "d:\n  description: $HOME stays\n"+small)
	require.Equal(t, "$HOME stays", d.Description)
}
