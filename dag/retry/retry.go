package retry

import (
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// Attempt is what a delay depends on besides the policy.
type Attempt struct {
	DagID, TaskID string
	// LogicalDate of the run, nil when it has none.
	LogicalDate *time.Time
	// TryNumber of the attempt that just failed, from 1: Airflow's n.
	TryNumber int
	// Failures so far including this one: the k of class policies.
	Failures int
	// PreviousDelay is what was drawn for the last retry, 0 before the first;
	// only decorrelated jitter looks at it.
	PreviousDelay time.Duration
	// ErrorCode narrows the policy where it has an entry for it.
	ErrorCode string
	// RetryAfter is the server's word on when to come back, 0 for none.
	RetryAfter time.Duration
}

// Sources of a delay. That of a class policy is SourceClass and its jitter:
// "class:full".
const (
	SourceAirflow    = "airflow"
	SourceClass      = "class:"
	SourceRetryAfter = "retry_after"
)

// Delay is how long to wait, and where the number comes from.
type Delay struct {
	// Base is the delay before jitter: Airflow's back-off, or the ceiling of a
	// class policy.
	Base time.Duration
	// Jitter is what Airflow's hash adds to the base; 0 for class policies,
	// which draw below their ceiling.
	Jitter time.Duration
	// Ceiling is the most that this retry could have waited.
	Ceiling time.Duration
	// Delay is the wait, from the end of the failed attempt.
	Delay time.Duration
	// Source is airflow, class:<jitter> or retry_after.
	Source string
}

// DefaultThrottleTime caps a server's Retry-After when the policy says nothing.
const DefaultThrottleTime = time.Hour

// Next is the delay before the next attempt. A server's Retry-After comes
// first, cut to the policy's throttling time; then the policy of the error
// code, then the class policy, then Airflow's formula. rnd is asked at most
// once, and only by a class policy that draws; a nil rnd waits the ceiling.
func Next(p dag.RetryPolicy, a Attempt, rnd dag.Rand) Delay {
	if a.RetryAfter > 0 {
		limit := p.MaxThrottleTime
		if limit <= 0 {
			limit = DefaultThrottleTime
		}
		limit = min(limit, Limit)
		return Delay{Base: a.RetryAfter, Ceiling: limit, Delay: min(a.RetryAfter, limit), Source: SourceRetryAfter}
	}
	if class := ClassFor(p, a.ErrorCode); class != nil {
		return classDelay(*class, a, rnd)
	}
	return AirflowDelay(AirflowInput{
		DagID: a.DagID, TaskID: a.TaskID, LogicalDate: a.LogicalDate, Try: a.TryNumber,
		Delay: p.Delay, MaxDelay: p.MaxDelay, Exponential: p.Exponential,
	})
}

// ClassFor is the class policy that decides for an error code; nil when
// Airflow's formula decides. The code's entry wins as a whole when it is
// complete, as the loader makes it: with a base and a jitter. Otherwise the
// fields that it sets are laid over the queue's policy or, where there is
// none, over retry_delay and max_retry_delay with full jitter.
func ClassFor(p dag.RetryPolicy, code string) *dag.ClassPolicy {
	entry, narrowed := p.ByCode[code]
	if !narrowed || code == "" {
		return p.Class
	}
	if complete(entry) {
		return &entry
	}
	c := dag.ClassPolicy{MaxRetries: p.Retries, BackoffBase: p.Delay, BackoffMax: p.MaxDelay, Jitter: dag.JitterFull}
	if p.Class != nil {
		c = *p.Class
	}
	if entry.MaxRetries > 0 {
		c.MaxRetries = entry.MaxRetries
	}
	if entry.BackoffBase > 0 {
		c.BackoffBase = entry.BackoffBase
	}
	if entry.BackoffMax > 0 {
		c.BackoffMax = entry.BackoffMax
	}
	if entry.MinDelay > 0 {
		c.MinDelay = entry.MinDelay
	}
	if entry.Jitter != "" {
		c.Jitter = entry.Jitter
	}
	return &c
}

// complete tells whether an entry says everything, so that a zero in it means
// zero and not "as the queue's".
func complete(c dag.ClassPolicy) bool { return c.BackoffBase > 0 && c.Jitter != "" }
