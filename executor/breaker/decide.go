package breaker

import (
	"fmt"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// Answer is what a call that wants to go through is told.
type Answer struct {
	// Go says that the call may be made.
	Go bool
	// Probe says that the call is one of the few that a half-open breaker lets
	// through: its end decides.
	Probe bool
	// Until is when to ask again, where the call may not be made.
	Until time.Time
}

// Ask decides about a call that wants to go through at an instant. probeLimit
// is how long a probe may take before its place is given to another: whoever
// made it may be dead.
func Ask(c dag.Circuit, p dag.CircuitPolicy, now time.Time, probeLimit time.Duration) (dag.Circuit, Answer) {
	switch c.State {
	case dag.CircuitOpen:
		if c.ByHand || c.RetryAt == nil {
			return c, Answer{Until: now.Add(p.OpenFor)}
		}
		if now.Before(*c.RetryAt) {
			return c, Answer{Until: *c.RetryAt}
		}
		c.State, c.Probes, c.Successes = dag.CircuitHalfOpen, 0, 0
		c.Reason = "open long enough: probes may go"
	case dag.CircuitHalfOpen:
		if c.ProbeUntil != nil && !now.Before(*c.ProbeUntil) {
			c.Probes = 0
		}
	default:
		return c, Answer{Go: true}
	}
	if c.Probes+c.Successes >= p.Probes {
		return c, Answer{Until: now.Add(p.OpenFor / 2)}
	}
	c.Probes++
	until := now.Add(probeLimit)
	c.ProbeUntil = &until
	return c, Answer{Go: true, Probe: true}
}

// Ended are the calls that ended since the last settling.
type Ended struct {
	// Calls and Failures count for the window; both without probes.
	Calls, Failures int
	// Probes that ended, with what each says.
	Probes []Probe
}

// Probe is a probe that ended.
type Probe struct {
	// Phase is the ChangedAt of the half-open breaker that let it through: what
	// an earlier phase let through says nothing about this one.
	Phase time.Time
	End   End
}

// End is how a call ended, as far as the dependency is concerned.
type End int

// Ends of a call.
const (
	// Neutral says nothing about the dependency: bad data, a stop, a crash.
	Neutral End = iota
	Success
	Failure
)

// Settle takes ended calls into account; w is the window with them in it.
func Settle(c dag.Circuit, w dag.CircuitWindow, ended Ended, p dag.CircuitPolicy, now time.Time) dag.Circuit {
	alert := c.Policy.Alert
	if c.State == dag.CircuitClosed {
		alert = p.Alert
	}
	c.Policy = p
	c.Policy.Alert = alert // who was told of the opening is told of the closing
	switch c.State {
	case dag.CircuitClosed:
		if w.Calls >= p.MinimumCalls && float64(w.Failures) >= p.FailureRate*float64(w.Calls) && w.Failures > 0 {
			return open(c, fmt.Sprintf("%d of %d calls failed within %s", w.Failures, w.Calls, p.Window), p.OpenFor, now)
		}
	case dag.CircuitHalfOpen:
		for _, probe := range ended.Probes {
			if !probe.Phase.Equal(c.ChangedAt) {
				continue
			}
			c.Probes = max(0, c.Probes-1)
			switch probe.End {
			case Success:
				c.Successes++
			case Failure:
				return reopen(c, "a probe failed", p.OpenFor, now)
			case Neutral: // it said nothing about the dependency
			}
		}
		if c.Successes >= p.Probes {
			return closed(c, fmt.Sprintf("%d of %d probes succeeded", c.Successes, p.Probes))
		}
	case dag.CircuitOpen: // calls that began before it opened change nothing
	}
	return c
}

// OpenByHand holds a breaker open until it is closed by hand. One that is open
// already is the same opening.
func OpenByHand(c dag.Circuit, reason string, now time.Time) dag.Circuit {
	if c.State == dag.CircuitClosed {
		c = open(c, reason, 0, now)
	}
	c.State, c.ByHand, c.RetryAt, c.Reason = dag.CircuitOpen, true, nil, reason
	c.Probes, c.ProbeUntil, c.Successes = 0, nil, 0
	return c
}

// CloseByHand closes a breaker whatever its window says.
func CloseByHand(c dag.Circuit, reason string) dag.Circuit { return closed(c, reason) }

func open(c dag.Circuit, reason string, openFor time.Duration, now time.Time) dag.Circuit {
	c = reopen(c, reason, openFor, now)
	c.Openings++
	c.OpenedAt = &now
	return c
}

// reopen goes back from half open: the same opening, the same alert.
func reopen(c dag.Circuit, reason string, openFor time.Duration, now time.Time) dag.Circuit {
	retry := now.Add(openFor)
	c.State, c.Reason, c.RetryAt, c.ByHand = dag.CircuitOpen, reason, &retry, false
	c.Probes, c.ProbeUntil, c.Successes = 0, nil, 0
	return c
}

func closed(c dag.Circuit, reason string) dag.Circuit {
	c.State, c.Reason, c.ByHand = dag.CircuitClosed, reason, false
	c.OpenedAt, c.RetryAt, c.Probes, c.ProbeUntil, c.Successes = nil, nil, 0, nil, 0
	return c
}
