package dag

import "time"

// Stats are figures about the whole state database, for gauges. They are the
// same from whichever process asks.
type Stats struct {
	Now time.Time
	// Letters has a line for each status and queue with open letters.
	Letters []LetterDepth
	// Decisions counts what drains decided about letters, by decision.
	Decisions map[string]int
	// DoublePublished counts letters about which one drain decided twice: always
	// 0, because a UNIQUE constraint forbids it.
	DoublePublished int
	// Instances counts the task instances that have not ended, by state.
	Instances map[State]int
	// Runs counts the runs that have not ended, by state.
	Runs map[RunState]int
	// Unserved are the queues in which instances wait for a worker though none that
	// lives takes from them.
	Unserved []UnservedQueue
	// Pools with their use.
	Pools []Pool
	// Events counts callback events that are pending, and those given up.
	EventsPending int
	EventsDead    int
	// OldestEvent is when the oldest pending event was written; nil for none.
	OldestEvent *time.Time
	Circuits    []Circuit
	// DAGs counts those that are not stale, ImportErrors the files' problems
	// that keep a DAG from being read.
	DAGs         int
	ImportErrors int
}

// LetterDepth counts the open dead letters of a queue in one status.
type LetterDepth struct {
	Status LetterStatus
	Queue  string
	Count  int
	// Oldest is when the oldest of them was sealed.
	Oldest time.Time
	// Expiring counts those that expire within LetterWarning.
	Expiring int
}

// LetterWarning is how long before its expiry a letter counts as expiring.
const LetterWarning = 48 * time.Hour
