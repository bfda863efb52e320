package dag

import "time"

// HistoryEntry is one thing that happened to a task instance.
type HistoryEntry struct {
	At time.Time `json:"at"`
	// Event says what: scheduled, queued, started, the state that an attempt
	// ended in, retry_due, sealed, a decision about the letter, cleared, or the
	// kind of a callback.
	Event string `json:"event"`
	// Try and Fence of the attempt; 0 where it is about none.
	Try   int   `json:"try_number"`
	Fence int64 `json:"fence"`
	// Who acted: a worker, or the person of a command.
	Who string `json:"who"`
	// Detail is one line for a reader.
	Detail string `json:"detail"`
}
