package executor_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
	"github.com/airlock-dag/airlock/executor"
	"github.com/airlock-dag/airlock/executor/fault"
)

var (
	began = time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	ended = began.Add(time.Minute)
	half  = &dagtest.Rand{Values: []float64{0.5}}
)

// ending is an attempt of a task with 2 retries of 10 s, 3 crashes and an hour
// of throttling.
func ending(out dag.Outcome, change func(*executor.Ending)) executor.Ending {
	d := &dag.DAG{ID: "d", FileLoc: "d.yml", Timezone: "UTC", Tasks: []dag.Task{
		{
			ID: "a", Operator: "bash", TriggerRule: dag.AllSuccess, DoXComPush: true,
			Retry: dag.RetryPolicy{Retries: 2, Delay: 10 * time.Second, MaxCrashes: 3, MaxThrottleTime: time.Hour},
			Callbacks: dag.Callbacks{
				OnFailure: []dag.Callback{{Name: "log"}}, OnRetry: []dag.Callback{{Name: "log"}, {Name: "webhook"}},
				OnSuccess: []dag.Callback{{Name: "log"}}, OnSkipped: []dag.Callback{{Name: "log"}},
			},
		},
		{ID: "b", Operator: "bash", TriggerRule: dag.AllSuccess, Upstream: []string{"a"}},
		{ID: "c", Operator: "bash", TriggerRule: dag.AllSuccess, Upstream: []string{"a"}},
	}}
	in := executor.Ending{
		DAG: d, Task: &d.Tasks[0], Outcome: out, Start: began, End: ended, LogPath: "x.log", WorkerID: "w", Hostname: "h",
		Claim: dag.Claim{
			TaskInstance: dag.TaskInstance{
				ID: 7, TaskInstanceKey: dag.TaskInstanceKey{DagID: "d", RunID: "r", TaskID: "a", MapIndex: -1},
				State: dag.StateRunning, TryNumber: 1, Fence: 4, Queue: "q",
			},
			Run: dag.Run{ID: 3, DagID: "d", RunID: "r"},
		},
		Args: map[string]any{"bash_command": "exit 1", "password": "hunter2"},
	}
	if change != nil {
		change(&in)
	}
	return in
}

func kinds(events []dag.Event) []dag.EventKind {
	var out []dag.EventKind
	for _, e := range events {
		out = append(out, e.Kind)
	}
	return out
}

func TestDecideFailureBudget(t *testing.T) {
	t.Parallel()
	transient := dag.Failed(fault.New(fault.CodeExitCode, "exit code 1"))
	for failures := range 2 { // two retries are left for the first and the second failure
		r := executor.Decide(ending(transient, func(in *executor.Ending) {
			in.Claim.FailureCount, in.Claim.TryNumber = failures, failures+1
		}), half)
		require.Equal(t, dag.StateUpForRetry, r.State)
		require.Equal(t, ended.Add(10*time.Second), *r.NextTryAt, "the delay counts from the attempt's end")
		require.Equal(t, dag.BudgetFailures, r.Spent)
		require.True(t, r.SpendTry)
		require.Nil(t, r.Letter)
		require.Equal(t, []dag.EventKind{dag.EventRetry, dag.EventRetry}, kinds(r.Events))
		require.Equal(t, int64(4), r.Fence)
		require.Equal(t, dag.ClassTransient, r.Attempt.ErrorClass)
	}
	r := executor.Decide(ending(transient, func(in *executor.Ending) { in.Claim.FailureCount, in.Claim.TryNumber = 2, 3 }), half)
	require.Equal(t, dag.StateFailed, r.State)
	require.Nil(t, r.NextTryAt)
	require.Equal(t, []dag.EventKind{dag.EventFailure}, kinds(r.Events))
	require.Equal(t, dag.ClassExhausted, r.Letter.ErrorClass)
	require.Equal(t, fault.CodeExitCode, r.Letter.ErrorCode)
	require.Equal(t, 3, r.Letter.AttemptCount)
	require.Equal(t, "d/a/r", r.Letter.IdempotencyKey)
	require.JSONEq(t, `{"bash_command": "exit 1", "password": "***"}`, string(r.Letter.Payload))
	require.Equal(t, dag.PayloadHash(r.Letter.Payload), r.Letter.OriginalPayloadHash)
	require.Equal(t, ended.Add(14*24*time.Hour), r.Letter.ExpiresAt)
}

func TestDecideSealsAtOnceWhatCannotSucceed(t *testing.T) {
	t.Parallel()
	for _, class := range []dag.ErrorClass{dag.ClassPermanent, dag.ClassPoison, dag.ClassConfiguration, dag.ClassCapability} {
		r := executor.Decide(ending(dag.Failed(&dag.TaskError{Class: class, Code: "X", Message: "m"}), nil), half)
		require.Equal(t, dag.StateFailed, r.State, class)
		require.Equal(t, class, r.Letter.ErrorClass)
		require.Equal(t, 1, r.Letter.AttemptCount)
	}
}

func TestDecideCrashBudgetIsItsOwn(t *testing.T) {
	t.Parallel()
	lost := dag.Failed(fault.New(fault.CodeWorkerLost, "lost"))
	for crashes := range 2 {
		r := executor.Decide(ending(lost, func(in *executor.Ending) {
			in.Claim.CrashCount, in.Claim.FailureCount, in.Reaped = crashes, 2, true // no retry left, which does not matter
		}), half)
		require.Equal(t, dag.StateUpForRetry, r.State)
		require.Equal(t, dag.BudgetCrashes, r.Spent)
		require.True(t, r.Reaped)
		require.Equal(t, ended, *r.NextTryAt, "a lost worker's task is redelivered at once")
	}
	r := executor.Decide(ending(lost, func(in *executor.Ending) { in.Claim.CrashCount = 2 }), half)
	require.Equal(t, dag.StateFailed, r.State, "the third crash is the last")
	require.Equal(t, dag.ClassCrashLoop, r.Letter.ErrorClass)
}

func TestDecideThrottlingSpendsNoTry(t *testing.T) {
	t.Parallel()
	throttled := dag.Failed(&dag.TaskError{Class: dag.ClassTransient, Code: "HTTP_429", Message: "slow down", Budget: dag.BudgetThrottling, RetryAfter: 20 * time.Minute})
	r := executor.Decide(ending(throttled, func(in *executor.Ending) { in.Claim.FailureCount, in.Claim.ThrottledFor = 2, 40*time.Minute }), half)
	require.Equal(t, dag.StateUpForRetry, r.State)
	require.False(t, r.SpendTry)
	require.Equal(t, 20*time.Minute, r.ThrottledFor)
	require.Equal(t, ended.Add(20*time.Minute), *r.NextTryAt)

	r = executor.Decide(ending(throttled, func(in *executor.Ending) { in.Claim.ThrottledFor = 40*time.Minute + time.Second }), half)
	require.Equal(t, dag.StateFailed, r.State, "20 more minutes would pass the hour")
	require.Equal(t, dag.ClassExhausted, r.Letter.ErrorClass)
}

func TestDecideWithoutAFailure(t *testing.T) {
	t.Parallel()
	at := ended.Add(time.Minute)
	for name, c := range map[string]struct {
		out    dag.Outcome
		state  dag.State
		spend  bool
		events []dag.EventKind
	}{
		"success":    {dag.Success("v"), dag.StateSuccess, true, []dag.EventKind{dag.EventSuccess}},
		"skipped":    {dag.Outcome{Kind: dag.OutcomeSkipped}, dag.StateSkipped, true, []dag.EventKind{dag.EventSkipped}},
		"reschedule": {dag.Outcome{Kind: dag.OutcomeReschedule, RescheduleAt: at}, dag.StateUpForReschedule, false, nil},
		"released":   {dag.Outcome{Kind: dag.OutcomeReleased}, dag.StateQueued, false, nil},
	} {
		r := executor.Decide(ending(c.out, nil), half)
		require.Equal(t, c.state, r.State, name)
		require.Equal(t, c.spend, r.SpendTry, name)
		require.Equal(t, c.events, kinds(r.Events), name)
		require.Nil(t, r.Letter, name)
	}
	r := executor.Decide(ending(dag.Success(map[string]any{"n": json.Number("9007199254740993")}), func(in *executor.Ending) { in.Task.MultipleOutputs = true }), half)
	require.Equal(t, map[string]json.RawMessage{
		"return_value": json.RawMessage(`{"n":9007199254740993}`), "n": json.RawMessage(`9007199254740993`),
	}, r.XComs)
}

func TestDecideRefusesWhatCannotBeStored(t *testing.T) {
	t.Parallel()
	r := executor.Decide(ending(dag.Success(make(chan int)), nil), half)
	require.Equal(t, fault.CodeXComNotJSON, r.Letter.ErrorCode)
	r = executor.Decide(ending(dag.Success(strings.Repeat("x", executor.MaxXCom)), nil), half)
	require.Equal(t, fault.CodeXComTooLarge, r.Letter.ErrorCode)
	require.Empty(t, r.XComs)
	follow := []string{"nobody"}
	r = executor.Decide(ending(dag.Outcome{Kind: dag.OutcomeSuccess, Branch: &follow}, nil), half)
	require.Equal(t, fault.CodeBranchUnknownTask, r.Letter.ErrorCode)
}

// TestDecideRefusesWhatOthersCannotBeExpandedOver: the mistake is the source's,
// not that of the task that would be expanded.
func TestDecideRefusesWhatOthersCannotBeExpandedOver(t *testing.T) {
	t.Parallel()
	over := func(source dag.ExpandSource) func(*executor.Ending) {
		return func(in *executor.Ending) {
			source.XCom = in.Task.ID
			in.DAG = &dag.DAG{ID: in.DAG.ID, Tasks: []dag.Task{*in.Task, {ID: "each", Expand: &dag.Expand{
				Names: []string{"path"}, Args: map[string]dag.ExpandSource{"path": source},
			}}}}
		}
	}
	for _, bad := range []any{nil, "text", 7, true} {
		r := executor.Decide(ending(dag.Success(bad), over(dag.ExpandSource{})), half)
		require.Equal(t, dag.StateFailed, r.State, "%v", bad)
		require.Equal(t, fault.CodeExpansionSource, r.Letter.ErrorCode)
		require.Empty(t, r.XComs)
	}
	for _, good := range []any{[]string{}, []string(nil), []any{1}, map[string]any{"k": 1}} {
		r := executor.Decide(ending(dag.Success(good), over(dag.ExpandSource{})), half)
		require.Equal(t, dag.StateSuccess, r.State, "%v", good)
	}
	r := executor.Decide(ending(dag.Success(nil), over(dag.ExpandSource{Key: "other"})), half)
	require.Equal(t, dag.StateSuccess, r.State, "another value is what it is expanded over")
}

func TestDecideBranchSkipsTheOthers(t *testing.T) {
	t.Parallel()
	follow := []string{"c"}
	r := executor.Decide(ending(dag.Outcome{Kind: dag.OutcomeSuccess, Branch: &follow}, nil), half)
	require.Equal(t, []string{"b"}, r.SkipTasks)
}

func TestDecideSealsATaskThatIsGone(t *testing.T) {
	t.Parallel()
	r := executor.Decide(ending(dag.Failed(fault.New(fault.CodeTaskRemoved, "gone")), func(in *executor.Ending) { in.Task, in.DAG = nil, nil }), half)
	require.Equal(t, dag.StateFailed, r.State)
	require.NotNil(t, r.Letter)
}
