package dag

import (
	"encoding/json"
	"strings"
	"time"
)

// ReplayPool is the pool that every replayed instance needs a slot of, besides
// its own pool's: it bounds how much of the workers a replay may take. It exists
// always, like DefaultPool.
const ReplayPool = "replay_pool"

// ReplayRank is by how much the priority weight of an instance is lowered while
// it is replayed, so that live work goes first. Replays keep their order among
// each other.
const ReplayRank = 1_000_000

// DefaultMaxReturns is how often an effect may have come back before a replay
// puts its letter into quarantine: with 3 the fourth return does.
const DefaultMaxReturns = 3

// ReplayDecision is what was decided about one dead letter: the words of
// dead_letter_audit.decision.
type ReplayDecision string

// Decisions. The first five are a drain's, the others are made by hand or by
// expiry.
const (
	DecisionReplayed      ReplayDecision = "replayed"
	DecisionDropDuplicate ReplayDecision = "drop_duplicate"
	DecisionQuarantine    ReplayDecision = "quarantine"
	DecisionDeferred      ReplayDecision = "deferred"
	DecisionRejected      ReplayDecision = "rejected"
	DecisionExpired       ReplayDecision = "expired"
	DecisionReleased      ReplayDecision = "released"
	DecisionResolved      ReplayDecision = "resolved"
)

// DrainCounts counts a drain's decisions.
type DrainCounts struct {
	Replayed      int `json:"replayed"`
	DropDuplicate int `json:"drop_duplicate"`
	Quarantine    int `json:"quarantine"`
	Deferred      int `json:"deferred"`
	Rejected      int `json:"rejected"`
}

// Add counts one decision; one that is no drain's counts nowhere.
func (c *DrainCounts) Add(d ReplayDecision) {
	switch d {
	case DecisionReplayed:
		c.Replayed++
	case DecisionDropDuplicate:
		c.DropDuplicate++
	case DecisionQuarantine:
		c.Quarantine++
	case DecisionDeferred:
		c.Deferred++
	case DecisionRejected:
		c.Rejected++
	case DecisionExpired, DecisionReleased, DecisionResolved:
	}
}

// Sum is the number of letters that were decided about.
func (c DrainCounts) Sum() int {
	return c.Replayed + c.DropDuplicate + c.Quarantine + c.Deferred + c.Rejected
}

// DrainState is where a drain stands.
type DrainState string

// States of a drain. A running one may have no process at work on it: whoever
// resumes it goes on at its cursor.
const (
	DrainRunning DrainState = "running"
	DrainPaused  DrainState = "paused"  // by Airlock: a canary or a share went wrong
	DrainStopped DrainState = "stopped" // by a person
	DrainDone    DrainState = "done"
)

// PausedByCircuit begins the reason of a drain that paused because a circuit
// breaker opened. Whoever makes it run again has not judged what came back.
const PausedByCircuit = "circuit "

// Drain is one replay of dead letters: table replay_drain.
type Drain struct {
	ID    string     `json:"id"`
	State DrainState `json:"state"`
	// Reason says why it is paused or stopped.
	Reason string `json:"reason,omitempty"`
	// Filter and Where say which letters it selects; Where is an expression over
	// a letter and its payload, "" for all.
	Filter LetterFilter `json:"filter"`
	Where  string       `json:"where,omitempty"`
	// Rate is how many letters may be replayed a second, 0 for no limit; Burst
	// how many of them at once.
	Rate  float64 `json:"rate"`
	Burst int     `json:"burst"`
	// MaxInFlight is how many of its letters may be replayed and not yet ended; 0
	// for no limit, but one at a time for queues of GPU work.
	MaxInFlight int `json:"max_in_flight"`
	// Limit is how many letters it decides about at most, 0 for no limit.
	Limit int `json:"limit"`
	// Canary, when not 0, is how many letters are replayed before the drain waits
	// for all their ends; CanaryPassed is set when they all ended well.
	Canary       int  `json:"canary"`
	CanaryPassed bool `json:"canary_passed"`
	MaxReturns   int  `json:"max_returns"`
	// PauseShare pauses the drain when more than this share of what was replayed
	// came back, or of what was selected is poison; 1 never does.
	PauseShare float64 `json:"pause_share"`
	// MaxID is the newest letter that was there when the drain began: younger
	// ones are left alone. Cursor is the last letter that was looked at: all up to
	// it are decided.
	MaxID  int64 `json:"max_id"`
	Cursor int64 `json:"cursor"`
	// GPUCursor is Cursor for letters of GPU queues, which are taken side by side
	// with the others: they go slowly and hold nobody up.
	GPUCursor int64 `json:"gpu_cursor"`
	// Total is how many letters the filter found when the drain began, before
	// Where was asked.
	Total int `json:"total"`
	DrainCounts
	// NextAt is when the token bucket gives its next token; SlowUntil is until
	// when a receiver asked for a rest.
	NextAt    *time.Time `json:"next_at,omitempty"`
	SlowUntil *time.Time `json:"slow_until,omitempty"`
	Actor     string     `json:"actor"`
	CreatedAt time.Time  `json:"created_at"`
	UpdatedAt time.Time  `json:"updated_at"`
	EndedAt   *time.Time `json:"ended_at"`
}

// DrainOutcome is what became of the letters that a drain replayed.
type DrainOutcome struct {
	// InFlight have not ended yet; Resolved ended well; Back were sealed again.
	InFlight int `json:"in_flight"`
	Resolved int `json:"resolved"`
	Back     int `json:"back"`
}

// DrainReason counts letters that a drain did not put back for one reason.
type DrainReason struct {
	Decision ReplayDecision `json:"decision"`
	Reason   string         `json:"reason"`
	Count    int            `json:"count"`
	// Sample is the id of one of these letters.
	Sample int64 `json:"sample"`
}

// ReplayCase is one dead letter with what the state database knows for the
// decision about it.
type ReplayCase struct {
	Letter DeadLetter
	// Unreadable says what of the row could not be read, "" when all could.
	Unreadable string
	// TaskInstanceID and Fence name the attempt that the letter seals.
	TaskInstanceID int64
	Fence          int64
	// Instance is the sealed instance as it is now; its ID is 0 when it is gone.
	Instance TaskInstance
	// RunID is the run's number.
	RunID int64
	// Edited is set when the payload was changed by hand; PayloadEdit are the
	// keys and values that the change gave.
	Edited      bool
	PayloadEdit json.RawMessage
	// EffectDone is set when the table effect has the key as done.
	EffectDone bool
	// Returns is how often the effect was replayed, over all its letters.
	Returns int
	// SameEffect is another letter with the same key that this drain has replayed
	// already, or that is being replayed; 0 for none.
	SameEffect int64
	// Payload is the letter's payload as decoded JSON, nil when it is none. It is
	// filled in by the controller.
	Payload any
}

// ReplayVerdict is the decision about one letter, ready to be carried out.
type ReplayVerdict struct {
	Case     ReplayCase
	Decision ReplayDecision
	Reason   string
}

// DrainLane parts the letters of a drain in two that are taken side by side.
type DrainLane string

// Lanes: letters of GPU queues, and all others.
const (
	LaneOther DrainLane = "other"
	LaneGPU   DrainLane = "gpu"
)

// LaneOf is the lane of a queue's letters. Queues for GPU work are told by their
// names: gpu, and what begins with "gpu.".
func LaneOf(queue string) DrainLane {
	if queue == "gpu" || strings.HasPrefix(queue, "gpu.") {
		return LaneGPU
	}
	return LaneOther
}

// DrainStretch is what a drain has before it in one lane: verdicts in the order
// of the letters' ids.
type DrainStretch struct {
	Verdicts []ReplayVerdict
	// UpTo is the last letter that was looked at, also when nothing was decided
	// about it.
	UpTo int64
	// Last is set when no letter of the lane follows UpTo.
	Last bool
}

// DrainStep is the next step of a drain. It is done after a step with the last
// stretch of both lanes.
type DrainStep struct{ Other, GPU DrainStretch }

// DrainWait says what a drain waits for.
type DrainWait string

// What a drain waits for.
const (
	WaitNone     DrainWait = ""
	WaitRate     DrainWait = "rate"      // the token bucket
	WaitSlow     DrainWait = "slow"      // a receiver that asked for a rest
	WaitInFlight DrainWait = "in_flight" // letters that are replayed and have not ended
	WaitCanary   DrainWait = "canary"    // the canary's ends
)

// DrainStepResult says what one step did. What it did not get to stands after
// the lane's cursor and is to be given again.
type DrainStepResult struct {
	// Drain is the drain after the step.
	Drain Drain
	// Decided counts the step's own decisions.
	Decided DrainCounts
	// WaitFor and Wait say why the step stopped early and for how long it is
	// useless to ask again; Wait is 0 when only an event ends the wait.
	WaitFor DrainWait
	Wait    time.Duration
}
