package executor

import (
	"context"
	"encoding/json"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// CatalogStore holds the DAGs and their versions.
type CatalogStore interface {
	// SyncDAGs records what the bundle holds now, in one transaction: each DAG's
	// row and (when its content changed) a new version, with the next run that
	// the scheduler planned. It returns the version id of each.
	SyncDAGs(ctx context.Context, updates []dag.DAGUpdate) ([]int64, error)
	// MarkStale marks DAGs whose file is gone or broken: they start no new runs.
	// SyncDAGs makes them active again.
	MarkStale(ctx context.Context, dagIDs []string, reason string) error
	// SetImportErrors replaces all recorded problems of files.
	SetImportErrors(ctx context.Context, problems []dag.Problem) error
	// DAGRows lists the DAGs with their present version, sorted by id.
	DAGRows(ctx context.Context, filter dag.DAGFilter) ([]dag.DAGRow, error)
	// Version loads the DAG of a version id.
	Version(ctx context.Context, id int64) (*dag.DAG, error)
}

// SchedulerStore is what the scheduler loop needs.
type SchedulerStore interface {
	// Now is the state database's clock: leases and due times are measured by it.
	Now(ctx context.Context) (time.Time, error)
	// DueDAGs lists active, unpaused DAGs whose next run is due by an instant and
	// which may have another run, oldest first, with the number of their unfinished
	// runs.
	DueDAGs(ctx context.Context, by time.Time, limit int) ([]dag.DAGRow, error)
	// CreateRuns makes runs with all their task instances, each in its own
	// all-or-nothing step of one transaction. A run that exists already
	// (by run id or logical date) is reported and changes nothing but the next run.
	// A scheduled run that is made before its time waits for it; what keeps the
	// schedule from it until then takes it back.
	CreateRuns(ctx context.Context, runs []dag.NewRun) ([]dag.CreatedRun, error)
	// Schedule takes up to pass.Limit runs that need a look, locks them so that no
	// other scheduler takes them, asks decide for each
	// (with the database's time), and applies the
	// decisions, all in one transaction; decide is pure and may be called again
	// when the transaction is repeated. Ready instances become queued as far as
	// pools and limits leave slots, else scheduled.
	Schedule(ctx context.Context, pass dag.SchedulePass, decide func(s *dag.RunSnapshot, now time.Time) (dag.Decision, error)) (dag.ScheduleReport, error)
	// ExpandTask replaces the unexpanded instance (map index -1, state none) of
	// a mapped task by one instance a payload, or marks it skipped when there is
	// none. It reports false when the instance is not there any more.
	ExpandTask(ctx context.Context, runID int64, taskID string, payloads []json.RawMessage) (bool, error)
	// ExpandTasks does the same for several tasks over the same payloads, in one
	// transaction: those of a mapped group. It reports false when no instance of
	// them is to be expanded any more.
	ExpandTasks(ctx context.Context, runID int64, taskIDs []string, payloads []json.RawMessage) (bool, error)
	// FailExpansion seals a mapped task whose sources could not be read. seal
	// makes the letter and the events of the attempt that the store counts for
	// it; it is pure and may be called again when the transaction is repeated.
	FailExpansion(ctx context.Context, runID int64, taskID string, seal func(ti dag.TaskInstance) (dag.DeadLetter, []dag.Event)) error
	// NextWake is the earliest instant later than another at which DueDAGs, asked
	// so far ahead, Schedule or Expired will have something to do, as far as the
	// tables say now; zero for never.
	NextWake(ctx context.Context, later time.Time, ahead time.Duration) (time.Time, error)
	// Expired lists running instances whose lease has ended.
	Expired(ctx context.Context, limit int) ([]dag.Claim, error)
	// ReplacePlan stores another next run in place of the one in the row, unless
	// the DAG's plan or version has changed since the row was read.
	ReplacePlan(ctx context.Context, row dag.DAGRow, next *dag.PlannedRun) error
	// LatestScheduledRun is the newest run of a DAG that its schedule made; nil
	// when there is none. Backfills do not count: they may lie anywhere, and
	// would hide the ticks before them. Nor does a run that was made ahead of its
	// time and has not started: it is the next.
	LatestScheduledRun(ctx context.Context, dagID string) (*dag.Run, error)
	// LatestScheduledRuns are the newest runs that the schedules of some DAGs
	// made, by DAG, also those made ahead; DAGs without one are not in it.
	LatestScheduledRuns(ctx context.Context, dagIDs []string) (map[string]dag.Run, error)
	// Unserved lists the queues in which instances have been queued for some time,
	// and from which no living worker takes.
	Unserved(ctx context.Context, queuedFor time.Duration) ([]dag.UnservedQueue, error)
	// WakeAsleep lets the next pass look at runs that may go on, that nobody is to
	// look at and that have not changed for some time, and gives how many.
	WakeAsleep(ctx context.Context, unchanged time.Duration) (int, error)
	XComReader
}

// WorkerStore is what the worker loop needs.
type WorkerStore interface {
	// Claim takes up to N queued instances: state running, fence + 1, lease
	// begun, all in one transaction.
	Claim(ctx context.Context, p dag.ClaimParams) ([]dag.Claim, error)
	// Held lists the running instances that the tables give to a worker, also
	// those whose claim a server is still committing.
	Held(ctx context.Context, workerID string) ([]dag.Claim, error)
	// Renew extends leases and lists those that are not held any more.
	Renew(ctx context.Context, leases []dag.Lease, lease time.Duration) (lost []dag.Lease, err error)
	// LostLeases lists those that are not held any more, by a plain read that
	// locks and changes nothing. A server that lags behind may name one too many.
	LostLeases(ctx context.Context, leases []dag.Lease) ([]dag.Lease, error)
	// Apply writes many results in one commit. Each is all-or-nothing with its
	// attempt, letter, XComs and events; a stale one writes nothing and does not
	// disturb the others.
	Apply(ctx context.Context, results []dag.Result) ([]dag.ApplyStatus, error)
	// Exchange is Apply and Claim in one transaction: the worker hands in
	// results and takes work for the slots that they leave free. When the
	// results have to be written one by one it claims nothing.
	Exchange(ctx context.Context, results []dag.Result, p dag.ClaimParams) ([]dag.ApplyStatus, []dag.Claim, error)
	// ExchangeAndSchedule is Exchange that also decides what follows in the runs
	// of the results, as SchedulerStore.Schedule does, and queues it, before it
	// takes work: all in one transaction. Runs that need more than that are left
	// to Schedule, and the report counts them.
	ExchangeAndSchedule(ctx context.Context, results []dag.Result, p dag.ClaimParams,
		decide func(s *dag.RunSnapshot, now time.Time) (dag.Decision, error)) ([]dag.ApplyStatus, []dag.Claim, dag.ScheduleReport, error)
	// ScheduleAndClaim is SchedulerStore.Schedule and Claim in one transaction.
	// Claims count also beside an error whose outcome is not known.
	ScheduleAndClaim(ctx context.Context, pass dag.SchedulePass, p dag.ClaimParams,
		decide func(s *dag.RunSnapshot, now time.Time) (dag.Decision, error)) ([]dag.Claim, dag.ScheduleReport, error)
	// PutEvents stores events that go with no state change (on_execute_callback),
	// before the attempt begins; one whose key is there already is left alone.
	PutEvents(ctx context.Context, events []dag.Event) error
	// StillMine tells whether the lease is held at this instant.
	StillMine(ctx context.Context, l dag.Lease) (bool, error)
	// OpenInput notes that an attempt is about to open the media input with this
	// hash, so that its failures can be counted though the worker should die of
	// it, and gives what has been counted so far.
	OpenInput(ctx context.Context, l dag.Lease, assetSHA256 string) (dag.MediaInput, error)
	// OpenLetterOf gives the id of the oldest open letter of a task, in any of its
	// runs, about the media input with this hash; 0 for none.
	OpenLetterOf(ctx context.Context, dagID, taskID, assetSHA256 string) (int64, error)
	// SetProgress keeps how far running attempts are, for people to look at.
	SetProgress(ctx context.Context, list []dag.TaskProgress) error
	// NoteWorker keeps that a worker takes work, ForgetWorker that it takes no more.
	NoteWorker(ctx context.Context, w dag.WorkerNotice) error
	ForgetWorker(ctx context.Context, id string) error
	// CreateRuns serves trigger_dag_run.
	CreateRuns(ctx context.Context, runs []dag.NewRun) ([]dag.CreatedRun, error)
	// Run finds a run; the error of one that does not exist has dag.ErrNotFound.
	Run(ctx context.Context, dagID, runID string) (dag.Run, error)
	// ExternalRun finds the run of a DAG with a logical date, and the states of
	// its instances; nil when there is no such run.
	ExternalRun(ctx context.Context, dagID string, logicalDate time.Time) (*dag.ExternalRun, error)
	// Version loads the DAG of a version id.
	Version(ctx context.Context, id int64) (*dag.DAG, error)
	// Attempts lists the attempts of one instance, oldest first.
	Attempts(ctx context.Context, key dag.TaskInstanceKey) ([]dag.Attempt, error)
	// Runs lists runs, newest first.
	Runs(ctx context.Context, f dag.RunFilter) ([]dag.Run, error)
	XComReader
}

// XComReader reads what tasks left for each other.
type XComReader interface {
	// XCom is the value of one instance (mapIndex set), or of all instances of
	// the task: a plain value when it is not mapped, else a JSON list by map
	// index. nil when there is none.
	XCom(ctx context.Context, dagID, runID, taskID, key string, mapIndex *int) (json.RawMessage, error)
}

// SettingsStore reads connections and variables.
type SettingsStore interface {
	// Connection finds a connection; the error has dag.ErrNotFound.
	Connection(ctx context.Context, id string) (dag.Connection, error)
	// Variables lists all variables.
	Variables(ctx context.Context) ([]dag.Variable, error)
}
