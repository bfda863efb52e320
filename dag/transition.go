package dag

import "sort"

// TransitionRule is one line of the table of transitions: who may change an
// instance from one state to another, and why.
type TransitionRule struct {
	From, To State
	By       string // scheduler, worker, reaper, operator (a person), loader
	Why      string
}

// TransitionTable is the one list of state changes of a task instance. A
// change that is not here is refused by the store; docs/states.md is drawn
// from it.
func TransitionTable() []TransitionRule {
	return []TransitionRule{
		{StateNone, StateScheduled, "scheduler", "trigger rule holds, no slot yet"},
		{StateNone, StateQueued, "scheduler", "trigger rule holds and a slot is free"},
		{StateNone, StateSuccess, "scheduler", "an empty task needs no worker"},
		{StateNone, StateSkipped, "scheduler", "trigger rule, branch or short circuit skips it; a mapped task of length 0; run timed out"},
		{StateNone, StateUpstreamFailed, "scheduler", "trigger rule cannot hold any more"},
		{StateNone, StateFailed, "scheduler", "a mapped task whose sources cannot be read: sealed in the same transaction"},
		{StateNone, StateRemoved, "scheduler", "mapped instance beyond what upstream made, task gone from the DAG, or run outside the task's dates"},
		{StateScheduled, StateQueued, "scheduler", "pool, run and task limits leave a slot"},
		{StateScheduled, StateSkipped, "scheduler", "run timed out, fail_fast, or a branch skips it"},
		{StateQueued, StateRunning, "worker", "claimed: fence + 1, lease begins"},
		{StateQueued, StateSkipped, "scheduler", "run timed out, fail_fast, or a branch skips it"},
		{StateRunning, StateSuccess, "worker", "outcome success"},
		{StateRunning, StateSkipped, "worker", "outcome skipped, or run timed out"},
		{StateRunning, StateFailed, "worker", "permanent, or a budget is used up: sealed in the same transaction"},
		{StateRunning, StateUpForRetry, "worker", "transient with budget left, throttled, or crashed"},
		{StateRunning, StateUpForReschedule, "worker", "a sensor in reschedule mode is not satisfied yet, or a circuit is open"},
		{StateRunning, StateQueued, "worker", "handed back unstarted: no attempt spent"},
		{StateRunning, StateRestarting, "operator", "cleared while running"},
		{StateRestarting, StateUpForRetry, "worker", "the cleared attempt has stopped"},
		{StateRestarting, StateNone, "reaper", "the cleared attempt's lease ended"},
		{StateRestarting, StateSkipped, "scheduler", "run timed out"},
		{StateUpForRetry, StateScheduled, "scheduler", "retry is due, no slot yet"},
		{StateUpForRetry, StateQueued, "scheduler", "retry is due and a slot is free"},
		{StateUpForRetry, StateSkipped, "scheduler", "run timed out or fail_fast"},
		{StateUpForReschedule, StateScheduled, "scheduler", "next poke or look is due, no slot yet"},
		{StateUpForReschedule, StateQueued, "scheduler", "next poke or look is due and a slot is free"},
		{StateUpForReschedule, StateSkipped, "scheduler", "run timed out or fail_fast"},
		{StateScheduled, StateNone, "operator", "cleared"},
		{StateQueued, StateNone, "operator", "cleared"},
		{StateUpForRetry, StateNone, "operator", "cleared"},
		{StateUpForReschedule, StateNone, "operator", "cleared"},
		{StateSuccess, StateNone, "operator", "cleared"},
		{StateFailed, StateNone, "operator", "cleared, or its dead letter is replayed"},
		{StateSkipped, StateNone, "operator", "cleared"},
		{StateUpstreamFailed, StateNone, "operator", "cleared, or what it waited for is replayed"},
		{StateRemoved, StateNone, "operator", "cleared"},
	}
}

// CanTransition tells whether the table has the change.
func CanTransition(from, to State) bool {
	for _, r := range TransitionTable() {
		if r.From == from && r.To == to {
			return true
		}
	}
	return false
}

// NextStates lists the states that can follow one, sorted.
func NextStates(from State) []State {
	seen := map[State]bool{}
	var out []State
	for _, r := range TransitionTable() {
		if r.From == from && !seen[r.To] {
			seen[r.To] = true
			out = append(out, r.To)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i] < out[j] })
	return out
}
