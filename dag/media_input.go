package dag

import "time"

// MediaInputWindow is how long a failure of a media input counts: one that
// comes later than this after the last begins the count anew.
const MediaInputWindow = 7 * 24 * time.Hour

// MediaInput is what the state database counts of one media input, by its
// content: the failures of all tasks, runs, DAGs and workers together.
type MediaInput struct {
	AssetSHA256 string `json:"asset_sha256"`
	// Failures since the input was first seen or last released, with no pause
	// longer than MediaInputWindow between them.
	Failures int `json:"failures"`
	// TotalFailures is never set back.
	TotalFailures int       `json:"total_failures"`
	FirstFailedAt time.Time `json:"first_failed_at"`
	LastFailedAt  time.Time `json:"last_failed_at"`
	LastErrorCode string    `json:"last_error_code"`
	// LastJobID is the task instance of the last failure.
	LastJobID string `json:"last_job_id"`
	// ReleasedAt is when a person last set Failures back; nil for never.
	ReleasedAt *time.Time `json:"released_at"`
	ReleasedBy string     `json:"released_by,omitempty"`
}

// Poisoned tells whether the input has failed so often that nobody is to open
// it again until it is released. A limit of 0 is none.
func (m MediaInput) Poisoned(limit int) bool { return limit > 0 && m.Failures >= limit }

// MediaInputFilter narrows a list of media inputs. Rows come with the most
// failures first.
type MediaInputFilter struct {
	// Hashes are the inputs to list; empty for all.
	Hashes []string
	// MinFailures is the least count to list.
	MinFailures int
	Limit       int // 0 for 100, negative for all
}
