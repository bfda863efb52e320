package dag

import "time"

// DAGUpdate is one DAG as the bundle holds it now.
type DAGUpdate struct {
	DAG *DAG
	// Source says where the file came from: a commit, or "".
	Source string
	// Next is the planned next run, nil for none.
	Next *PlannedRun
	// Paused is the state for a DAG that is seen for the first time.
	Paused bool
}

// DAGFilter narrows a list of DAGs. Zero lists all.
type DAGFilter struct {
	IDs        []string
	OnlyActive bool
}

// DAGRow is a DAG as the state database holds it.
type DAGRow struct {
	DagID       string `json:"dag_id"`
	FileLoc     string `json:"fileloc"`
	Owner       string `json:"owner"`
	Schedule    string `json:"schedule"`
	Description string `json:"description"`
	IsPaused    bool   `json:"is_paused"`
	// IsStale is set while the file is gone or broken; StaleReason says which.
	IsStale     bool        `json:"is_stale"`
	StaleReason string      `json:"stale_reason,omitempty"`
	VersionID   int64       `json:"dag_version_id"`
	VersionHash string      `json:"version_hash"`
	Source      string      `json:"source,omitempty"`
	Next        *PlannedRun `json:"next_run"`
	// ActiveRuns counts queued and running runs that are not backfills.
	ActiveRuns int       `json:"active_runs"`
	UpdatedAt  time.Time `json:"updated_at"`
}

// NewRun asks for a run with its task instances.
type NewRun struct {
	Run       Run // ID zero; VersionID set
	Instances []NewInstance
	// Next is stored as the DAG's next planned run in the same transaction when
	// AdvanceNext is set (nil for none); PlannedFor guards it: the DAG's next
	// run must still be due at that instant, else another scheduler was first
	// and nothing is made.
	AdvanceNext bool
	Next        *PlannedRun
	PlannedFor  time.Time
}

// NewInstance is one task instance to make.
type NewInstance struct {
	TaskID         string
	Operator       string
	Queue          string
	Pool           string
	PoolSlots      int
	PriorityWeight int
	MaxTries       int
}

// CreatedRun reports on one NewRun.
type CreatedRun struct {
	Run Run
	// Existed is set when the run id or logical date was taken; Run is then the
	// one that was there. Overtaken when PlannedFor did not match.
	Existed   bool
	Overtaken bool
}

// SchedulePass says which runs a scheduling pass looks at.
type SchedulePass struct {
	Limit int
	// OnlyRun, when not 0, restricts the pass to one run, and looks at it though
	// its DAG is paused: that is how a test run is driven.
	OnlyRun int64
}

// ScheduleReport says what one scheduling pass did.
type ScheduleReport struct {
	// Looked counts the runs that needed a look: also those that have to wait.
	Looked int
	// Runs that were decided about, with the decision that was applied.
	Runs []ScheduledRun
	// Queued counts instances that became queued.
	Queued int
	// NeverFit lists the tasks that became ready in this pass and whose pool can
	// never hold them as it is.
	NeverFit []NeverFit
	// TakenBack counts runs that had been made ahead of their time and that their
	// DAGs would not have when it came: they are gone.
	TakenBack int
	// Left is set by a pass beside results that left runs to an ordinary one, now
	// or at an instant that it set.
	Left bool
	// Now is the database's time in the pass.
	Now time.Time
}

// NeverFit is a task that waits for slots which its pool does not have.
type NeverFit struct {
	DagID  string
	TaskID string
	Pool   string
	// PoolSlots is what the task asks for, Slots what the pool has in all.
	PoolSlots int
	Slots     int
	// Missing is set when the pool does not exist.
	Missing bool
}

// ScheduledRun is one run of a scheduling pass.
type ScheduledRun struct {
	Run      Run
	Decision Decision
	// Err says why no decision could be made; the run is then put off for a
	// minute and nothing in it changed.
	Err error
	// Started is set when the run became running in this pass.
	Started bool
}

// ClaimParams asks for work.
type ClaimParams struct {
	WorkerID string
	Hostname string
	PID      int
	// Queues to take from; empty for all.
	Queues []string
	N      int
	Lease  time.Duration
	// OnlyRun, when not 0, takes instances of that run alone.
	OnlyRun int64
}
