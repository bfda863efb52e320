package load_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

const policies = `policies:
  gpu: {max_retries: 3, backoff_base: 10s, backoff_max: 600s, jitter: full, on: {HTTP_429: {backoff_base: 60s}, DISK_FULL: {max_retries: 1, jitter: false}}}
  io:  {max_retries: 8, backoff_base: 2s, backoff_max: 2m, jitter: equal, min_delay: 1s, max_crashes: 5, max_throttle_time: 2h}
`

func gpu(retries int, base time.Duration, jitter dag.Jitter) dag.ClassPolicy {
	return dag.ClassPolicy{MaxRetries: retries, BackoffBase: base, BackoffMax: 10 * time.Minute, Jitter: jitter}
}

func TestRetryLayers(t *testing.T) {
	t.Parallel()
	class := gpu(3, 10*time.Second, dag.JitterFull)
	io := dag.ClassPolicy{MaxRetries: 8, BackoffBase: 2 * time.Second, BackoffMax: 2 * time.Minute, MinDelay: time.Second, Jitter: dag.JitterEqual}
	byCode := func(retries int) map[string]dag.ClassPolicy {
		return map[string]dag.ClassPolicy{"HTTP_429": gpu(retries, time.Minute, dag.JitterFull), "DISK_FULL": gpu(1, 10*time.Second, dag.JitterNone)}
	}
	base := dag.RetryPolicy{Delay: 300 * time.Second, MaxCrashes: 3, MaxThrottleTime: time.Hour}
	with := func(change func(*dag.RetryPolicy)) dag.RetryPolicy {
		r := base
		change(&r)
		return r
	}
	tests := []struct {
		name, defaults, task string
		want                 dag.RetryPolicy
	}{
		{"Airflow's defaults", "{}", "", base},
		{"default_args without a queue", "{retries: 7, retry_delay: 1m, retry_exponential_backoff: true, max_retry_delay: 5m}", "", with(func(r *dag.RetryPolicy) {
			r.Retries, r.Delay, r.Exponential, r.MaxDelay = 7, time.Minute, 2, 5*time.Minute
		})},
		{"a multiplier", "{}", "retry_exponential_backoff: 1.5", with(func(r *dag.RetryPolicy) { r.Exponential = 1.5 })},
		{"off", "{retry_exponential_backoff: true}", "retry_exponential_backoff: false", base},
		{"retries as a text", "{}", `retries: "3"`, with(func(r *dag.RetryPolicy) { r.Retries = 3 })},
		{"the policy beats default_args", "{retries: 7, retry_delay: 1m}", "queue: gpu", with(func(r *dag.RetryPolicy) {
			r.Retries, r.Delay, r.Class, r.ByCode = 3, time.Minute, &class, byCode(3)
		})},
		{"the task's retries beat the policy's", "{}", "queue: gpu, retries: 9", with(func(r *dag.RetryPolicy) {
			r.Retries, r.Class, r.ByCode = 9, &class, byCode(9)
		})},
		{"no retries at all", "{}", "queue: gpu, retries: 0", with(func(r *dag.RetryPolicy) {
			r.Retries, r.Class, r.ByCode = 0, &class, byCode(0)
		})},
		{"the task's delay beats the policy's", "{}", "queue: gpu, retry_delay: 5s", with(func(r *dag.RetryPolicy) {
			r.Retries, r.Delay = 3, 5*time.Second
		})},
		{"any delay field counts", "{}", "queue: gpu, max_retry_delay: 5s", with(func(r *dag.RetryPolicy) {
			r.Retries, r.MaxDelay = 3, 5*time.Second
		})},
		{"the group is the task's own", "{}", "task_group_name: g", with(func(r *dag.RetryPolicy) {
			r.Retries, r.Class = 2, &io
			r.MaxCrashes, r.MaxThrottleTime = 5, 2*time.Hour
		})},
		{"budgets of the policy", "{max_crashes: 1, max_throttle_time: 1m}", "queue: io", with(func(r *dag.RetryPolicy) {
			r.Retries, r.Class, r.MaxCrashes, r.MaxThrottleTime = 8, &io, 5, 2*time.Hour
		})},
		{"budgets of the task", "{}", "queue: io, max_crashes: 0, max_throttle_time: 30s", with(func(r *dag.RetryPolicy) {
			r.Retries, r.Class, r.MaxCrashes, r.MaxThrottleTime = 8, &io, 0, 30*time.Second
		})},
		{"the queue may be inherited", "{queue: gpu}", "", with(func(r *dag.RetryPolicy) {
			r.Retries, r.Class, r.ByCode = 3, &class, byCode(3)
		})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			res := loadFiles(t, map[string]string{
				"policies.yml": policies,
				"sub/d.yml": "d:\n  default_args: " + tt.defaults + "\n  task_groups: {g: {default_args: {queue: io, retries: 2}}}\n  tasks:\n" +
					"    t: {operator: empty, " + tt.task + "}\n    x: {operator: empty, task_group_name: g}\n",
			})
			d := find(t, res, "d")
			task := d.Task("t")
			if task == nil {
				task = d.Task("g.t")
			}
			require.Equal(t, tt.want, task.Retry)
		})
	}
}

func TestWherePoliciesStand(t *testing.T) {
	t.Parallel()
	p := func(retries string) string { return "{max_retries: " + retries + ", backoff_base: 1s}" }
	res := loadFiles(t, map[string]string{
		"policies.yml":   "policies: {a: " + p("1") + ", b: " + p("1") + ", c: " + p("1") + ", d: " + p("1") + "}\n",
		"x/policies.yml": "policies: {b: " + p("2") + ", c: " + p("2") + ", d: " + p("2") + "}\n",
		"x/d.yml": "default:\n  policies: {c: " + p("3") + ", d: {max_retries: 3}}\nd:\n  tasks:\n" +
			"    a: {operator: empty, queue: a}\n    b: {operator: empty, queue: b}\n    c: {operator: empty, queue: c}\n    d: {operator: empty, queue: d}\n",
	})
	require.Empty(t, lines(res.Problems))
	d := find(t, res, "d")
	for task, retries := range map[string]int{"a": 1, "b": 2, "c": 3, "d": 3} {
		require.Equal(t, retries, d.Task(task).Retry.Retries, task)
		require.Equal(t, time.Second, d.Task(task).Retry.Class.BackoffBase)
		require.Equal(t, 24*time.Hour, d.Task(task).Retry.Class.BackoffMax, "without backoff_max a day is the limit")
		require.Equal(t, dag.JitterFull, d.Task(task).Retry.Class.Jitter)
	}
}

func TestJitterWords(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]dag.Jitter{
		"full": dag.JitterFull, "true": dag.JitterFull, "yes": dag.JitterFull, "equal": dag.JitterEqual,
		"decorrelated": dag.JitterDecorrelated, "none": dag.JitterNone, "false": dag.JitterNone, "off": dag.JitterNone,
	} {
		d := one(t, "d:\n  policies: {q: {max_retries: 1, backoff_base: 1s, jitter: "+word+"}}\n  tasks: {t: {operator: empty, queue: q}}\n")
		require.Equal(t, want, d.Task("t").Retry.Class.Jitter, word)
	}
}

func TestErrorRules(t *testing.T) {
	t.Parallel()
	d := one(t, `
d:
  tasks:
    t:
      operator: empty
      retry_on: [{exit_code: [1, 2]}, {stderr: "(?i)reset"}]
      fail_on: {exit_code: 3, code: [A, B], error_code: BAD_CONFIG}
`)
	require.Equal(t, []dag.ErrorRule{{ExitCodes: []int{1, 2}}, {Stderr: "(?i)reset"}}, d.Task("t").RetryOn)
	require.Equal(t, []dag.ErrorRule{{ExitCodes: []int{3}, Codes: []string{"A", "B"}, ErrorCode: "BAD_CONFIG"}}, d.Task("t").FailOn)
}
