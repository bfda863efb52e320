package retry

import (
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// PlannedRetry is one line of a retry schedule.
type PlannedRetry struct {
	// Retry counts from 1.
	Retry int `json:"retry"`
	// Base and Jitter are Airflow's back-off and what its hash adds; Base is the
	// ceiling under a class policy.
	Base   time.Duration `json:"base"`
	Jitter time.Duration `json:"jitter"`
	// Cap is the longest delay that the policy allows, 0 for none.
	Cap time.Duration `json:"cap"`
	// Min and Max are the shortest and longest wait: equal under Airflow's
	// formula and with jitter none, else the ends of the draw.
	Min time.Duration `json:"min_delay"`
	Max time.Duration `json:"max_delay"`
	// EarliestDue and Due are when the retry is due after waits of Min and of
	// Max, if every attempt fails at once.
	EarliestDue time.Time `json:"earliest_due"`
	Due         time.Time `json:"due"`
	// Source is airflow or class:<jitter>.
	Source string `json:"source"`
}

// maxPlanned bounds a plan; nobody reads further.
const maxPlanned = 10_000

// Plan lists the retries of a task instance whose first attempt failed at end,
// if every further attempt fails as soon as it starts. To plan for an error
// code, give a policy whose Class is ClassFor and whose Retries is RetriesFor
// of that code. A policy with more than ten thousand retries shows the first ten
// thousand.
func Plan(p dag.RetryPolicy, dagID, taskID string, logical *time.Time, end time.Time) []PlannedRetry {
	n := min(max(p.Retries, 0), maxPlanned)
	out := make([]PlannedRetry, 0, n)
	earliest, latest := end.UTC(), end.UTC()
	var previous time.Duration // the longest possible, for decorrelated jitter
	for k := 1; k <= n; k++ {
		r := PlannedRetry{Retry: k}
		if c := p.Class; c != nil {
			policy := *c
			if policy.Jitter == "" {
				policy.Jitter = dag.JitterFull
			}
			d := rangeOf(policy, k, previous)
			r.Base, r.Cap, r.Min, r.Max = d.hi, limitOf(policy), d.lo, d.hi
			r.Source = SourceClass + string(policy.Jitter)
		} else {
			d := Next(p, Attempt{DagID: dagID, TaskID: taskID, LogicalDate: logical, TryNumber: k, Failures: k}, nil)
			r.Base, r.Jitter, r.Min, r.Max, r.Source = d.Base, d.Jitter, d.Delay, d.Delay, d.Source
			r.Cap = capOf(p)
		}
		previous = r.Max
		earliest, latest = earliest.Add(r.Min), latest.Add(r.Max)
		r.EarliestDue, r.Due = earliest, latest
		out = append(out, r)
	}
	return out
}

// capOf is the cap of Airflow's formula; a linear delay has none.
func capOf(p dag.RetryPolicy) time.Duration {
	if !(p.Exponential > 0) || p.Exponential == 1 {
		return 0
	}
	if p.MaxDelay > 0 {
		return min(p.MaxDelay, Limit)
	}
	return Limit
}
