package store

import (
	"context"

	"github.com/airlock-dag/airlock/dag"
)

// Desk is what commands and pages use of the Store, besides the interfaces of
// executor. Errors that a user can cause are dag.Error with ErrNotFound,
// ErrInvalid, ErrExists or ErrConflict.
type Desk interface {
	// Migrate brings the database to the schema of this binary. It is safe when
	// several processes do it at once, and refuses a database that is newer
	// than the binary.
	Migrate(ctx context.Context) error
	// Reset drops all tables of Airlock with everything in them, and makes them
	// anew. Other tables of the database stay.
	Reset(ctx context.Context) error
	// SchemaVersion is the version of the database's schema and the one that
	// this binary writes; they are equal after Migrate. 0 for an empty database.
	SchemaVersion(ctx context.Context) (have, want int64, err error)
	// Ping asks the database for its time, so it fails when the database is away.
	Ping(ctx context.Context) error
	// Close closes the connections.
	Close() error

	// Runs lists runs, newest first.
	Runs(ctx context.Context, f dag.RunFilter) ([]dag.Run, error)
	// Run finds one run with its TaskStates.
	Run(ctx context.Context, dagID, runID string) (dag.Run, error)
	// Instances lists task instances.
	Instances(ctx context.Context, f dag.InstanceFilter) ([]dag.TaskInstance, error)
	// Attempts lists the attempts of one instance, oldest first.
	Attempts(ctx context.Context, key dag.TaskInstanceKey) ([]dag.Attempt, error)
	// History tells what happened to one instance, oldest first.
	History(ctx context.Context, key dag.TaskInstanceKey) ([]dag.HistoryEntry, error)
	// SetPaused pauses or unpauses a DAG and tells whether that changed it.
	SetPaused(ctx context.Context, dagID string, paused bool) (changed bool, err error)
	// Clear sets instances back so that they run again, with fresh budgets, and
	// lists them as they were before. Running ones become restarting: their
	// worker loses the lease and they run again when it has stopped. A finished
	// run goes back to queued. An open letter of a cleared instance becomes
	// resolved, with an audit row.
	Clear(ctx context.Context, r dag.ClearRequest) ([]dag.TaskInstance, error)

	// CreateBackfill makes the runs of a backfill in the order given, or tells of
	// a dry run what would be done about each date.
	CreateBackfill(ctx context.Context, b dag.Backfill, runs []dag.NewRun, dryRun bool) (dag.Backfill, []dag.BackfillRun, error)
	// Backfills lists the backfills of a DAG, of all for "", newest first.
	Backfills(ctx context.Context, dagID string) ([]dag.Backfill, error)

	// Letters lists dead letters, without Payload and StackTrace.
	Letters(ctx context.Context, f dag.LetterFilter) ([]dag.DeadLetter, error)
	// Letter finds one dead letter with everything in it.
	Letter(ctx context.Context, id int64) (dag.DeadLetter, error)
	// LetterStats groups dead letters by fingerprint, greatest count first.
	LetterStats(ctx context.Context, f dag.LetterFilter) ([]dag.LetterGroup, error)

	// Pools lists pools with their use, sorted by name.
	Pools(ctx context.Context) ([]dag.Pool, error)
	// SetPool makes or changes a pool.
	SetPool(ctx context.Context, p dag.Pool) error
	// DeletePool removes a pool; default_pool cannot be removed (ErrConflict).
	DeletePool(ctx context.Context, name string) error

	// Variables lists variables, sorted by key.
	Variables(ctx context.Context) ([]dag.Variable, error)
	// Variable finds one variable.
	Variable(ctx context.Context, key string) (dag.Variable, error)
	// SetVariable makes or changes a variable.
	SetVariable(ctx context.Context, v dag.Variable) error
	// DeleteVariable removes a variable.
	DeleteVariable(ctx context.Context, key string) error

	// Connections lists connections, sorted by id, with passwords as stored.
	Connections(ctx context.Context) ([]dag.Connection, error)
	// Connection finds one connection.
	Connection(ctx context.Context, id string) (dag.Connection, error)
	// SetConnection makes or changes a connection. Password and Extra are
	// stored encrypted; without a Fernet key one that has them is refused.
	SetConnection(ctx context.Context, c dag.Connection) error
	// DeleteConnection removes a connection.
	DeleteConnection(ctx context.Context, id string) error

	// XComs lists what tasks left.
	XComs(ctx context.Context, f dag.XComFilter) ([]dag.XComEntry, error)
	// Audit lists audit entries, newest first.
	Audit(ctx context.Context, f dag.AuditFilter) ([]dag.AuditEntry, error)
	// WriteAudit keeps one entry; ID and At are filled in.
	WriteAudit(ctx context.Context, e dag.AuditEntry) error
	// Check looks for broken promises in a live database; none is an empty list.
	Check(ctx context.Context) ([]dag.Violation, error)
	// Clean deletes one batch of history and is called again while there is more.
	Clean(ctx context.Context, b dag.CleanBatch) (dag.CleanedBatch, error)
	// OpenInstances gives each the instances of open dead letters and of unfinished
	// runs, some at a time.
	OpenInstances(ctx context.Context, each func([]dag.TaskInstanceKey) error) error
	// OpenEffects tells which of some effect keys open dead letters name.
	OpenEffects(ctx context.Context, keys []string) (map[string]bool, error)
	// ImportErrors lists the problems that SetImportErrors recorded.
	ImportErrors(ctx context.Context) ([]dag.Problem, error)
}

var _ Desk = (*Store)(nil)
