package dag

import (
	"encoding/json"
	"time"
)

// OutcomeKind is what an operator reports of one attempt.
type OutcomeKind string

// Outcomes. Whether a failure is retried or sealed is not the operator's to
// say: the executor decides from the outcome and the policy.
const (
	OutcomeSuccess    OutcomeKind = "success"
	OutcomeSkipped    OutcomeKind = "skipped"
	OutcomeFailed     OutcomeKind = "failed"
	OutcomeReschedule OutcomeKind = "reschedule" // a sensor in reschedule mode; same try
	OutcomeReleased   OutcomeKind = "released"   // handed back unstarted: no attempt is spent
)

// Outcome is the end of one attempt.
type Outcome struct {
	Kind OutcomeKind
	// ReturnValue is stored as XCom "return_value" when not nil and the task
	// pushes XComs. It must marshal to JSON.
	ReturnValue any
	// XComs are further keys to store.
	XComs map[string]any
	// Err is set for OutcomeFailed, and may be for OutcomeSkipped as a reason.
	Err *TaskError
	// Branch, when set, is the list of direct downstream task or group ids that
	// a branch follows; the executor turns it into SkipTasks.
	Branch *[]string
	// SkipTasks are task ids to skip whatever their trigger rules say.
	SkipTasks []string
	// RescheduleAt is for OutcomeReschedule.
	RescheduleAt time.Time
}

// Success is the outcome of an attempt that ended well with a value (or nil).
func Success(value any) Outcome { return Outcome{Kind: OutcomeSuccess, ReturnValue: value} }

// Failed is the outcome of an attempt that ended with an error.
func Failed(err *TaskError) Outcome { return Outcome{Kind: OutcomeFailed, Err: err} }

// ErrorClass says what can be done about a failure.
type ErrorClass string

// Classes of errors, a closed list. ClassTransient retries. ClassExhausted and
// ClassCrashLoop are given at sealing, never by an operator.
const (
	ClassTransient     ErrorClass = "transient"
	ClassPermanent     ErrorClass = "permanent"
	ClassPoison        ErrorClass = "poison"
	ClassConfiguration ErrorClass = "configuration"
	ClassCapability    ErrorClass = "capability"
	ClassExhausted     ErrorClass = "exhausted"
	ClassCrashLoop     ErrorClass = "crash_loop"
)

// Budget names which of the three budgets a failure spends.
type Budget string

// Budgets.
const (
	BudgetFailures   Budget = "failures"
	BudgetCrashes    Budget = "crashes"
	BudgetThrottling Budget = "throttling"
)

// TaskError is why an attempt failed, classified. It is an error.
type TaskError struct {
	Class ErrorClass `json:"error_class"`
	// Code is from the closed list in codes.go ("EXIT_CODE", "HTTP_429").
	Code    string `json:"error_code"`
	Message string `json:"error_message"`
	// Stack is a stack trace or the tail of stderr.
	Stack string `json:"stack_trace,omitempty"`
	// Hint says what to do, in one sentence.
	Hint string `json:"hint,omitempty"`
	// Budget that the failure spends; BudgetFailures when empty.
	Budget Budget `json:"budget,omitempty"`
	// RetryAfter is the server's own word on when to come back; 0 for none.
	RetryAfter time.Duration `json:"retry_after,omitempty"`
	ExitCode   *int          `json:"exit_code,omitempty"`
	Signal     string        `json:"signal,omitempty"`
	// AssetSHA256 is the input's hash where the step has a media input.
	AssetSHA256 string `json:"asset_sha256,omitempty"`
	// IdempotencyKey is the effect's key where the step has one.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	// Decided is set when the step's retry_on and fail_on were asked already, or
	// the step spoke for itself: they are not asked again.
	Decided bool `json:"-"`
}

// Error implements error.
func (e *TaskError) Error() string {
	if e.Hint != "" {
		return e.Code + ": " + e.Message + " (" + e.Hint + ")"
	}
	return e.Code + ": " + e.Message
}

// Result is the executor's one decision on the end of an attempt, ready to be
// applied: sql/store writes it in one transaction, or not at all when the
// instance is no longer (running, Fence).
type Result struct {
	TaskInstanceID int64
	Fence          int64
	// State is the next state: success, failed, skipped, up_for_retry,
	// up_for_reschedule, or queued for a hand-back.
	State State
	// SpendTry is false when the claim must not count as a try (throttled,
	// rescheduled, handed back unstarted).
	SpendTry bool
	// Spent is the budget that a failed attempt spends, "" for none.
	Spent Budget
	// ThrottledFor is added to the throttle budget's use.
	ThrottledFor time.Duration
	// NextTryAt is when an instance in up_for_retry or up_for_reschedule is due.
	NextTryAt *time.Time
	// DelayCeiling and Delay are the retry delay's ceiling and what was drawn.
	DelayCeiling time.Duration
	Delay        time.Duration
	Attempt      Attempt
	XComs        map[string]json.RawMessage
	SkipTasks    []string
	Letter       *DeadLetter // set exactly when State is failed
	Events       []Event
	// FailedInput is the hash of the media input that this end is counted
	// against; "" for none. For a reaped result the store finds it itself, when
	// CountInput is set.
	FailedInput string
	CountInput  bool
	// ReapedAt is set when the reaper applies the result for a worker whose
	// lease ended: the guard is then "lease_until < now" besides the fence.
	Reaped bool
}

// ApplyStatus says what became of one Result of a batch.
type ApplyStatus string

// Apply statuses.
const (
	Applied    ApplyStatus = "applied"
	StaleFence ApplyStatus = "stale" // the lease was taken over or the instance cleared: nothing was written
	// Refused: the database takes everything but this result's data (a value
	// larger than it allows). Nothing was written; the attempt is to be ended by
	// another result, without what it cannot store.
	Refused ApplyStatus = "refused"
)

// Attempt is the record of one try, kept for ever beside the task instance.
type Attempt struct {
	TaskInstanceID int64         `json:"task_instance_id"`
	TryNumber      int           `json:"try_number"`
	Fence          int64         `json:"fence"`
	State          State         `json:"state"` // how it ended
	WorkerID       string        `json:"worker_id"`
	Hostname       string        `json:"hostname"`
	StartDate      time.Time     `json:"start_date"`
	EndDate        time.Time     `json:"end_date"`
	ErrorClass     ErrorClass    `json:"error_class,omitempty"`
	ErrorCode      string        `json:"error_code,omitempty"`
	ErrorMessage   string        `json:"error_message,omitempty"`
	ExitCode       *int          `json:"exit_code,omitempty"`
	DelayCeiling   time.Duration `json:"delay_ceiling,omitempty"`
	Delay          time.Duration `json:"delay,omitempty"`
	LogPath        string        `json:"log_path,omitempty"` // below the logs folder
	// Detail is what the operator wants kept of this attempt (rungs of a
	// fallback ladder, encoder used); JSON or nil.
	Detail json.RawMessage `json:"detail,omitempty"`
}
