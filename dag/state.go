package dag

// State is the state of a task instance, in Airflow's words.
type State string

// States of a task instance. StateNone is stored as NULL in Airflow; here it
// is stored as the text "none" so that an index can serve it.
const (
	StateNone            State = "none"
	StateScheduled       State = "scheduled"
	StateQueued          State = "queued"
	StateRunning         State = "running"
	StateSuccess         State = "success"
	StateFailed          State = "failed"
	StateSkipped         State = "skipped"
	StateUpstreamFailed  State = "upstream_failed"
	StateUpForRetry      State = "up_for_retry"
	StateUpForReschedule State = "up_for_reschedule"
	StateDeferred        State = "deferred"
	StateRemoved         State = "removed"
	StateRestarting      State = "restarting"
)

// States lists every state of a task instance.
func States() []State {
	return []State{
		StateNone, StateScheduled, StateQueued, StateRunning, StateSuccess, StateFailed, StateSkipped,
		StateUpstreamFailed, StateUpForRetry, StateUpForReschedule, StateDeferred, StateRemoved, StateRestarting,
	}
}

// Finished tells whether nothing more happens to an instance in this state
// unless somebody clears it.
func (s State) Finished() bool {
	switch s {
	case StateSuccess, StateFailed, StateSkipped, StateUpstreamFailed, StateRemoved:
		return true
	default:
		return false
	}
}

// Failure tells whether downstream tasks count this state as a failure.
func (s State) Failure() bool { return s == StateFailed || s == StateUpstreamFailed }

// Occupies tells whether an instance in this state holds pool slots and counts
// towards max_active_tasks.
func (s State) Occupies() bool {
	return s == StateQueued || s == StateRunning || s == StateRestarting
}

// RunState is the state of a DAG run.
type RunState string

// States of a run.
const (
	RunQueued  RunState = "queued"
	RunRunning RunState = "running"
	RunSuccess RunState = "success"
	RunFailed  RunState = "failed"
)

// Finished tells whether the run has ended.
func (s RunState) Finished() bool { return s == RunSuccess || s == RunFailed }

// RunType says what made a run. Its text begins the run id.
type RunType string

// Run types.
const (
	RunScheduled RunType = "scheduled"
	RunManual    RunType = "manual"
	RunBackfill  RunType = "backfill"
)

// TriggerRule says which states of the direct upstream instances let a task
// start. Names and meanings are Airflow's.
type TriggerRule string

// Trigger rules of Airflow 3.
const (
	AllSuccess              TriggerRule = "all_success"
	AllFailed               TriggerRule = "all_failed"
	AllDone                 TriggerRule = "all_done"
	AllSkipped              TriggerRule = "all_skipped"
	OneSuccess              TriggerRule = "one_success"
	OneFailed               TriggerRule = "one_failed"
	OneDone                 TriggerRule = "one_done"
	NoneFailed              TriggerRule = "none_failed"
	NoneFailedMinOneSuccess TriggerRule = "none_failed_min_one_success"
	NoneSkipped             TriggerRule = "none_skipped"
	Always                  TriggerRule = "always"
	AllDoneMinOneSuccess    TriggerRule = "all_done_min_one_success"
	AllDoneSetupSuccess     TriggerRule = "all_done_setup_success"
)

// TriggerRules lists every trigger rule.
func TriggerRules() []TriggerRule {
	return []TriggerRule{
		AllSuccess, AllFailed, AllDone, AllSkipped, OneSuccess, OneFailed, OneDone, NoneFailed,
		NoneFailedMinOneSuccess, NoneSkipped, Always, AllDoneMinOneSuccess, AllDoneSetupSuccess,
	}
}
