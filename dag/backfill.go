package dag

import (
	"encoding/json"
	"time"
)

// ReprocessBehavior says what a backfill does with a date that has a run.
type ReprocessBehavior string

// Reprocess behaviours. A run that is queued or running is always left alone.
const (
	ReprocessNone      ReprocessBehavior = "none"      // leave runs that are there
	ReprocessFailed    ReprocessBehavior = "failed"    // clear those that failed
	ReprocessCompleted ReprocessBehavior = "completed" // clear those that failed or succeeded
)

// Redoes tells whether a run in a state is cleared and made again.
func (b ReprocessBehavior) Redoes(s RunState) bool {
	return s == RunFailed && b != ReprocessNone || s == RunSuccess && b == ReprocessCompleted
}

// DefaultBackfillRuns is how many runs of a backfill run at once when it does
// not say itself.
const DefaultBackfillRuns = 10

// BackfillPriority is what the priority weights of a backfill's task instances
// are lowered by, so that everything else goes first.
const BackfillPriority = 1_000_000

// Backfill asks for the runs of a stretch of the past, or tells of one that was
// asked for.
type Backfill struct {
	ID    int64     `json:"id"`
	DagID string    `json:"dag_id"`
	From  time.Time `json:"from_date"` // both ends count
	To    time.Time `json:"to_date"`
	// MaxActiveRuns is how many of its runs run at once; the DAG's own limit
	// does not count them.
	MaxActiveRuns int               `json:"max_active_runs"`
	Reprocess     ReprocessBehavior `json:"reprocess_behavior"`
	RunBackwards  bool              `json:"run_backwards"`
	Conf          json.RawMessage   `json:"dag_run_conf,omitempty"`
	Actor         string            `json:"created_by,omitempty"`
	CreatedAt     time.Time         `json:"created_at"`
	// RunStates counts its runs by state, Skipped the dates that it left alone;
	// listings fill them in. It is complete when none is queued or running.
	RunStates map[RunState]int `json:"run_states,omitempty"`
	Skipped   int              `json:"skipped"`
}

// Complete tells whether all runs of a listed backfill have ended.
func (b *Backfill) Complete() bool { return b.RunStates[RunQueued]+b.RunStates[RunRunning] == 0 }

// BackfillAction is what a backfill does about one date.
type BackfillAction string

// Backfill actions.
const (
	BackfillCreate BackfillAction = "create"
	BackfillClear  BackfillAction = "clear"     // the run that is there runs again
	BackfillExists BackfillAction = "exists"    // a finished run is there, and stays
	BackfillFlight BackfillAction = "in_flight" // a queued or running one is there
)

// BackfillRun is one date of a backfill, in the order in which they run.
type BackfillRun struct {
	Ordinal     int            `json:"ordinal"` // from 1
	LogicalDate time.Time      `json:"logical_date"`
	Action      BackfillAction `json:"action"`
	RunID       string         `json:"run_id"`
}
