package dag

import (
	"encoding/json"
	"time"
)

// LetterStatus is where a dead letter stands.
type LetterStatus string

// Statuses of a dead letter.
const (
	LetterSealed      LetterStatus = "sealed"
	LetterQuarantined LetterStatus = "quarantined"
	LetterReplaying   LetterStatus = "replaying"
	LetterResolved    LetterStatus = "resolved"
	LetterDropped     LetterStatus = "dropped"
	LetterExpired     LetterStatus = "expired"
)

// LetterSchemaVersion is the shape of the letters that this code writes.
const LetterSchemaVersion = 1

// LetterTTL is how long a letter is kept before it may be expired.
const LetterTTL = 14 * 24 * time.Hour

// Limits of the texts in a letter, in bytes. What is longer is cut in the
// middle with a mark, never refused.
const (
	MaxErrorMessage = 8 << 10
	MaxStackTrace   = 32 << 10
	MaxPayload      = 4 << 20
)

// DeadLetter is the sealed record of a task instance that left the retry loop
// without success: table dead_letter.
type DeadLetter struct {
	ID    int64  `json:"id"`
	JobID string `json:"job_id"` // TaskInstanceKey.String()
	TaskInstanceKey
	LogicalDate  *time.Time      `json:"logical_date"`
	Queue        string          `json:"queue"`
	AttemptCount int             `json:"attempt_count"` // >= 1
	ErrorClass   ErrorClass      `json:"error_class"`   // never transient
	ErrorCode    string          `json:"error_code"`
	ErrorMessage string          `json:"error_message"`
	StackTrace   string          `json:"stack_trace"`
	Fingerprint  string          `json:"fingerprint"`
	Payload      json.RawMessage `json:"payload,omitempty"`
	// OriginalPayloadHash is PayloadHash(Payload) at sealing.
	OriginalPayloadHash string       `json:"original_payload_hash"`
	AssetSHA256         string       `json:"asset_sha256,omitempty"` // stored as NULL when empty
	IdempotencyKey      string       `json:"idempotency_key"`
	ReturnCount         int          `json:"return_count"`
	Status              LetterStatus `json:"status"`
	SchemaVersion       int          `json:"schema_version"`
	FirstFailedAt       time.Time    `json:"first_failed_at"`
	EnqueuedAt          time.Time    `json:"enqueued_at"`
	ExpiresAt           time.Time    `json:"expires_at"`
	UpdatedAt           time.Time    `json:"updated_at"`
}
