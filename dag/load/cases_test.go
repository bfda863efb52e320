package load_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/load"
)

// TestCases loads the whole folder of real-world traps at once: what is right
// must load beside what is wrong.
func TestCases(t *testing.T) {
	t.Parallel()
	res := load.Files(folder(t, "testdata/cases"), options())
	var ids []string
	for _, d := range res.DAGs {
		ids = append(ids, d.ID)
	}
	require.Equal(t, []string{"berlin_0230", "cleanup_leaf", "many_retries", "merged"}, ids)
	require.Equal(t, []string{
		"reject_alias_bomb.yaml", "reject_cycle.yaml", "reject_duplicate_key.yaml", "reject_impossible_cron.yaml",
		"reject_unknown_key.yaml", "reject_unquoted_star.yaml",
	}, res.Broken)

	text := lines(res.Problems)
	for _, want := range []string{
		"reject_cycle.yaml:6:73: error: loop.tasks.a.dependencies[0]: the tasks wait for each other in a cycle: a -> b -> c -> a",
		`reject_cycle.yaml:9:73: error: loop.tasks.d.dependencies[0]: there is no task or group "ghost"`,
		`reject_duplicate_key.yaml:8:5: error: key "retries" stands here on line 8 and already on line 6`,
		`"load" stands here on line 13 and already on line 10`,
		"it never fires",
		`reject_unknown_key.yaml:6:5: error: typo.default_args.retires: "retires" is not a key of default_args; did you mean retries?`,
		`reject_unknown_key.yaml:7:5: error: typo.default_args.retry_delays: "retry_delays" is not a key of default_args; did you mean retry_delay?`,
		"reject_unknown_key.yaml:12:7: error", "did you mean execution_timeout?",
		"reject_unknown_key.yaml:13:7: error", "did you mean on_failure_callback?",
		"reject_unquoted_star.yaml:2:13: error", "put it in quotes",
		"reject_alias_bomb.yaml:11:9: error",
	} {
		require.Contains(t, text, want)
	}

	berlin := res.DAGs[0]
	require.Equal(t, "Europe/Berlin", berlin.Timezone)
	require.Equal(t, time.Date(2026, 3, 26, 23, 0, 0, 0, time.UTC), *berlin.StartDate)
	require.True(t, berlin.Catchup)
	require.Equal(t, dag.AllDone, res.DAGs[1].Task("cleanup").TriggerRule)
	require.Equal(t, dag.RetryPolicy{
		Retries: 1000, Delay: 5 * time.Minute, Exponential: 2, MaxDelay: time.Hour, MaxCrashes: 3, MaxThrottleTime: time.Hour,
	}, res.DAGs[2].Task("always_fails").Retry)
	require.Equal(t, 4, res.DAGs[3].Task("load").Retry.Retries)
	require.Equal(t, 2, res.DAGs[3].Task("check").Retry.Retries)
	require.Equal(t, 30*time.Second, res.DAGs[3].Task("load").Retry.Delay)
}

func TestAnAliasBombTakesLittleMemory(t *testing.T) {
	data, err := os.ReadFile("testdata/cases/reject_alias_bomb.yaml")
	require.NoError(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	res := loadText(t, string(data))
	runtime.ReadMemStats(&after)
	require.True(t, res.HasErrors())
	// Every byte that was ever allocated counts: 10^9 texts would be gigabytes.
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20))
}

// corpusEnv names a folder with the folders dev and tests of dag-factory's
// repository; their files are not ours to keep here.
const corpusEnv = "AIRLOCK_TEST_CORPUS"

// TestCorpus loads files that others wrote for dag-factory: each loads, or is
// refused for the reason that stands here.
func TestCorpus(t *testing.T) {
	t.Parallel()
	root := os.Getenv(corpusEnv)
	if root == "" {
		t.Skip(corpusEnv + " names no checkout of dag-factory")
	}
	refused := map[string]string{ // path: code of the first error
		"dev/dags/airflow2/example_customize_operator.yml":                 "unknown-operator",
		"dev/dags/airflow2/example_params.yml":                             "old-key",
		"dev/dags/airflow2/example_taskflow.yml":                           "decorator-unsupported",
		"dev/dags/airflow2/example_user_defined_macros.yml":                "old-key",
		"dev/dags/airflow3/example_customize_operator.yml":                 "unknown-operator",
		"dev/dags/airflow3/example_user_defined_macros.yml":                "unsupported-type",
		"dev/dags/comparison/example_pypi_stats_dagfactory.yml":            "decorator-unsupported",
		"dev/dags/datasets/example_dag_datasets.yml":                       "assets-unsupported",
		"dev/dags/datasets/example_dag_datasets_outlet_inlet.yml":          "missing-key",
		"dev/dags/datasets/example_dataset_or_timetable_schedule.yml":      "assets-unsupported",
		"dev/dags/datasets/example_dataset_yaml_syntax.yml":                "assets-unsupported",
		"dev/dags/example_dag_factory_tasks_taskgroups_as_dict_format.yml": "old-key",
		"dev/dags/example_multiple_outputs_taskflow.yml":                   "decorator-unsupported",
		"dev/dags/example_object_storage.yml":                              "unsupported-type",
		"dev/dags/external_task_sensor.yml":                                "unknown-operator",
		"dev/dags/kpo.yml":                                                 "old-key",
		"tests/fixtures/dag_factory.yml":                                   "no-tasks",
		"tests/fixtures/dag_factory_kubernetes_pod_operator.yml":           "unknown-operator",
		"tests/fixtures/dag_factory_kubernetes_pod_operator_lt_2_7.yml":    "unknown-operator",
		"tests/fixtures/dag_factory_schedule_interval.yml":                 "old-key",
		"tests/fixtures_without_default_yaml/invalid_dag_factory.yml":      "bad-date",
		"tests/schedule/and_asset.yml":                                     "misplaced-key",
		"tests/schedule/cron.yml":                                          "misplaced-key",
		"tests/schedule/dataset_as_list.yml":                               "misplaced-key",
		"tests/schedule/dataset_timetable.yml":                             "misplaced-key",
		"tests/schedule/list_asset.yml":                                    "misplaced-key",
		"tests/schedule/nested_dataset.yml":                                "misplaced-key",
		"tests/schedule/or_asset.yml":                                      "misplaced-key",
		"tests/schedule/timedelta.yml":                                     "misplaced-key",
		"tests/schedule/timetable.yml":                                     "misplaced-key",
	}
	for _, f := range folder(t, root) {
		res := load.Files(folderOf(t, root, f.Path), options())
		first := ""
		for _, p := range res.Problems {
			if p.Severity == dag.SeverityError && p.File == f.Path && first == "" {
				first = p.Code
			}
		}
		require.Equal(t, refused[f.Path], first, "%s:\n%s", f.Path, lines(res.Problems))
		delete(refused, f.Path)
		if first == "" && filepath.Base(f.Path) != "defaults.yml" {
			require.NotEmpty(t, res.DAGs, f.Path)
		}
	}
	require.Empty(t, refused, "these files are gone")
}

// TestCorpusSchedules puts each schedule form of the corpus into a DAG.
func TestCorpusSchedules(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"cron", "'@daily'", "cron_trigger @daily"},
		{"timedelta", "\n  __type__: datetime.timedelta\n  seconds: 30", "delta_trigger every 30s"},
		{"timetable", "\n  __type__: airflow.timetables.trigger.CronTriggerTimetable\n  cron: \"* * * * *\"\n  timezone: UTC", "cron_trigger * * * * *"},
		{"list_asset", "\n  __type__: builtins.list\n  items:\n    - __type__: airflow.sdk.Asset\n      uri: s3://a", "assets-unsupported"},
		{"or_asset", "\n  __or__:\n    - __type__: airflow.sdk.Asset\n      uri: s3://a", "assets-unsupported"},
		{"nested", "\n  __or__:\n    - __and__:\n        - __type__: airflow.datasets.Dataset\n          uri: s3://a", "assets-unsupported"},
		{"dataset_timetable", "\n  datasets: \"(a | b)\"\n  timetable:\n    __type__: x.CronTriggerTimetable\n    cron: \"* * * * *\"", "assets-unsupported"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			res := loadText(t, "d:\n  schedule: "+strings.ReplaceAll(tt.text, "\n", "\n  ")+"\n"+small)
			if len(res.DAGs) == 0 {
				require.Equal(t, tt.want, res.Problems[0].Code, lines(res.Problems))
				return
			}
			s := res.DAGs[0].Schedule
			require.Equal(t, tt.want, string(s.Kind)+" "+s.Text)
		})
	}
}
