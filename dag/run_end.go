package dag

import "time"

// Reasons of a run that has ended.
const (
	ReasonSuccess     = "success"
	ReasonTaskFailure = "task_failure"
	ReasonDeadlocked  = "all_tasks_deadlocked"
	ReasonTimedOut    = "timed_out"
	// ReasonReplaced is that of a test which was stopped, and whose date another
	// test has.
	ReasonReplaced = "replaced"
)

// finish decides the state of the run when all tasks are decided.
func (e *evaluation) finish() Decision {
	unfinished := false
	for _, s := range e.state {
		if !s.Finished() {
			unfinished = true
			break
		}
	}
	switch {
	case unfinished && e.progressing(0):
		if at, ok := e.deadline(); ok {
			e.lookAgain(at)
		}
		return e.out
	case unfinished:
		return e.end(RunFailed, ReasonDeadlocked)
	}
	for task, instances := range e.byTask {
		if !e.g.deciding[task] {
			continue
		}
		for _, i := range instances {
			if e.state[i].Failure() {
				return e.end(RunFailed, ReasonTaskFailure)
			}
		}
	}
	return e.end(RunSuccess, ReasonSuccess)
}

func (e *evaluation) end(state RunState, reason string) Decision {
	e.out.State, e.out.Reason, e.out.NextAt = state, reason, time.Time{}
	e.out.Events = RunEvents(e.g.dag, e.s.Run, state, reason, e.now)
	return e.out
}

// deadline is when dagrun_timeout ends the run.
func (e *evaluation) deadline() (time.Time, bool) {
	if e.g.dag.DagrunTimeout <= 0 || e.s.Run.StartDate == nil {
		return time.Time{}, false
	}
	return e.s.Run.StartDate.Add(e.g.dag.DagrunTimeout), true
}

// timedOut tells whether the run is over its limit with work left. A run all
// of whose tasks have ended is judged by them, however late that is seen.
func (e *evaluation) timedOut() bool {
	at, ok := e.deadline()
	if !ok || at.After(e.now) {
		return false
	}
	for _, s := range e.state {
		if !s.Finished() {
			return true
		}
	}
	return false
}

// timeOut skips what has not ended, running instances too, and fails the run.
func (e *evaluation) timeOut() Decision {
	for i, s := range e.state {
		if !s.Finished() && CanTransition(s, StateSkipped) {
			e.set(i, StateSkipped, ReasonTimedOut)
		}
	}
	return e.end(RunFailed, ReasonTimedOut)
}
