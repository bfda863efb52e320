package dag

import (
	"encoding/json"
	"time"
)

// LetterAct is what a person does with letters, besides replaying them.
type LetterAct string

// Acts.
const (
	ActQuarantine LetterAct = "quarantine" // sealed -> quarantined: no drain takes it
	ActRelease    LetterAct = "release"    // quarantined -> sealed, its returns counted anew
	ActResolve    LetterAct = "resolve"    // sealed or quarantined -> resolved: settled by other means
	ActExpire     LetterAct = "expire"     // sealed or quarantined, after expires_at -> expired
)

// LetterDecision is one row of dead_letter_audit.
type LetterDecision struct {
	DrainID   string         `json:"drain_id,omitempty"` // "" for a decision by hand
	Decision  ReplayDecision `json:"decision"`
	Reason    string         `json:"reason"`
	Actor     string         `json:"actor"`
	DecidedAt time.Time      `json:"decided_at"`
}

// PayloadChange is one key of a payload that an edit changed. Old or New is nil
// for a key that was not there, or is not any more.
type PayloadChange struct {
	Key string          `json:"key"`
	Old json.RawMessage `json:"old,omitempty"`
	New json.RawMessage `json:"new,omitempty"`
}

// LetterEdit is one change of a letter's payload by hand.
type LetterEdit struct {
	ID         int64           `json:"id"`
	LetterID   int64           `json:"dead_letter_id"`
	OldPayload json.RawMessage `json:"old_payload"`
	OldHash    string          `json:"old_payload_hash"`
	NewHash    string          `json:"new_payload_hash"`
	Diff       []PayloadChange `json:"diff"`
	Reason     string          `json:"reason,omitempty"`
	Actor      string          `json:"actor"`
	EditedAt   time.Time       `json:"edited_at"`
}

// LetterRecord is a letter as a file keeps it, one on each line: with the fence
// of the attempt that it seals and what was edited in it.
type LetterRecord struct {
	DeadLetter
	Fence       int64           `json:"fence"`
	PayloadEdit json.RawMessage `json:"payload_edit,omitempty"`
}

// ImportStatus is what became of one record of an import.
type ImportStatus string

// What becomes of records.
const (
	ImportAdded    ImportStatus = "added"    // the letter was not there
	ImportRestored ImportStatus = "restored" // it was expired, dropped or damaged
	ImportThere    ImportStatus = "there"    // nothing to do
)
