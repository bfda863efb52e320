package externaltasksensor_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/operator"
	"github.com/airlock-dag/airlock/executor/operator/externaltasksensor"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
)

// states writes the instances of tasks shortly.
func states(kv ...any) map[string]map[dag.State]int {
	out := map[string]map[dag.State]int{}
	for i := 0; i < len(kv); i += 2 {
		id := kv[i].(string)
		if out[id] == nil {
			out[id] = map[dag.State]int{}
		}
		out[id][kv[i+1].(dag.State)]++
	}
	return out
}

// look is one look of a sensor in reschedule mode at the given states.
func look(t *testing.T, args map[string]any, got operator.ExternalStates) (dag.Outcome, operator.ExternalQuery) {
	t.Helper()
	args["mode"] = "reschedule"
	if args["external_dag_id"] == nil {
		args["external_dag_id"] = "other"
	}
	f := operatortest.New(t, args)
	var asked operator.ExternalQuery
	f.External = func(q operator.ExternalQuery) (operator.ExternalStates, error) {
		asked = q
		return got, nil
	}
	return externaltasksensor.New().Run(t.Context(), f.Task), asked
}

func TestWhatStatesMean(t *testing.T) {
	t.Parallel()
	const done, wait, fail, skip = dag.OutcomeSuccess, dag.OutcomeReschedule, dag.OutcomeFailed, dag.OutcomeSkipped
	const ok, bad, none = dag.StateSuccess, dag.StateFailed, dag.StateNone
	m := func(kv ...any) map[string]any {
		out := map[string]any{}
		for i := 0; i < len(kv); i += 2 {
			out[kv[i].(string)] = kv[i+1]
		}
		return out
	}
	run := func(s dag.RunState) operator.ExternalStates { return operator.ExternalStates{Run: s} }
	tasks := func(ids []string, kv ...any) operator.ExternalStates {
		return operator.ExternalStates{Run: dag.RunRunning, TaskIDs: ids, Tasks: states(kv...)}
	}
	one, two := []string{"a"}, []any{"a", "b"}
	ab := []string{"a", "b"}
	for name, c := range map[string]struct {
		args map[string]any
		got  operator.ExternalStates
		want dag.OutcomeKind
	}{
		"no DAG yet":                {m(), operator.ExternalStates{NoDAG: true}, wait},
		"no DAG and check":          {m("check_existence", true), operator.ExternalStates{NoDAG: true}, fail},
		"no run yet":                {m("check_existence", true), operator.ExternalStates{}, wait},
		"the run runs":              {m(), run(dag.RunRunning), wait},
		"the run is done":           {m(), run(dag.RunSuccess), done},
		"the run failed, by itself": {m(), run(dag.RunFailed), wait},
		"the run failed":            {m("failed_states", []any{"failed"}), run(dag.RunFailed), fail},
		"the run failed, softly":    {m("failed_states", []any{"failed"}, "soft_fail", true), run(dag.RunFailed), skip},
		"the other way round":       {m("allowed_states", []any{"failed"}, "failed_states", []any{"success"}), run(dag.RunFailed), done},
		"a task":                    {m("external_task_id", "a"), tasks(one, "a", ok), done},
		"a task is not done":        {m("external_task_id", "a"), tasks(one, "a", none), wait},
		"a task failed, by itself":  {m("external_task_id", "a"), tasks(one, "a", bad), wait},
		"a task that is not there":  {m("external_task_id", "a"), tasks(one), wait},
		"an unknown task and check": {m("external_task_id", "a", "check_existence", true), operator.ExternalStates{Run: dag.RunRunning, Unknown: one, TaskIDs: one}, fail},
		"one of two":                {m("external_task_ids", two), tasks(ab, "a", ok, "b", none), wait},
		"one of two is not there":   {m("external_task_ids", two), tasks(ab, "a", ok), wait},
		"two":                       {m("external_task_ids", two), tasks(ab, "a", ok, "b", ok), done},
		"one failed":                {m("external_task_ids", two, "failed_states", "failed"), tasks(ab, "a", ok, "b", bad), fail},
		"mapped, one is missing":    {m("external_task_id", "a"), tasks(one, "a", ok, "a", ok, "a", dag.StateRunning), wait},
		"mapped":                    {m("external_task_id", "a"), tasks(one, "a", ok, "a", ok), done},
		"mapped, one failed":        {m("external_task_id", "a", "failed_states", "failed"), tasks(one, "a", ok, "a", bad), fail},
		"skipped, by itself":        {m("external_task_id", "a"), tasks(one, "a", dag.StateSkipped), wait},
		"skipped will do":           {m("external_task_id", "a", "allowed_states", []any{"success", "skipped"}), tasks(one, "a", dag.StateSkipped), done},
		"skipped makes a skip":      {m("external_task_id", "a", "skipped_states", "skipped"), tasks(one, "a", dag.StateSkipped), skip},
		"failed before skipped":     {m("external_task_ids", two, "skipped_states", "skipped", "failed_states", "failed"), tasks(ab, "a", dag.StateSkipped, "b", bad), fail},
		"a group":                   {m("external_task_group_id", "g"), tasks(ab, "a", ok, "b", ok), done},
		"a group that waits":        {m("external_task_group_id", "g"), tasks(ab, "a", ok, "b", dag.StateUpForRetry), wait},
		"a group that is not there": {m("external_task_group_id", "g"), operator.ExternalStates{Run: dag.RunRunning, Unknown: []string{"g"}}, wait},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, _ := look(t, c.args, c.got)
			require.Equal(t, c.want, out.Kind, "%v", out.Err)
		})
	}
}

func TestWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	date := operatortest.LogicalDate()
	_, q := look(t, map[string]any{"external_task_id": " a "}, operator.ExternalStates{})
	require.Equal(t, operator.ExternalQuery{DagID: "other", LogicalDate: date, TaskIDs: []string{"a"}}, q)
	_, q = look(t, map[string]any{"external_task_group_id": "g", "execution_delta": 5400.0}, operator.ExternalStates{})
	require.Equal(t, operator.ExternalQuery{DagID: "other", LogicalDate: date.Add(-90 * time.Minute), GroupID: "g"}, q)

	f := operatortest.New(t, map[string]any{"external_dag_id": "other", "mode": "reschedule"})
	f.Run.LogicalDate, f.Run.RunAfter = nil, date.Add(time.Hour)
	f.External = func(q operator.ExternalQuery) (operator.ExternalStates, error) {
		require.Equal(t, date.Add(time.Hour), q.LogicalDate)
		return operator.ExternalStates{}, errors.New("the database is away")
	}
	out := externaltasksensor.New().Run(t.Context(), f.Task)
	require.Equal(t, "STATE_DB_UNAVAILABLE", out.Err.Code)
	require.Equal(t, dag.ClassTransient, out.Err.Class)
}

func TestCodes(t *testing.T) {
	t.Parallel()
	out, _ := look(t, map[string]any{"failed_states": "failed"}, operator.ExternalStates{Run: dag.RunFailed})
	require.Equal(t, "EXTERNAL_TASK_FAILED", out.Err.Code)
	out, _ = look(t, map[string]any{"check_existence": true}, operator.ExternalStates{NoDAG: true})
	require.Equal(t, "DAG_NOT_FOUND", out.Err.Code)
	out, _ = look(t, map[string]any{"check_existence": true, "external_task_id": "a"}, operator.ExternalStates{Unknown: []string{"a"}})
	require.Equal(t, "INVALID_ARGUMENT", out.Err.Code)
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	validate := externaltasksensor.New().Spec().Validate
	require.Empty(t, validate(map[string]any{"external_dag_id": "d", "external_task_ids": []any{}, "external_task_id": "a", "failed_states": []any{"upstream_failed"}}))
	for _, args := range []map[string]any{
		{"external_dag_id": " "},
		{"external_task_id": "a", "external_task_ids": []any{"b"}},
		{"external_task_id": "a", "external_task_group_id": "g"},
		{"external_task_ids": []any{"a", "a"}},
		{"allowed_states": []any{"skipped"}}, // no state of a run
		{"external_task_id": "a", "allowed_states": []any{"succes"}},
		{"external_task_id": "a", "failed_states": []any{"success"}}, // allowed by default
		{"external_task_id": "a", "skipped_states": "skipped", "failed_states": []any{"skipped"}},
		{"timeout": -1.0},
	} {
		if args["external_dag_id"] == nil {
			args["external_dag_id"] = "other"
		}
		require.Len(t, validate(args), 1, "%v", args)
		if args["timeout"] == nil {
			out, _ := look(t, args, operator.ExternalStates{Run: dag.RunSuccess})
			require.Equal(t, "INVALID_ARGUMENT", out.Err.Code, "%v", args)
		}
	}
	f := operatortest.New(t, map[string]any{"external_dag_id": "other"})
	f.ExternalStates = nil
	require.Equal(t, "INVALID_ARGUMENT", externaltasksensor.New().Run(t.Context(), f.Task).Err.Code)
}

// A run that will not come by itself is waited for all the same, for somebody may
// make it; the log and the letter of the timeout say what is the matter.
func TestARunThatIsGoneIsTold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		newest time.Time
		want   bool
	}{{time.Time{}, false}, {operatortest.LogicalDate().Add(24 * time.Hour), true}} {
		f := operatortest.New(t, map[string]any{"mode": "reschedule", "external_dag_id": "other"})
		f.External = func(operator.ExternalQuery) (operator.ExternalStates, error) {
			return operator.ExternalStates{Newest: c.newest}, nil
		}
		require.Equal(t, dag.OutcomeReschedule, externaltasksensor.New().Run(t.Context(), f.Task).Kind)
		require.Contains(t, f.Output.String(), "DAG other at ")
		require.Equal(t, c.want, strings.Contains(f.Output.String(), "was cleaned away, or never made"), f.Output.String())
	}
}
