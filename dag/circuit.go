package dag

import "time"

// CircuitState is the state of a circuit breaker.
type CircuitState string

// States of a circuit breaker.
const (
	CircuitClosed   CircuitState = "closed"    // calls go through and are counted
	CircuitOpen     CircuitState = "open"      // nothing goes through
	CircuitHalfOpen CircuitState = "half_open" // a few probes go through
)

// CircuitPolicy says when the breaker of a dependency opens and closes. The
// zero value is not usable; see DefaultCircuitPolicy.
type CircuitPolicy struct {
	// FailureRate opens the breaker when at least this share of the window's
	// calls failed, above 0 up to 1.
	FailureRate float64 `json:"failure_rate"`
	// MinimumCalls is how many calls the window must have before the share says
	// anything, at least 1.
	MinimumCalls int `json:"minimum_calls"`
	// Window is how far back calls count.
	Window time.Duration `json:"window"`
	// OpenFor is how long an open breaker lets nothing through.
	OpenFor time.Duration `json:"open_for"`
	// Probes is how many calls a half-open breaker lets through at a time, and
	// how many must succeed before it closes.
	Probes int `json:"probes"`
	// Alert are the receivers that are told when it opens and closes.
	Alert []Callback `json:"alert,omitempty"`
}

// DefaultCircuitPolicy is what holds where nothing is said: half of at least
// ten calls in a minute, half a minute open, one probe, a line in the log.
func DefaultCircuitPolicy() CircuitPolicy {
	return CircuitPolicy{
		FailureRate: 0.5, MinimumCalls: 10, Window: time.Minute, OpenFor: 30 * time.Second, Probes: 1, Alert: []Callback{{Name: "log"}},
	}
}

// Circuit is the breaker of one dependency, shared by all workers: table
// circuit_breaker.
type Circuit struct {
	Name  string       `json:"name"`
	State CircuitState `json:"state"`
	// Version rises with each change; a change is written only over the version
	// that it was decided from.
	Version int64 `json:"version"`
	// Openings counts how often it went from closed to open.
	Openings int `json:"openings"`
	// ByHand is set while a person holds it open.
	ByHand   bool       `json:"by_hand"`
	OpenedAt *time.Time `json:"opened_at"` // of this opening; nil when closed
	// RetryAt is when the first probe may go, nil when closed or held by hand.
	RetryAt *time.Time `json:"retry_at"`
	// Probes are under way; those of before ProbeUntil are given up then.
	Probes     int        `json:"probes"`
	ProbeUntil *time.Time `json:"probe_until,omitempty"`
	// Successes counts the probes of this half-open phase that went well.
	Successes int    `json:"successes"`
	Reason    string `json:"reason,omitempty"` // of the last change
	// Policy is the one that the last change was decided by.
	Policy    CircuitPolicy `json:"policy"`
	ChangedAt time.Time     `json:"changed_at"`
	// Window holds the recent calls, where a listing asks for them.
	Window CircuitWindow `json:"window,omitzero"`
}

// CircuitWindow counts the calls of a window.
type CircuitWindow struct {
	Calls    int `json:"calls"`
	Failures int `json:"failures"`
}

// CircuitUpdate asks the state database for one step of a breaker: Calls are
// counted, then Decide says what follows. All of it is one transaction.
type CircuitUpdate struct {
	Name string
	// Calls and Failures are added to the window; both may be 0.
	Calls    int
	Failures int
	// Window is how far back Decide looks.
	Window time.Duration
	// Decide gives the breaker's next value and the events to send. It is pure
	// and may be called again when the transaction is repeated. A breaker that
	// nobody has used yet is closed, with version 0.
	Decide func(c Circuit, w CircuitWindow, now time.Time) (Circuit, []Event)
	// Audit, when set, is kept in the same transaction.
	Audit *AuditEntry
}
