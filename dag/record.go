package dag

import (
	"encoding/json"
	"strconv"
	"time"
)

// TaskInstanceKey names a task instance. MapIndex is -1 when it is not mapped
// (or not yet expanded).
type TaskInstanceKey struct {
	DagID    string `json:"dag_id" db:"dag_id"`
	RunID    string `json:"run_id" db:"run_id"`
	TaskID   string `json:"task_id" db:"task_id"`
	MapIndex int    `json:"map_index" db:"map_index"`
}

// String is dag/run/task, with [index] for a mapped instance.
func (k TaskInstanceKey) String() string {
	s := k.DagID + "/" + k.RunID + "/" + k.TaskID
	if k.MapIndex >= 0 {
		s += "[" + strconv.Itoa(k.MapIndex) + "]"
	}
	return s
}

// TaskInstance is one task of one run as the state database holds it.
type TaskInstance struct {
	ID int64 `json:"id"`
	TaskInstanceKey
	State State `json:"state"`
	// TryNumber counts attempts that were started and spent; 0 before the first.
	TryNumber int `json:"try_number"`
	MaxTries  int `json:"max_tries"`
	// FailureCount and CrashCount are what the two counted budgets have spent
	// since the instance was made or last cleared; ThrottledFor the third.
	FailureCount int           `json:"failure_count"`
	CrashCount   int           `json:"crash_count"`
	ThrottledFor time.Duration `json:"throttled_for"`
	// Generation counts how often the instance was cleared after a success: each
	// is a new intent, so its effects have keys of their own. A clear after a
	// failure keeps the generation: what the failed attempts did is found.
	// A replay of its dead letter is a generation, too, but keeps the intent: see
	// Intent.
	Generation int `json:"generation"`
	// Replays is how many of the generations were replays.
	Replays int `json:"replays,omitempty"`
	// Replaying is set from a replay of the instance's dead letter until its end.
	Replaying bool `json:"replaying,omitempty"`
	// Fence rises with every claim, clear and take-over; only the holder of the
	// present fence may write.
	Fence          int64           `json:"fence"`
	Operator       string          `json:"operator"`
	Queue          string          `json:"queue"`
	Pool           string          `json:"pool"`
	PoolSlots      int             `json:"pool_slots"`
	PriorityWeight int             `json:"priority_weight"`      // effective, by the weight rule
	Payload        json.RawMessage `json:"payload,omitempty"`    // of a mapped instance: expand value over partial
	SkipTasks      []string        `json:"skip_tasks,omitempty"` // what a branch or short circuit decided
	VersionID      int64           `json:"dag_version_id"`
	WorkerID       string          `json:"worker_id,omitempty"`
	Hostname       string          `json:"hostname,omitempty"`
	ScheduledAt    *time.Time      `json:"scheduled_at,omitempty"`
	QueuedAt       *time.Time      `json:"queued_at,omitempty"`
	StartDate      *time.Time      `json:"start_date,omitempty"` // of the present or last attempt
	EndDate        *time.Time      `json:"end_date,omitempty"`
	NextTryAt      *time.Time      `json:"next_try_at,omitempty"`
	LeaseUntil     *time.Time      `json:"lease_until,omitempty"`
	// FirstFailedAt is the end of the first failed attempt.
	FirstFailedAt *time.Time `json:"first_failed_at,omitempty"`
	UpdatedAt     time.Time  `json:"updated_at"`
}

// Intent numbers what the instance's effects are made for: the generations
// without the replays, which repeat an intent.
func (ti TaskInstance) Intent() int { return ti.Generation - ti.Replays }

// Run is one DAG run.
type Run struct {
	ID    int64    `json:"id"`
	DagID string   `json:"dag_id"`
	RunID string   `json:"run_id"`
	Type  RunType  `json:"run_type"`
	State RunState `json:"state"`
	// LogicalDate and the interval are nil for a manual run without a date.
	LogicalDate       *time.Time `json:"logical_date"`
	DataIntervalStart *time.Time `json:"data_interval_start"`
	DataIntervalEnd   *time.Time `json:"data_interval_end"`
	RunAfter          time.Time  `json:"run_after"`
	QueuedAt          *time.Time `json:"queued_at"`
	StartDate         *time.Time `json:"start_date"`
	EndDate           *time.Time `json:"end_date"`
	// Reason says why the run ended: success, task_failure,
	// all_tasks_deadlocked, timed_out.
	Reason      string          `json:"reason,omitempty"`
	Conf        json.RawMessage `json:"conf,omitempty"`
	TriggeredBy string          `json:"triggered_by,omitempty"` // cli, operator, timetable, backfill, test
	// AskedBy is the id of the task instance that asks for a new run, 0 for none.
	// It is written with the run and not read back.
	AskedBy     int64  `json:"-"`
	Note        string `json:"note,omitempty"`
	ClearNumber int    `json:"clear_number"`
	// IsReplay is set while a finished run goes on for a replay of its dead
	// letters: it takes no room from the DAG's other runs.
	IsReplay  bool  `json:"is_replay,omitempty"`
	VersionID int64 `json:"dag_version_id"`
	// TaskStates counts the run's instances by state, where a listing asks for it.
	TaskStates map[State]int `json:"task_states,omitempty"`
}

// PlannedRun is what a timetable answers: the next run and when to make it.
type PlannedRun struct {
	LogicalDate       time.Time `json:"logical_date"`
	DataIntervalStart time.Time `json:"data_interval_start"`
	DataIntervalEnd   time.Time `json:"data_interval_end"`
	RunAfter          time.Time `json:"run_after"`
}

// Planned is a run as it was planned, nil for a run without a logical date or for
// none. Without an interval of its own its date counts as one.
func (r *Run) Planned() *PlannedRun {
	if r == nil || r.LogicalDate == nil {
		return nil
	}
	p := &PlannedRun{LogicalDate: *r.LogicalDate, DataIntervalStart: *r.LogicalDate, DataIntervalEnd: *r.LogicalDate, RunAfter: r.RunAfter}
	if r.DataIntervalStart != nil && r.DataIntervalEnd != nil {
		p.DataIntervalStart, p.DataIntervalEnd = *r.DataIntervalStart, *r.DataIntervalEnd
	}
	return p
}

// Claim is a task instance that a worker now holds, with what it needs to run.
type Claim struct {
	TaskInstance
	Run Run
}

// Lease names what a worker holds: only (ID, Fence) together may write.
type Lease struct {
	TaskInstanceID int64
	Fence          int64
}

// RunSnapshot is a run with all that Evaluate looks at.
type RunSnapshot struct {
	Run       Run
	Instances []TaskInstance // sorted by task id, then map index
	// Past says, for tasks with depends_on_past or wait_for_downstream, what
	// the previous run holds; nil when no task of the DAG asks for it.
	Past *PastRun
	// Kept is what an earlier evaluation of the run left, nil for nothing. Evaluate
	// goes on from it where it can, and leaves the present one in it.
	Kept *Kept
}

// PastRun is what depends_on_past looks at.
type PastRun struct {
	// Exists is false when there is no previous run.
	Exists      bool
	LogicalDate *time.Time
	// States has the states of all instances of each task in the previous run.
	States map[string][]State
	// RanBefore has the tasks that ever had an instance that ran.
	RanBefore map[string]bool
}

// Transition is one state change that Evaluate asks for. It is applied only if
// the instance is still in From.
type Transition struct {
	TaskInstanceID int64
	TaskID         string
	MapIndex       int
	From, To       State
	Reason         string
}

// Decision is what Evaluate says about a run at an instant.
type Decision struct {
	Transitions []Transition
	// Expand lists mapped tasks whose sources are complete and whose instances
	// are to be made now.
	Expand []string
	// ExpandGroups lists mapped groups whose sources are complete: the instances
	// of all their tasks are to be made now.
	ExpandGroups []string
	// State and Reason are the run's next state; State is the present one when
	// the run goes on.
	State  RunState
	Reason string
	// NextAt is when the run is to be looked at again though nothing in it
	// changes (a retry due, a timeout); zero when only a change matters.
	NextAt time.Time
	// Events are the DAG-level callback events of a run that ends here.
	Events []Event
}

// Connection is where a step reaches a database or a service. Its password
// never goes to a log, a letter or a page.
type Connection struct {
	ID          string         `json:"connection_id"`
	Type        string         `json:"conn_type"` // mysql, mariadb, sqlite, http, file, ...
	Description string         `json:"description,omitempty"`
	Host        string         `json:"host,omitempty"`
	Port        int            `json:"port,omitempty"`
	Login       string         `json:"login,omitempty"`
	Password    string         `json:"password,omitempty"`
	Schema      string         `json:"schema,omitempty"`
	Extra       map[string]any `json:"extra,omitempty"`
}

// Pool limits how many instances run at once. Slots of -1 is no limit.
type Pool struct {
	Name            string `json:"name"`
	Slots           int    `json:"slots"`
	Description     string `json:"description,omitempty"`
	IncludeDeferred bool   `json:"include_deferred"`
	// Occupied, Running, Queued and Scheduled are filled in by listings.
	Running   int `json:"running_slots"`
	Queued    int `json:"queued_slots"`
	Scheduled int `json:"scheduled_slots"`
}

// DefaultPool exists always and cannot be deleted; it has 128 slots.
const DefaultPool = "default_pool"

// DefaultQueue is the queue of a task that names none.
const DefaultQueue = "default"

// Variable is a named value that templates read as var.value.KEY.
type Variable struct {
	Key         string `json:"key"`
	Value       string `json:"value"`
	Description string `json:"description,omitempty"`
}

// XComReturnValue is the key of an operator's return value.
const XComReturnValue = "return_value"
