package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/metrics"
	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
)

var noon = time.Date(2026, 6, 10, 12, 0, 0, 0, time.UTC)

func claim(operator, queue string) dag.Claim {
	return dag.Claim{TaskInstance: dag.TaskInstance{Operator: operator, Queue: queue}}
}

func TestEndsAreCountedByWhatFollows(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	m := metrics.New(reg)
	c := claim("bash", "io")
	m.TaskEnded(c, dag.Result{State: dag.StateSuccess})
	m.TaskEnded(c, dag.Result{State: dag.StateUpForRetry, Attempt: dag.Attempt{ErrorCode: "TIMEOUT"}})
	m.TaskEnded(c, dag.Result{State: dag.StateUpForRetry, Attempt: dag.Attempt{ErrorCode: "whatever a script says"}})
	m.TaskEnded(c, dag.Result{State: dag.StateUpForReschedule})
	m.TaskEnded(c, dag.Result{State: dag.StateFailed, Letter: &dag.DeadLetter{ErrorClass: dag.ClassExhausted}})
	m.TaskEnded(c, dag.Result{State: dag.StateFailed, Reaped: true, Letter: &dag.DeadLetter{ErrorClass: dag.ClassCrashLoop}})
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP airflow_ti_failures Task instances that failed for good.
# TYPE airflow_ti_failures counter
airflow_ti_failures 2
# HELP airflow_ti_successes Task instances that succeeded.
# TYPE airflow_ti_successes counter
airflow_ti_successes 1
# HELP airflow_zombies_killed Task instances taken back from workers that were lost.
# TYPE airflow_zombies_killed counter
airflow_zombies_killed 1
# HELP airlock_task_attempts_total Attempts that ended, by operator and the state that followed.
# TYPE airlock_task_attempts_total counter
airlock_task_attempts_total{operator="bash",state="failed"} 2
airlock_task_attempts_total{operator="bash",state="success"} 1
airlock_task_attempts_total{operator="bash",state="up_for_retry"} 2
# HELP dlq_messages_enqueued_total Dead letters that this process sealed.
# TYPE dlq_messages_enqueued_total counter
dlq_messages_enqueued_total{error_class="crash_loop",queue="io"} 1
dlq_messages_enqueued_total{error_class="exhausted",queue="io"} 1
# HELP media_task_retries_total Attempts that failed and will be repeated.
# TYPE media_task_retries_total counter
media_task_retries_total{error_code="TIMEOUT",queue="io"} 1
media_task_retries_total{error_code="other",queue="io"} 1
`), "airflow_ti_failures", "airflow_ti_successes", "airflow_zombies_killed", "airlock_task_attempts_total",
		"dlq_messages_enqueued_total", "media_task_retries_total"))
}

func TestFailedRungsAreCountedByCodec(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	m := metrics.New(reg)
	c := claim("transcode", "gpu")
	m.TaskEnded(c, dag.Result{State: dag.StateSuccess, Attempt: dag.Attempt{Detail: []byte(`{"rungs": [
		{"encoder": "h264_nvenc", "result": "unusable"},
		{"encoder": "h264_nvenc", "result": "failed", "error_code": "TIMEOUT"},
		{"encoder": "libx264", "result": "encoded"}]}`)}})
	m.TaskEnded(c, dag.Result{State: dag.StateUpForRetry, Attempt: dag.Attempt{Detail: []byte(`{"rungs": [
		{"encoder": "libx264", "result": "failed", "error_code": "TIMEOUT"},
		{"encoder": "libsvtav1", "result": "failed", "error_code": "?"}]}`)}})
	m.TaskEnded(c, dag.Result{State: dag.StateUpForRetry, Attempt: dag.Attempt{Detail: []byte(`no json`), ErrorCode: "TIMEOUT"}})
	m.TaskEnded(claim("bash", "gpu"), dag.Result{State: dag.StateUpForRetry, Attempt: dag.Attempt{Detail: []byte(`{"rungs": [{"result": "failed"}]}`)}})
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP transcode_failure_by_codec_total Encodes that failed, each rung of a ladder by itself.
# TYPE transcode_failure_by_codec_total counter
transcode_failure_by_codec_total{codec="av1",error_code="other"} 1
transcode_failure_by_codec_total{codec="h264",error_code="TIMEOUT"} 2
`), "transcode_failure_by_codec_total"))
}

func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	m := metrics.New(reg)
	for i := range 5000 {
		m.TaskEnded(claim("bash", fmt.Sprint("queue", i)), dag.Result{State: dag.StateUpForRetry, Attempt: dag.Attempt{ErrorCode: "TIMEOUT"}})
	}
	m.TaskEnded(claim("bash", "bad \xff utf-8"), dag.Result{State: dag.StateUpForRetry})
	n, err := testutil.GatherAndCount(reg, "media_task_retries_total")
	require.NoError(t, err)
	require.Equal(t, 202, n, "200 queues, the others together, and the others without a known code")
}

func TestRunsAreTimed(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	m := metrics.New(reg)
	began := noon.Add(-90 * time.Second)
	m.Pass(time.Second, dag.ScheduleReport{Now: noon, Runs: []dag.ScheduledRun{
		{Run: dag.Run{State: dag.RunRunning, StartDate: &began}, Decision: dag.Decision{State: dag.RunSuccess}},
		{Run: dag.Run{State: dag.RunRunning, StartDate: &began}, Decision: dag.Decision{State: dag.RunRunning}},
		{Run: dag.Run{State: dag.RunRunning, StartDate: &began}, Err: errors.New("put off")},
	}})
	m.Pass(time.Second, dag.ScheduleReport{Now: noon})
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP airflow_dagrun_duration_success How long successful runs took, in seconds.
# TYPE airflow_dagrun_duration_success summary
airflow_dagrun_duration_success{quantile="0.5"} 90
airflow_dagrun_duration_success{quantile="0.9"} 90
airflow_dagrun_duration_success{quantile="0.99"} 90
airflow_dagrun_duration_success_sum 90
airflow_dagrun_duration_success_count 1
# HELP airflow_scheduler_heartbeat Passes of the scheduler.
# TYPE airflow_scheduler_heartbeat counter
airflow_scheduler_heartbeat 2
`), "airflow_dagrun_duration_success", "airflow_scheduler_heartbeat"))
}

// asked counts the questions to a database that may be away.
type asked struct {
	n     int
	stats dag.Stats
	err   error
}

func (a *asked) Stats(context.Context) (dag.Stats, error) { a.n++; return a.stats, a.err }

func TestGaugesComeFromTheDatabase(t *testing.T) {
	t.Parallel()
	clock := dagtest.NewClock(noon)
	source := &asked{stats: dag.Stats{
		Now: noon,
		Letters: []dag.LetterDepth{
			{Status: dag.LetterSealed, Queue: "gpu", Count: 3, Oldest: noon.Add(-time.Hour), Expiring: 1},
			{Status: dag.LetterQuarantined, Queue: "gpu", Count: 2, Oldest: noon.Add(-2 * time.Hour)},
			{Status: dag.LetterReplaying, Queue: "io", Count: 7, Oldest: noon.Add(-3 * time.Hour)},
		},
		Unserved:  []dag.UnservedQueue{{Queue: "io", Tasks: 12}},
		Decisions: map[string]int{"replayed": 5},
		Pools:     []dag.Pool{{Name: "gpu", Slots: 4, Running: 1, Queued: 1}, {Name: "free", Slots: -1}},
		Circuits:  []dag.Circuit{{Name: "packager", State: dag.CircuitHalfOpen}},
	}}
	reg := prometheus.NewRegistry()
	reg.MustRegister(metrics.NewDatabase(source, clock))
	want := `
# HELP airflow_pool_open_slots Free slots of a pool; +Inf for a pool without a limit.
# TYPE airflow_pool_open_slots gauge
airflow_pool_open_slots{pool="free"} +Inf
airflow_pool_open_slots{pool="gpu"} 2
# HELP airlock_database_up 1 when the state database answered the last question, else 0.
# TYPE airlock_database_up gauge
airlock_database_up 1
# HELP airlock_unserved_tasks Queued task instances of a queue from which no living worker takes.
# TYPE airlock_unserved_tasks gauge
airlock_unserved_tasks{queue="io"} 12
# HELP circuit_breaker_state State of a circuit breaker: 0 closed, 1 half open, 2 open.
# TYPE circuit_breaker_state gauge
circuit_breaker_state{name="packager"} 1
# HELP dlq_depth Dead letters that wait for somebody: sealed and quarantined ones.
# TYPE dlq_depth gauge
dlq_depth{queue="gpu"} 5
dlq_depth{queue="io"} 0
# HELP dlq_oldest_age_seconds Age of the oldest dead letter that counts for dlq_depth.
# TYPE dlq_oldest_age_seconds gauge
dlq_oldest_age_seconds{queue="gpu"} 7200
dlq_oldest_age_seconds{queue="io"} 0
`
	names := []string{"airflow_pool_open_slots", "airlock_database_up", "airlock_unserved_tasks", "circuit_breaker_state", "dlq_depth", "dlq_oldest_age_seconds"}
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(want), names...))
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(want), names...))
	require.Equal(t, 1, source.n, "asked once for two scrapes within a few seconds")

	clock.Advance(6 * time.Second)
	source.stats.Unserved = nil
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP airlock_unserved_tasks Queued task instances of a queue from which no living worker takes.
# TYPE airlock_unserved_tasks gauge
airlock_unserved_tasks{queue="default"} 0
`), "airlock_unserved_tasks"), "a series that is there always")

	clock.Advance(6 * time.Second)
	source.err = errors.New("away")
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP airlock_database_up 1 when the state database answered the last question, else 0.
# TYPE airlock_database_up gauge
airlock_database_up 0
`), names...), "what is not known is not shown")
	require.Equal(t, 3, source.n)
}

// collected keeps what is registered.
type collected struct{ list []prometheus.Collector }

func (c *collected) Register(x prometheus.Collector) error { c.list = append(c.list, x); return nil }
func (c *collected) MustRegister(x ...prometheus.Collector) {
	c.list = append(c.list, x...)
}
func (c *collected) Unregister(prometheus.Collector) bool { return false }

// TestThePageNamesEveryMetric holds docs/metrics.md against what is registered:
// each metric has its line there with its labels and its help, and the page
// names none that is not.
func TestThePageNamesEveryMetric(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	kept := &collected{}
	metrics.New(kept)
	kept.list = append(kept.list, metrics.NewDatabase(&asked{}, dagtest.NewClock(noon)))
	form := regexp.MustCompile(`^Desc\{fqName: "([^"]+)", help: "(.*)", unit: "", constLabels: \{\}, variableLabels: \{([^}]*)\}\}$`)
	registered := map[string]bool{}
	for _, c := range kept.list {
		out := make(chan *prometheus.Desc, 100)
		c.Describe(out)
		close(out)
		for d := range out {
			parts := form.FindStringSubmatch(d.String())
			require.NotNil(t, parts, d.String())
			require.False(t, registered[parts[1]], "%s is registered twice", parts[1])
			registered[parts[1]] = true
			labels := "-"
			if parts[3] != "" {
				labels = "`" + strings.ReplaceAll(parts[3], ",", "`, `") + "`"
			}
			require.Contains(t, string(page), fmt.Sprintf("| `%s` | %s | %s |\n", parts[1], labels, parts[2]), "docs/metrics.md")
		}
	}
	require.Greater(t, len(registered), 30)
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		require.True(t, registered[row[1]], "docs/metrics.md names %s, which is not registered", row[1])
	}
}

func TestANameIsRegisteredOnce(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	metrics.New(reg)
	require.Panics(t, func() { metrics.New(reg) })
}
