package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

// TestAWaitingSensorHoldsNoPlace: the worker has one place and the sensor comes
// first; what makes its file can only run when the sensor gives the place back.
func TestAWaitingSensorHoldsNoPlace(t *testing.T) {
	t.Parallel()
	e := newEngine(t, 1, []dag.Pool{{Name: "one", Slots: 1}}, `
d:
  schedule: null
  tasks:
    wait: {operator: file_sensor, filepath: made, mode: reschedule, poke_interval: 0.2s, pool: one, priority_weight: 9}
    make: {operator: gauge, touch: made, pool: one}
    then: {operator: gauge, dependencies: [wait]}
`)
	e.trigger("d", "r", time.Time{})
	require.Equal(t, dag.RunSuccess, e.ends("d", "r"))
	wait := e.instances("d", "r", "wait")[0]
	require.Equal(t, 1, wait.TryNumber, "looking spends no try")
	require.GreaterOrEqual(t, wait.Fence, int64(2), "it looked at least once in vain")
	attempts, err := e.Store().Attempts(t.Context(), wait.TaskInstanceKey)
	require.NoError(t, err)
	require.Len(t, attempts, 1)
	e.sound()
}

// TestSensorsTimeOut: the time runs over reschedules, and a sensor that ran out
// of it is not tried again.
func TestSensorsTimeOut(t *testing.T) {
	t.Parallel()
	e := newEngine(t, 4, nil, `
d:
  schedule: null
  default_args: {retries: 5, retry_delay: 0.1s}
  tasks:
    hard: {operator: file_sensor, filepath: never, mode: reschedule, poke_interval: 0.1s, timeout: 0.5s}
    soft: {operator: file_sensor, filepath: never, mode: reschedule, poke_interval: 0.1s, timeout: 0.5s, soft_fail: true}
    poke: {operator: file_sensor, filepath: never, mode: poke, poke_interval: 0.1s, timeout: 0.5s, exponential_backoff: true, max_wait: 0.2s}
    after: {operator: gauge, dependencies: [soft]}
`)
	e.trigger("d", "r", time.Time{})
	require.Equal(t, dag.RunFailed, e.ends("d", "r"))
	for task, state := range map[string]dag.State{"hard": dag.StateFailed, "poke": dag.StateFailed, "soft": dag.StateSkipped, "after": dag.StateSkipped} {
		ti := e.instances("d", "r", task)[0]
		require.Equal(t, state, ti.State, task)
		require.LessOrEqual(t, ti.TryNumber, 1, task)
	}
	letters, err := e.Store().Letters(t.Context(), dag.LetterFilter{})
	require.NoError(t, err)
	require.Len(t, letters, 2)
	for _, l := range letters {
		require.Equal(t, "SENSOR_TIMEOUT", l.ErrorCode)
		require.Equal(t, dag.ClassPermanent, l.ErrorClass)
		require.Equal(t, 1, l.AttemptCount)
	}
	e.sound()
}

// TestFailedLooksAreRetried: a server that fails twice spends two tries; one
// that says "not yet" spends none.
func TestFailedLooksAreRetried(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch asked.Add(1) {
		case 1, 3:
			w.WriteHeader(http.StatusBadGateway)
		case 2, 4, 5:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(s.Close)
	e := newEngine(t, 1, nil, fmt.Sprintf(`
d:
  schedule: null
  tasks:
    wait: {operator: http_sensor, endpoint: "%s/x", mode: reschedule, poke_interval: 0.1s, retries: 2, retry_delay: 0.1s}
`, s.URL))
	e.trigger("d", "r", time.Time{})
	require.Equal(t, dag.RunSuccess, e.ends("d", "r"))
	require.Equal(t, int64(6), asked.Load())
	wait := e.instances("d", "r", "wait")[0]
	require.Equal(t, 3, wait.TryNumber)
	require.Equal(t, 2, wait.FailureCount)
	e.sound()
}

// TestARequestIsSentUntilItIsTaken: a server that is busy spends no try, one
// that fails does; the key is the same each time.
func TestARequestIsSentUntilItIsTaken(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var keys []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		switch len(keys) {
		case 1, 3:
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
		case 2:
			w.WriteHeader(http.StatusInternalServerError)
		default:
			w.WriteHeader(http.StatusCreated)
			_, _ = fmt.Fprintf(w, `{"id": %d}`, len(keys))
		}
	}))
	t.Cleanup(s.Close)
	e := newEngine(t, 1, nil, fmt.Sprintf(`
d:
  schedule: null
  tasks:
    send: {operator: http, endpoint: "%s/x", json: {run: "{{ run_id }}"}, response_check: "response.status_code == 201", retries: 1, retry_delay: 0.1s}
`, s.URL))
	e.trigger("d", "r", time.Time{})
	require.Equal(t, dag.RunSuccess, e.ends("d", "r"))
	send := e.instances("d", "r", "send")[0]
	require.Equal(t, 2, send.TryNumber)
	require.Equal(t, 1, send.FailureCount)
	got, err := e.Store().XCom(t.Context(), "d", "r", "send", dag.XComReturnValue, nil)
	require.NoError(t, err)
	require.Equal(t, `"{\"id\": 4}"`, string(got))
	got, err = e.Store().XCom(t.Context(), "d", "r", "send", "json", nil)
	require.NoError(t, err)
	require.JSONEq(t, `{"id": 4}`, string(got))
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, []string{"d/send/r", "d/send/r", "d/send/r", "d/send/r"}, keys)
	e.sound()
}

// TestWaitsForAnotherDAG: the consumer is there before the producer's run is,
// and waits for the run of an hour earlier, for a group and for a task.
func TestWaitsForAnotherDAG(t *testing.T) {
	t.Parallel()
	e := newEngine(t, 4, nil, `
producer:
  schedule: null
  task_groups: {load: {}}
  tasks:
    gate:  {operator: file_sensor, filepath: open, mode: reschedule, poke_interval: 0.1s}
    a:     {operator: gauge, task_group_name: load, dependencies: [gate]}
    b:     {operator: gauge, task_group_name: load, expand: {n: [1, 2, 3]}, dependencies: [gate]}
consumer:
  schedule: null
  default_args: {mode: reschedule, poke_interval: 0.1s}
  tasks:
    whole: {operator: external_task_sensor, external_dag_id: producer, execution_delta: 1h}
    group: {operator: external_task_sensor, external_dag_id: producer, external_task_group_id: load, execution_delta: 1h, check_existence: true}
    task:  {operator: external_task_sensor, external_dag_id: producer, external_task_id: load.a, execution_delta: 1h}
lost:
  schedule: null
  default_args: {retries: 3}
  tasks:
    dag:  {operator: external_task_sensor, external_dag_id: nowhere, check_existence: true}
    task: {operator: external_task_sensor, external_dag_id: producer, external_task_id: nope, check_existence: true}
`)
	date := time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)
	e.trigger("consumer", "c", date)
	require.Eventually(t, func() bool { // all have looked in vain and look again
		for _, task := range []string{"whole", "group", "task"} {
			if e.instances("consumer", "c", task)[0].Fence < 2 {
				return false
			}
		}
		return true
	}, patience, 10*time.Millisecond)
	e.trigger("producer", "wrong date", date)
	e.trigger("producer", "right date", date.Add(-time.Hour))
	require.NoError(t, os.WriteFile(filepath.Join(e.dags, "open"), nil, 0o600))
	require.Equal(t, dag.RunSuccess, e.ends("consumer", "c"))
	require.Equal(t, dag.RunSuccess, e.ends("producer", "right date"))

	e.trigger("lost", "l", date)
	require.Equal(t, dag.RunFailed, e.ends("lost", "l"))
	letters, err := e.Store().Letters(t.Context(), dag.LetterFilter{})
	require.NoError(t, err)
	codes := map[string]string{}
	for _, l := range letters {
		codes[l.TaskID] = l.ErrorCode
		require.Equal(t, 1, l.AttemptCount)
	}
	require.Equal(t, map[string]string{"dag": "DAG_NOT_FOUND", "task": "INVALID_ARGUMENT"}, codes)
	e.sound()
}

// TestAWaitForARunThatWasCleanedIsExplained: cleaning took the run that a sensor
// waits for, but not the newest one of its schedule.
func TestAWaitForARunThatWasCleanedIsExplained(t *testing.T) {
	t.Parallel()
	e := newEngine(t, 4, nil, `
producer:
  schedule: "0 2 * * *"
  start_date: 2026-01-01
  end_date: 2026-01-03
  catchup: true
  tasks:
    a: {operator: gauge}
consumer:
  schedule: null
  tasks:
    wait: {operator: external_task_sensor, external_dag_id: producer, poke_interval: 0.1s, timeout: 0.2s}
`)
	at := func(day int) time.Time { return time.Date(2026, 1, day, 2, 0, 0, 0, time.UTC) }
	for day := 1; day <= 2; day++ { // the third is after the end
		require.Equal(t, dag.RunSuccess, e.ends("producer", "scheduled__"+at(day).Format("2006-01-02T15:04:05+00:00")))
	}
	cleaned, err := e.Store().Clean(t.Context(), dag.CleanBatch{Kind: dag.CleanRuns, Before: dag.SystemClock{}.Now().Add(time.Hour), Limit: 100})
	require.NoError(t, err)
	require.Equal(t, 1, cleaned.Deleted, "the newest stays")
	e.trigger("consumer", "gone", at(1))
	e.trigger("consumer", "to come", at(3))
	require.Equal(t, dag.RunFailed, e.ends("consumer", "gone"))
	require.Equal(t, dag.RunFailed, e.ends("consumer", "to come"))
	letters, err := e.Store().Letters(t.Context(), dag.LetterFilter{DagID: "consumer"})
	require.NoError(t, err)
	require.Len(t, letters, 2)
	for _, l := range letters {
		require.Equal(t, "SENSOR_TIMEOUT", l.ErrorCode)
		const why = "its schedule has gone on to 2026-01-02T02:00:00Z: that run was cleaned away, or never made"
		require.Equal(t, l.RunID == "gone", strings.Contains(l.ErrorMessage, why), l.ErrorMessage)
	}
	e.sound()
}
