package executor

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/retry"
	"github.com/airlock-dag/airlock/executor/breaker"
	"github.com/airlock-dag/airlock/executor/fault"
)

// MaxXCom is the most bytes that one XCom value may have.
const MaxXCom = 4 << 20

// Ending is one attempt that has ended, with what the decision needs.
type Ending struct {
	DAG     *dag.DAG  // nil when the version could not be read
	Task    *dag.Task // nil when the DAG has no such task any more
	Claim   dag.Claim
	Outcome dag.Outcome
	Start   time.Time
	End     time.Time
	// Args are the rendered arguments, nil when rendering did not come about.
	Args           map[string]any
	IdempotencyKey string
	LogPath        string
	WorkerID       string
	Hostname       string
	Detail         json.RawMessage
	// OpenedInput is the hash of the media input that the attempt opened last.
	OpenedInput string
	// PreviousDelay was drawn for the retry that this attempt was; 0 for the first.
	PreviousDelay time.Duration
	// Reaped is set when the reaper speaks for a worker that is gone.
	Reaped bool

	planOnly bool
	trouble  *trouble        // with the state database, while the attempt ran
	tell     *teller         // of the progress; nil where nobody reports
	ticket   *breaker.Ticket // what the attempt may use; nil before it asked
}

// Decide turns an ending into the one state change that follows from it: done,
// skipped, tried again, handed back or sealed. It is pure but for the draw from
// rnd, which happens at most once.
func Decide(in Ending, rnd dag.Rand) dag.Result {
	r := dag.Result{TaskInstanceID: in.Claim.ID, Fence: in.Claim.Fence, SpendTry: true, Reaped: in.Reaped}
	out := in.Outcome
	if out.Kind == dag.OutcomeSuccess {
		if err := collect(&r, in); err != nil {
			out = dag.Failed(err)
			r.XComs, r.SkipTasks = nil, nil
		}
	}
	var e *dag.TaskError
	switch out.Kind {
	case dag.OutcomeSuccess:
		r.State = dag.StateSuccess
		r.Events = in.events(dag.EventSuccess, nil, nil)
	case dag.OutcomeSkipped:
		r.State = dag.StateSkipped
		e = out.Err
		r.Events = in.events(dag.EventSkipped, e, nil)
	case dag.OutcomeReschedule:
		at := out.RescheduleAt
		r.State, r.SpendTry, r.NextTryAt = dag.StateUpForReschedule, false, &at
	case dag.OutcomeReleased:
		r.State, r.SpendTry = dag.StateQueued, false
	default:
		e = out.Err
		if e == nil {
			e = fault.New(fault.CodeUnknown, "the step failed and said nothing")
		}
		e = in.refined(e)
		in.fail(&r, e, rnd)
		if fault.BlamesInput(e) {
			r.FailedInput, r.CountInput = in.OpenedInput, in.Reaped
		}
	}
	r.Attempt = dag.Attempt{
		TaskInstanceID: in.Claim.ID, TryNumber: in.Claim.TryNumber, Fence: in.Claim.Fence, State: r.State,
		WorkerID: in.WorkerID, Hostname: in.Hostname, StartDate: in.Start, EndDate: in.End,
		DelayCeiling: r.DelayCeiling, Delay: r.Delay, LogPath: in.LogPath, Detail: in.Detail,
	}
	if e != nil {
		r.Attempt.ErrorClass, r.Attempt.ErrorCode = e.Class, e.Code
		r.Attempt.ErrorMessage, r.Attempt.ExitCode = dag.CutText(e.Message, dag.MaxErrorMessage), e.ExitCode
	}
	return r
}

// refined applies the task's own retry_on and fail_on rules.
func (in Ending) refined(e *dag.TaskError) *dag.TaskError {
	if in.Task == nil || in.Reaped {
		return e
	}
	return fault.Apply(in.Task, e, e.Stack)
}

// fail spends the right budget, and retries or seals.
func (in Ending) fail(r *dag.Result, e *dag.TaskError, rnd dag.Rand) {
	ti, policy := in.Claim.TaskInstance, in.policy()
	r.Spent = e.Budget
	if r.Spent == "" {
		r.Spent = dag.BudgetFailures
	}
	attempt := retry.Attempt{
		DagID: ti.DagID, TaskID: ti.TaskID, LogicalDate: in.Claim.Run.LogicalDate, TryNumber: max(ti.TryNumber, 1),
		Failures: ti.FailureCount + 1, PreviousDelay: in.PreviousDelay, ErrorCode: e.Code, RetryAfter: e.RetryAfter,
	}
	again := e.Class == dag.ClassTransient
	switch r.Spent {
	case dag.BudgetCrashes:
		attempt.Failures = ti.CrashCount + 1
		if again && ti.CrashCount+1 >= policy.MaxCrashes {
			again = false
		}
	case dag.BudgetThrottling:
		attempt.Failures = ti.FailureCount + 1
	default:
		if again && ti.FailureCount+1 > policy.RetriesFor(e.Code) {
			again = false
		}
	}
	if again {
		var d retry.Delay
		if !in.Reaped { // a lost worker's task has waited for its lease already
			d = retry.Next(policy, attempt, rnd)
		}
		if r.Spent == dag.BudgetThrottling {
			if ti.ThrottledFor+d.Delay > policy.MaxThrottleTime {
				again = false
			} else {
				r.SpendTry, r.ThrottledFor = false, d.Delay
			}
		}
		if again {
			due := in.End.Add(d.Delay)
			r.State, r.NextTryAt, r.DelayCeiling, r.Delay = dag.StateUpForRetry, &due, d.Ceiling, d.Delay
			r.Events = in.events(dag.EventRetry, e, &due)
			return
		}
	}
	in.seal(r, e)
}

// seal makes the instance failed, with its letter and its events.
func (in Ending) seal(r *dag.Result, e *dag.TaskError) {
	r.State, r.SpendTry = dag.StateFailed, true
	payload := in.Claim.Payload
	// An unmapped task's payload is what it was asked to do; its own, if it has
	// one, is what an edit of its letter changed in that.
	if (len(payload) == 0 || in.Claim.MapIndex < 0) && in.Args != nil {
		payload, _ = json.Marshal(in.Args)
	}
	letter := dag.Seal(dag.SealInput{
		TI: in.Claim.TaskInstance, Run: in.Claim.Run, Err: e, Attempts: in.Claim.TryNumber, Payload: payload,
		IdempotencyKey: cmp.Or(e.IdempotencyKey, in.IdempotencyKey), At: in.End,
	})
	r.Letter = &letter
	sealed := *e
	sealed.Class = letter.ErrorClass
	r.Events = in.events(dag.EventFailure, &sealed, nil)
}

// policy is the task's, or that of a task without retries when the task is gone.
func (in Ending) policy() dag.RetryPolicy {
	if in.Task != nil {
		return in.Task.Retry
	}
	return dag.RetryPolicy{MaxCrashes: 3}
}

func (in Ending) events(kind dag.EventKind, e *dag.TaskError, next *time.Time) []dag.Event {
	if in.Task == nil {
		return nil
	}
	return dag.TaskEvents(in.DAG, in.Task, in.Claim.TaskInstance, in.Claim.Run, kind, e, next, in.LogPath, in.End)
}

// collect gathers the XComs and the skips of a successful attempt; what cannot
// be stored makes it a failure.
func collect(r *dag.Result, in Ending) *dag.TaskError {
	values := map[string]any{}
	for k, v := range in.Outcome.XComs {
		values[k] = v
	}
	if v := in.Outcome.ReturnValue; v != nil && in.Task.DoXComPush {
		values[dag.XComReturnValue] = v
		if m, ok := v.(map[string]any); ok && in.Task.MultipleOutputs {
			for k, part := range m {
				values[k] = part
			}
		}
	}
	for k, v := range values {
		raw, err := json.Marshal(v)
		if err != nil {
			return fault.New(fault.CodeXComNotJSON, fmt.Sprintf("the value of XCom %q is not JSON: %v", k, err))
		}
		if len(raw) > MaxXCom {
			return fault.New(fault.CodeXComTooLarge, fmt.Sprintf("the value of XCom %q has %d bytes, the limit is %d", k, len(raw), MaxXCom))
		}
		if r.XComs == nil {
			r.XComs = map[string]json.RawMessage{}
		}
		r.XComs[k] = raw
	}
	if err := expandable(in, r.XComs[dag.XComReturnValue]); err != nil {
		return err
	}
	r.SkipTasks = in.Outcome.SkipTasks
	if in.Outcome.Branch != nil {
		skips, err := dag.BranchSkips(in.DAG, in.Task.ID, *in.Outcome.Branch)
		if err != nil {
			return fault.New(fault.CodeBranchUnknownTask, err.Error())
		}
		r.SkipTasks = append(r.SkipTasks, skips...)
	}
	return nil
}

// expandable refuses a return value that other tasks are expanded over and
// cannot be: the mistake belongs to the task that made it, as in Airflow. Of a
// mapped task every instance gives one value, so any will do.
func expandable(in Ending, value json.RawMessage) *dag.TaskError {
	if in.Task == nil || in.DAG == nil || !in.DAG.Maps() || in.Task.Mapped() || in.DAG.MappedGroup(in.Task) != nil || len(value) > 0 && (value[0] == '[' || value[0] == '{') {
		return nil
	}
	if kind := reflect.ValueOf(in.Outcome.ReturnValue).Kind(); in.Task.DoXComPush && (kind == reflect.Slice || kind == reflect.Map) {
		return nil // a nil one: written as null, and read as empty
	}
	what := ""
	for i := range in.DAG.Tasks {
		if mapped := &in.DAG.Tasks[i]; mapped.Expand != nil && mapped.Expand.Over(in.Task.ID) {
			what = "task " + mapped.ID
		}
	}
	for i := range in.DAG.Groups {
		if mapped := &in.DAG.Groups[i]; mapped.Expand != nil && mapped.Expand.Over(in.Task.ID) {
			what = "group " + mapped.ID
		}
	}
	if what == "" {
		return nil
	}
	found := "nothing"
	if len(value) > 0 {
		found = dag.CutText(string(value), 80)
	}
	e := fault.New(fault.CodeExpansionSource, fmt.Sprintf("%s is expanded over what this task returns, and it returned %s", what, found))
	e.Hint = "return a list or a mapping"
	return e
}
