package dag

import (
	"encoding/json"
	"slices"
	"time"
)

// DAG is one workflow as its file describes it, with every default filled in.
// It is immutable once loaded, and goes to JSON and back without loss: that
// JSON is what a version stores, and its SHA-256 names the version.
type DAG struct {
	ID          string `json:"dag_id"`
	DisplayName string `json:"dag_display_name,omitempty"`
	Description string `json:"description,omitempty"`
	DocMD       string `json:"doc_md,omitempty"`
	// FileLoc is the file below the DAGs folder, with forward slashes.
	FileLoc string   `json:"fileloc"`
	Tags    []string `json:"tags,omitempty"`
	Owner   string   `json:"owner,omitempty"`

	Schedule  Schedule   `json:"schedule"`
	Timezone  string     `json:"timezone"` // IANA name: the zone of the schedule
	StartDate *time.Time `json:"start_date,omitempty"`
	EndDate   *time.Time `json:"end_date,omitempty"`
	Catchup   bool       `json:"catchup"`

	MaxActiveRuns               int           `json:"max_active_runs"`  // default 16
	MaxActiveTasks              int           `json:"max_active_tasks"` // per run, default 16
	MaxConsecutiveFailedDagRuns int           `json:"max_consecutive_failed_dag_runs,omitempty"`
	DagrunTimeout               time.Duration `json:"dagrun_timeout,omitempty"`
	FailFast                    bool          `json:"fail_fast,omitempty"`
	IsPausedUponCreation        *bool         `json:"is_paused_upon_creation,omitempty"`
	RenderTemplateAsNativeObj   bool          `json:"render_template_as_native_obj,omitempty"`

	// Params holds the default values; ParamSchemas a JSON schema for those
	// that have one.
	Params       map[string]any             `json:"params,omitempty"`
	ParamSchemas map[string]json.RawMessage `json:"param_schemas,omitempty"`
	// Macros are names of the DAG's own in its templates: JSON values.
	Macros    map[string]any `json:"user_defined_macros,omitempty"`
	Callbacks Callbacks      `json:"callbacks,omitzero"`
	// Circuits are the policies of breakers that hold for this DAG, by name.
	Circuits map[string]CircuitPolicy `json:"circuits,omitempty"`

	Tasks  []Task  `json:"tasks"` // in topological order, ties by place in the file
	Groups []Group `json:"groups,omitempty"`

	Line int `json:"line,omitempty"`

	index *dagIndex // nil unless frozen
}

// Task finds a task by its id; nil when there is none.
func (d *DAG) Task(id string) *Task {
	if d.index != nil {
		if i, found := d.index.tasks[id]; found && i < len(d.Tasks) && d.Tasks[i].ID == id {
			return &d.Tasks[i]
		}
	}
	for i := range d.Tasks {
		if d.Tasks[i].ID == id {
			return &d.Tasks[i]
		}
	}
	return nil
}

// dagIndex finds things in a DAG that does not change any more.
type dagIndex struct {
	tasks  map[string]int
	mapped bool
}

// Freeze makes Task and Maps quick in a DAG of thousands of tasks. Who calls it
// says that the DAG will not be changed any more.
func (d *DAG) Freeze() {
	x := &dagIndex{tasks: make(map[string]int, len(d.Tasks)), mapped: d.Maps()}
	for i := range d.Tasks {
		if _, twice := x.tasks[d.Tasks[i].ID]; !twice {
			x.tasks[d.Tasks[i].ID] = i
		}
	}
	d.index = x
}

// Maps tells whether the DAG has tasks or groups that are expanded.
func (d *DAG) Maps() bool {
	if d.index != nil {
		return d.index.mapped
	}
	return slices.ContainsFunc(d.Tasks, func(t Task) bool { return t.Expand != nil }) ||
		slices.ContainsFunc(d.Groups, func(g Group) bool { return g.Expand != nil })
}

// ScheduleKind names a timetable.
type ScheduleKind string

// Kinds of schedule.
const (
	ScheduleNone          ScheduleKind = "none" // manual runs only
	ScheduleOnce          ScheduleKind = "once"
	ScheduleContinuous    ScheduleKind = "continuous"
	ScheduleCronTrigger   ScheduleKind = "cron_trigger"       // Airflow 3's default for cron texts
	ScheduleCronInterval  ScheduleKind = "cron_data_interval" // Airflow 2's default
	ScheduleDelta         ScheduleKind = "delta_trigger"
	ScheduleDeltaInterval ScheduleKind = "delta_data_interval"
	ScheduleEvents        ScheduleKind = "events"
)

// Schedule is a timetable as data. Package dag/timetable gives it meaning.
type Schedule struct {
	Kind ScheduleKind `json:"kind"`
	// Crons are cron texts, presets expanded; more than one for
	// MultipleCronTriggerTimetable.
	Crons []string `json:"crons,omitempty"`
	// Delta and Months are the period of a delta schedule: months come from
	// relativedelta and are added on the calendar.
	Delta  time.Duration `json:"delta,omitempty"`
	Months int           `json:"months,omitempty"`
	// Interval is CronTriggerTimetable's `interval`: the data interval starts
	// that much before the tick.
	Interval       time.Duration `json:"interval,omitempty"`
	IntervalMonths int           `json:"interval_months,omitempty"`
	// RunImmediately is the first-run rule of trigger timetables: nil for
	// false, zero for true, else the greatest age of the past tick.
	RunImmediately *time.Duration `json:"run_immediately,omitempty"`
	Events         []time.Time    `json:"events,omitempty"`
	// Timezone of the timetable when it differs from the DAG's.
	Timezone string `json:"timezone,omitempty"`
	// Text is what the file says, for people.
	Text string `json:"text"`
}

// Group is a task group. Its id already has its parents' prefix.
type Group struct {
	ID       string  `json:"group_id"`
	ParentID string  `json:"parent_group_id,omitempty"`
	Tooltip  string  `json:"tooltip,omitempty"`
	Expand   *Expand `json:"expand,omitempty"`
}

// Task is one node of a DAG. Fields have Airflow's names and defaults.
type Task struct {
	ID          string `json:"task_id"` // with the group's prefix
	DisplayName string `json:"task_display_name,omitempty"`
	GroupID     string `json:"group_id,omitempty"`
	// Operator is Airlock's short name ("bash"); OperatorText what the file says.
	Operator     string `json:"operator"`
	OperatorText string `json:"operator_text,omitempty"`
	// Args are the operator's own keys as written: JSON types only (string,
	// float64, json.Number, bool, nil, []any, map[string]any), templates not
	// rendered.
	Args map[string]any `json:"args,omitempty"`
	// Expand is nil for a task that is not mapped.
	Expand *Expand `json:"expand,omitempty"`

	Upstream         []string    `json:"upstream,omitempty"` // direct, sorted
	TriggerRule      TriggerRule `json:"trigger_rule"`
	IsSetup          bool        `json:"is_setup,omitempty"`
	IsTeardown       bool        `json:"is_teardown,omitempty"`
	FailDagrunOnFail bool        `json:"on_failure_fail_dagrun,omitempty"` // of a teardown

	Queue          string `json:"queue"` // "default"
	Pool           string `json:"pool"`  // "default_pool"
	PoolSlots      int    `json:"pool_slots"`
	PriorityWeight int    `json:"priority_weight"` // own weight, default 1
	WeightRule     string `json:"weight_rule"`     // downstream | upstream | absolute

	Retry            RetryPolicy   `json:"retry"`
	RetryOn          []ErrorRule   `json:"retry_on,omitempty"`
	FailOn           []ErrorRule   `json:"fail_on,omitempty"`
	ExecutionTimeout time.Duration `json:"execution_timeout,omitempty"`

	DependsOnPast            bool       `json:"depends_on_past,omitempty"`
	WaitForDownstream        bool       `json:"wait_for_downstream,omitempty"`
	IgnoreFirstDependsOnPast bool       `json:"ignore_first_depends_on_past"`
	StartDate                *time.Time `json:"start_date,omitempty"`
	EndDate                  *time.Time `json:"end_date,omitempty"`
	MaxActiveTisPerDag       int        `json:"max_active_tis_per_dag,omitempty"`
	MaxActiveTisPerDagrun    int        `json:"max_active_tis_per_dagrun,omitempty"`

	DoXComPush       bool           `json:"do_xcom_push"` // default true
	MultipleOutputs  bool           `json:"multiple_outputs,omitempty"`
	MapIndexTemplate string         `json:"map_index_template,omitempty"`
	Params           map[string]any `json:"params,omitempty"`
	Callbacks        Callbacks      `json:"callbacks,omitzero"`
	Owner            string         `json:"owner,omitempty"`
	DocMD            string         `json:"doc_md,omitempty"`
	// Circuit names the dependency whose breaker guards this task.
	Circuit string `json:"circuit,omitempty"`

	Line int `json:"line,omitempty"` // in the DAG's file
}

// Mapped tells whether the task is expanded into instances at run time.
func (t *Task) Mapped() bool { return t.Expand != nil }

// Expand says how a mapped task's instances are made.
type Expand struct {
	// Args maps an argument to its source; several give the cross product, in
	// the order of Names.
	Args  map[string]ExpandSource `json:"args,omitempty"`
	Names []string                `json:"names,omitempty"`
	// Kwargs is expand_kwargs: a list of mappings, one instance each.
	Kwargs *ExpandSource `json:"kwargs,omitempty"`
	// Partial holds the fixed arguments; it is already merged into Task.Args.
	Partial map[string]any `json:"partial,omitempty"`
}

// literal tells whether the file gives all the values.
func (e *Expand) literal() bool {
	is := func(s ExpandSource) bool { return s.XCom == "" && s.Glob == "" }
	if e.Kwargs != nil && !is(*e.Kwargs) {
		return false
	}
	for _, s := range e.Args {
		if !is(s) {
			return false
		}
	}
	return true
}

// empty tells whether a source that the file gives has no values.
func (e *Expand) empty() bool {
	if e.Kwargs != nil && len(e.Kwargs.Literal) == 0 {
		return true
	}
	for _, s := range e.Args {
		if len(s.Literal) == 0 {
			return true
		}
	}
	return false
}

// Over tells whether the instances come from a task's return value.
func (e *Expand) Over(taskID string) bool {
	is := func(s ExpandSource) bool { return s.XCom == taskID && (s.Key == "" || s.Key == XComReturnValue) }
	if e.Kwargs != nil && is(*e.Kwargs) {
		return true
	}
	for _, s := range e.Args {
		if is(s) {
			return true
		}
	}
	return false
}

// ExpandSource is where the values of one mapped argument come from. Exactly
// one of the fields is set.
type ExpandSource struct {
	Literal []any  `json:"literal,omitzero"` // set and empty for no instances
	XCom    string `json:"xcom,omitempty"`   // id of an upstream task: its return value, or those of its successful instances
	Key     string `json:"key,omitempty"`    // XCom key, "return_value" when empty
	Glob    string `json:"glob,omitempty"`   // template of a file pattern, expanded when the upstream tasks are done; sorted
}

// Callbacks are the receivers of each kind of event.
type Callbacks struct {
	OnExecute []Callback `json:"on_execute_callback,omitempty"`
	OnSuccess []Callback `json:"on_success_callback,omitempty"`
	OnFailure []Callback `json:"on_failure_callback,omitempty"`
	OnRetry   []Callback `json:"on_retry_callback,omitempty"`
	OnSkipped []Callback `json:"on_skipped_callback,omitempty"`
}

// For gives the receivers of one kind of event.
func (c Callbacks) For(k EventKind) []Callback {
	switch k {
	case EventExecute:
		return c.OnExecute
	case EventSuccess:
		return c.OnSuccess
	case EventFailure:
		return c.OnFailure
	case EventRetry:
		return c.OnRetry
	case EventSkipped:
		return c.OnSkipped
	default:
		return nil
	}
}

// Callback is one receiver: its notifier's short name (webhook, command, log)
// and that notifier's arguments, templates not rendered.
type Callback struct {
	Name string         `json:"callback"`
	Args map[string]any `json:"args,omitempty"`
}

// RetryPolicy is how a task's failed attempts are repeated, with the queue's
// class policy and the task's own fields already merged. Package dag/retry
// computes delays from it.
type RetryPolicy struct {
	// Retries is the failures budget: attempts after the first. Default 0.
	Retries int `json:"retries"`
	// Delay, Exponential and MaxDelay are Airflow's retry_delay (default 300 s),
	// retry_exponential_backoff (0 off, 2 for true, or the multiplier) and
	// max_retry_delay (0 for none). They are used when Class is nil.
	Delay       time.Duration `json:"retry_delay"`
	Exponential float64       `json:"retry_exponential_backoff,omitempty"`
	MaxDelay    time.Duration `json:"max_retry_delay,omitempty"`
	// Class is the queue's policy, when it decides the delays.
	Class *ClassPolicy `json:"class,omitempty"`
	// ByCode narrows the policy for an error code ("HTTP_429").
	ByCode map[string]ClassPolicy `json:"on,omitempty"`
	// MaxCrashes is the crash budget, default 3.
	MaxCrashes int `json:"max_crashes"`
	// MaxThrottleTime is the throttling budget, default 1 h.
	MaxThrottleTime time.Duration `json:"max_throttle_time"`
}

// Jitter names how a delay is drawn below its ceiling.
type Jitter string

// Jitters of a class policy.
const (
	JitterFull         Jitter = "full"
	JitterEqual        Jitter = "equal"
	JitterDecorrelated Jitter = "decorrelated"
	JitterNone         Jitter = "none"
)

// ClassPolicy is one entry of policies.yml: retry k has the ceiling
// min(BackoffMax, BackoffBase * 2^(k-1)).
type ClassPolicy struct {
	MaxRetries  int           `json:"max_retries"`
	BackoffBase time.Duration `json:"backoff_base"`
	BackoffMax  time.Duration `json:"backoff_max"`
	MinDelay    time.Duration `json:"min_delay,omitempty"`
	Jitter      Jitter        `json:"jitter"`
}

// ErrorRule is one entry of a task's retry_on or fail_on: every field that is
// set must match.
type ErrorRule struct {
	ExitCodes []int    `json:"exit_code,omitempty"`
	Codes     []string `json:"code,omitempty"`   // error codes to match
	Stderr    string   `json:"stderr,omitempty"` // Go regular expression over the tail of stderr
	// ErrorCode is the code that the match gives to the failure.
	ErrorCode string `json:"error_code,omitempty"`
}

// RetriesFor is the failures budget for an error code: the policy's, unless the
// queue's policy narrows that code.
func (p RetryPolicy) RetriesFor(code string) int {
	if c, ok := p.ByCode[code]; ok {
		return c.MaxRetries
	}
	return p.Retries
}
