package dag

import (
	"encoding/json"
	"time"
)

// This file holds what commands and pages ask the state database for, and
// what they get: filters, groups and requests as plain data.

// RunFilter narrows a list of runs. Zero lists all, newest first.
type RunFilter struct {
	DagID  string
	RunID  string
	States []RunState
	Types  []RunType
	// Since and Until bound run_after: Since <= run_after < Until.
	Since, Until *time.Time
	// Limit is the greatest number of rows; 0 for 100, negative for all.
	Limit int
	// Before pages on: only runs with a smaller id; 0 for the first page.
	Before int64
	// WithTaskStates fills Run.TaskStates.
	WithTaskStates bool
}

// InstanceFilter narrows a list of task instances. Rows come sorted by run id
// (the number), task id and map index.
type InstanceFilter struct {
	DagID    string
	RunID    string
	TaskID   string
	MapIndex *int
	States   []State
	Limit    int // 0 for 1000, negative for all
}

// LetterFilter narrows a list of dead letters. Every field that is set must
// match; zero matches all. Rows come in the order of their ids.
type LetterFilter struct {
	DagID       string       `json:"dag_id,omitempty"`
	TaskID      string       `json:"task_id,omitempty"`
	RunID       string       `json:"run_id,omitempty"`
	Queue       string       `json:"queue,omitempty"`
	ErrorClass  ErrorClass   `json:"error_class,omitempty"`
	ErrorCode   string       `json:"error_code,omitempty"`
	Fingerprint string       `json:"fingerprint,omitempty"`
	Status      LetterStatus `json:"status,omitempty"`
	// Open lists only letters that are not settled: sealed, quarantined or being
	// replayed.
	Open bool `json:"-"`
	// Since and Until bound enqueued_at: Since <= enqueued_at < Until.
	Since *time.Time `json:"since,omitempty"`
	Until *time.Time `json:"until,omitempty"`
	IDs   []int64    `json:"ids,omitempty"`
	// Limit is the greatest number of rows; 0 for 100, negative for all.
	Limit int `json:"-"`
	// After pages on: only letters with a greater id. UpTo: none with a greater.
	After int64 `json:"-"`
	UpTo  int64 `json:"-"`
	// Drain is a drain that replayed the letter.
	Drain string `json:"-"`
	// ExpiresBy bounds expires_at: not after this instant.
	ExpiresBy *time.Time `json:"-"`
	// Lane lists only letters of one lane of a drain; "" for both.
	Lane DrainLane `json:"-"`
}

// LetterGroup counts the letters of one fingerprint: one failure, however many
// instances it hit.
type LetterGroup struct {
	Fingerprint string     `json:"fingerprint"`
	ErrorClass  ErrorClass `json:"error_class"`
	ErrorCode   string     `json:"error_code"`
	DagID       string     `json:"dag_id"`
	TaskID      string     `json:"task_id"`
	Queue       string     `json:"queue"`
	// Message is the error message of the newest letter of the group.
	Message  string               `json:"message"`
	Count    int                  `json:"count"`
	First    time.Time            `json:"first_enqueued_at"`
	Last     time.Time            `json:"last_enqueued_at"`
	Statuses map[LetterStatus]int `json:"statuses"`
	// LastID is the id of the letter that was sealed last.
	LastID int64 `json:"last_id"`
	// Back counts the letters that a replay brought back and that are open again,
	// BackShare is their share of all.
	Back      int     `json:"came_back"`
	BackShare float64 `json:"came_back_share"`
}

// Open counts the letters that wait for a decision.
func (g LetterGroup) Open() int { return g.Statuses[LetterSealed] + g.Statuses[LetterQuarantined] }

// ClearRequest asks to run instances of one run again. The caller has already
// turned "with downstream" and "with upstream" into TaskIDs, because that needs
// the DAG's graph.
type ClearRequest struct {
	DagID string
	RunID string
	// TaskIDs to clear, all instances of each; empty for every task of the run.
	TaskIDs []string
	// MapIndexes narrows to these instances of the tasks; empty for all.
	MapIndexes []int
	// OnlyFailed leaves instances alone that are not failed or upstream_failed.
	OnlyFailed bool
	// OnlyRunning leaves instances alone that do not run now.
	OnlyRunning bool
	// DryRun lists what would be cleared and changes nothing.
	DryRun bool
	// Actor is who asks, for the audit log: "cli:alice".
	Actor string
}

// Violation is one broken rule that a check of a live database found.
type Violation struct {
	// Rule is a short name from the list in docs/operations.md: "failed-without-letter".
	Rule string `json:"rule"`
	// Subject is what breaks it: a task instance key, a letter's id.
	Subject string `json:"subject"`
	// Found says in words what was found and what was expected.
	Found string `json:"found"`
}

// XComEntry is one value that a task left.
type XComEntry struct {
	TaskInstanceKey
	Key       string          `json:"key"`
	Value     json.RawMessage `json:"value"`
	CreatedAt time.Time       `json:"created_at"`
}

// XComFilter narrows a list of XComs.
type XComFilter struct {
	DagID    string
	RunID    string
	TaskID   string
	MapIndex *int
	Key      string
	Limit    int // 0 for 1000, negative for all
}

// AuditEntry is one act of a person or of Airlock that a log keeps: who did
// what to what, and when.
type AuditEntry struct {
	ID      int64     `json:"id"`
	At      time.Time `json:"at"`
	Actor   string    `json:"actor"`
	Action  string    `json:"action"`  // "clear", "pause", "letter.resolve", ...
	Subject string    `json:"subject"` // a DAG id, a task instance key, a letter's id
	// Detail is a JSON object with what else is to be known, or nil.
	Detail json.RawMessage `json:"detail,omitempty"`
}

// AuditFilter narrows a list of audit entries, newest first.
type AuditFilter struct {
	Action  string
	Subject string
	Since   *time.Time
	Limit   int   // 0 for 100, negative for all
	Before  int64 // only smaller ids; 0 for the first page
}
