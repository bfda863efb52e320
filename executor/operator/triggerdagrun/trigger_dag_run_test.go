package triggerdagrun_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/operator"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
	"github.com/airlock-dag/airlock/executor/operator/triggerdagrun"
)

func TestRequests(t *testing.T) {
	t.Parallel()
	date := time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		args map[string]any
		want operator.TriggerRequest
	}{
		"only the DAG": {map[string]any{"trigger_dag_id": "other"}, operator.TriggerRequest{DagID: "other"}},
		"all": {map[string]any{"trigger_dag_id": " other ", "trigger_run_id": "r1", "logical_date": "2026-03-01T04:00:00+02:00", "conf": map[string]any{"a": 1}},
			operator.TriggerRequest{DagID: "other", RunID: "r1", LogicalDate: &date, Conf: map[string]any{"a": 1}}},
		"conf as text": {map[string]any{"trigger_dag_id": "other", "conf": `{"id": 9007199254740993}`},
			operator.TriggerRequest{DagID: "other", Conf: map[string]any{"id": json.Number("9007199254740993")}}},
		"empty texts":         {map[string]any{"trigger_dag_id": "other", "conf": " ", "logical_date": "", "trigger_run_id": ""}, operator.TriggerRequest{DagID: "other"}},
		"date without a zone": {map[string]any{"trigger_dag_id": "other", "logical_date": "2026-03-01 02:00:00"}, operator.TriggerRequest{DagID: "other", LogicalDate: &date}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := operatortest.New(t, tc.args)
			out := triggerdagrun.New().Run(t.Context(), f.Task)
			require.Equal(t, dag.OutcomeSuccess, out.Kind, "%v", out.Err)
			require.Equal(t, []operator.TriggerRequest{tc.want}, f.Triggers())
			require.Equal(t, map[string]any{"trigger_run_id": out.ReturnValue}, out.XComs)
		})
	}
}

func TestWrongArguments(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]map[string]any{
		"no DAG":       {},
		"empty DAG":    {"trigger_dag_id": "  "},
		"conf a list":  {"trigger_dag_id": "o", "conf": []any{}},
		"conf no JSON": {"trigger_dag_id": "o", "conf": "{a}"},
		"conf two":     {"trigger_dag_id": "o", "conf": "{} {}"},
		"odd date":     {"trigger_dag_id": "o", "logical_date": "yesterday"},
		"odd run id":   {"trigger_dag_id": "o", "trigger_run_id": 1.0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := operatortest.New(t, args)
			out := triggerdagrun.New().Run(t.Context(), f.Task)
			require.Equal(t, dag.OutcomeFailed, out.Kind)
			require.Equal(t, "INVALID_ARGUMENT", out.Err.Code)
			require.Empty(t, f.Triggers())
		})
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err   error
		code  string
		class dag.ErrorClass
	}{
		"no such DAG":     {&dag.Error{Code: dag.ErrNotFound, Op: "trigger other"}, "DAG_NOT_FOUND", dag.ClassConfiguration},
		"bad conf":        {&dag.Error{Code: dag.ErrInvalid, Op: "trigger other"}, "INVALID_ARGUMENT", dag.ClassConfiguration},
		"conflict":        {&dag.Error{Code: dag.ErrConflict, Op: "trigger other"}, "TRIGGER_FAILED", dag.ClassTransient},
		"database away":   {fmt.Errorf("dial: %w", syscall.ECONNREFUSED), "CONNECTION_REFUSED", dag.ClassTransient},
		"something other": {errors.New("what"), "TRIGGER_FAILED", dag.ClassTransient},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := operatortest.New(t, map[string]any{"trigger_dag_id": "other"})
			f.Task.Trigger = func(context.Context, operator.TriggerRequest) (string, error) { return "", tc.err }
			out := triggerdagrun.New().Run(t.Context(), f.Task)
			require.Equal(t, tc.code, out.Err.Code)
			require.Equal(t, tc.class, out.Err.Class)
		})
	}
}

func TestWaiting(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		state dag.RunState
		args  map[string]any
		kind  dag.OutcomeKind
	}{
		"still queued":     {dag.RunQueued, nil, dag.OutcomeReschedule},
		"still running":    {dag.RunRunning, nil, dag.OutcomeReschedule},
		"done":             {dag.RunSuccess, nil, dag.OutcomeSuccess},
		"failed":           {dag.RunFailed, nil, dag.OutcomeFailed},
		"gone":             {"", nil, dag.OutcomeFailed},
		"failed is fine":   {dag.RunFailed, map[string]any{"allowed_states": []any{"success", "failed"}}, dag.OutcomeSuccess},
		"running is fine":  {dag.RunRunning, map[string]any{"allowed_states": "running"}, dag.OutcomeSuccess},
		"neither":          {dag.RunSuccess, map[string]any{"allowed_states": []any{"failed"}}, dag.OutcomeFailed},
		"success is wrong": {dag.RunSuccess, map[string]any{"allowed_states": []any{}, "failed_states": []any{"success"}}, dag.OutcomeFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := map[string]any{"trigger_dag_id": "other", "trigger_run_id": "r", "wait_for_completion": true, "poke_interval": 5.0}
			for k, v := range tc.args {
				args[k] = v
			}
			f := operatortest.New(t, args)
			f.RunStates = map[string]dag.RunState{"other/r": tc.state}
			out := triggerdagrun.New().Run(t.Context(), f.Task)
			require.Equal(t, tc.kind, out.Kind, "%v", out.Err)
			switch tc.kind {
			case dag.OutcomeReschedule:
				require.False(t, out.RescheduleAt.Before(f.Clock.Now().Add(-time.Minute)))
			case dag.OutcomeFailed:
				require.Equal(t, "EXTERNAL_TASK_FAILED", out.Err.Code)
			}
		})
	}
}

// TestPokeInterval takes what sensors take: a wait of less than a second is one,
// and none turns in circles.
func TestPokeInterval(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		interval any
		wait     time.Duration
	}{
		{nil, time.Minute}, {0.5, 500 * time.Millisecond}, {0.1, 100 * time.Millisecond}, {0.0, 100 * time.Millisecond},
		{-5.0, 100 * time.Millisecond}, {90.0, 90 * time.Second}, {1e12, 9e9 * time.Second},
	} {
		args := map[string]any{"trigger_dag_id": "other", "trigger_run_id": "r", "wait_for_completion": true}
		if tc.interval != nil {
			args["poke_interval"] = tc.interval
		}
		f := operatortest.New(t, args)
		f.RunStates = map[string]dag.RunState{"other/r": dag.RunRunning}
		before := f.Clock.Now()
		out := triggerdagrun.New().Run(t.Context(), f.Task)
		require.Equal(t, dag.OutcomeReschedule, out.Kind, "%v", out.Err)
		require.False(t, out.RescheduleAt.Before(before.Add(tc.wait)), "%v", tc.interval)
		require.False(t, out.RescheduleAt.After(f.Clock.Now().Add(tc.wait)), "%v", tc.interval)
	}
}

func TestSpec(t *testing.T) {
	t.Parallel()
	s := triggerdagrun.New().Spec()
	require.Equal(t, "trigger_dag_run", s.Name)
	require.Contains(t, s.Aliases, "airflow.operators.trigger_dagrun.TriggerDagRunOperator")
	require.Empty(t, s.Validate(map[string]any{"allowed_states": []any{"success"}}))
	require.Len(t, s.Validate(map[string]any{"failed_states": []any{"skipped"}}), 1)
}
