package dag

import "time"

// CleanKind names a part of the history that can be deleted.
type CleanKind string

// What may be deleted, in the order in which it is: events last, since those of
// a run that is gone are held by nothing any more.
const (
	// CleanRuns are finished runs with their task instances, attempts and XComs.
	CleanRuns CleanKind = "runs"
	// CleanAttempts are attempts that were followed by another one.
	CleanAttempts CleanKind = "attempts"
	// CleanEvents are callback events that were delivered or given up.
	CleanEvents CleanKind = "events"
	// CleanEffects are effect keys whose time is over.
	CleanEffects CleanKind = "effects"
	// CleanDesk are the payloads that edits of settled letters replaced, and
	// replays that ended with all their letters.
	CleanDesk CleanKind = "desk"
	// CleanLogs are the log files of attempts on this machine.
	CleanLogs CleanKind = "logs"
)

// CleanKinds lists all kinds in the order in which they are cleaned.
func CleanKinds() []CleanKind {
	return []CleanKind{CleanRuns, CleanAttempts, CleanEvents, CleanEffects, CleanDesk, CleanLogs}
}

// CleanBatch asks for one small step of deleting history.
type CleanBatch struct {
	Kind CleanKind
	// Before is the instant that what goes must be older than.
	Before time.Time
	// After is where the step before stopped; 0 at the beginning.
	After int64
	// Limit bounds how many rows of a kind one transaction deletes; default 500.
	Limit int
	// DryRun counts and deletes nothing.
	DryRun bool
}

// CleanedBatch is what one step did.
type CleanedBatch struct {
	// Deleted counts the rows of the kind (for runs: runs) that are gone.
	Deleted int
	// After is to be given to the next step.
	After int64
	// More tells that there may be more to delete.
	More bool
}
