package sensor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/operator"
)

// Seen is what one look found.
type Seen struct {
	// Done: what was waited for is there. Value and XComs are then the task's.
	Done  bool
	Value any
	XComs map[string]any
	// Skip, when set, says why the task is skipped at once.
	Skip string
	// Text says in a few words what was seen, for the log.
	Text string
}

// Poke looks once. An error is a failed look: a failure of the attempt, unless
// the settings say otherwise. It returns soon after ctx is done.
type Poke func(ctx context.Context) (Seen, *dag.TaskError)

// Run looks until what is waited for is there, the time is up, or ctx is done.
// In reschedule mode it looks once.
func Run(ctx context.Context, t *operator.Task, poke Poke) dag.Outcome {
	s := &watch{t: t, set: Read(t.Args), start: t.Clock.Now()}
	if t.TI.StartDate != nil {
		s.start = *t.TI.StartDate
	}
	for count := 1; ; count++ {
		seen, failed := poke(ctx)
		if ctx.Err() != nil && !seen.Done {
			return s.stopped(ctx, true)
		}
		if failed != nil {
			if out, ended := s.failed(failed); ended {
				return out
			}
			seen = Seen{Text: "the look failed"}
		}
		switch {
		case seen.Skip != "":
			return s.skipped(fault.CodeExternalTaskFailed, seen.Skip)
		case seen.Done:
			s.say("found: %s", seen.Text)
			out := dag.Success(seen.Value)
			out.XComs = seen.XComs
			return out
		}
		elapsed := t.Clock.Now().Sub(s.start)
		if elapsed > s.set.Timeout {
			return s.timedOut(elapsed, seen.Text)
		}
		wait := s.set.Wait(Look{DagID: t.TI.DagID, TaskID: t.TI.TaskID, Start: s.start, Elapsed: elapsed, Count: count})
		s.say("not yet: %s; looks again in %s", seen.Text, wait)
		if s.set.Reschedule {
			return dag.Outcome{Kind: dag.OutcomeReschedule, RescheduleAt: t.Clock.Now().Add(wait)}
		}
		t.Progress(operator.Progress{Fraction: -1, Text: "waits: " + seen.Text})
		select {
		case <-ctx.Done():
			return s.stopped(ctx, false)
		case <-t.Clock.After(wait):
		}
	}
}

// watch is one attempt of a sensor.
type watch struct {
	t     *operator.Task
	set   Settings
	start time.Time
}

func (s *watch) say(format string, args ...any) {
	fmt.Fprintf(s.t.Log, "airlock: "+format+"\n", args...)
}

// failed says what a failed look does: it ends the attempt, or counts as "not
// yet".
func (s *watch) failed(e *dag.TaskError) (dag.Outcome, bool) {
	switch {
	case e.Code == fault.CodeExternalTaskFailed && s.set.SoftFail:
		return s.skipped(e.Code, e.Message+"; soft_fail makes it a skip"), true
	case s.set.SilentFail:
		s.say("the look failed with %s, which silent_fail takes for \"not yet\": %s", e.Code, e.Message)
		return dag.Outcome{}, false
	case s.set.NeverFail:
		return s.skipped(e.Code, e.Message+"; never_fail makes it a skip"), true
	default:
		return dag.Failed(e), true
	}
}

func (s *watch) timedOut(elapsed time.Duration, text string) dag.Outcome {
	message := fmt.Sprintf("waited %s, the timeout is %s; last seen: %s", elapsed.Round(time.Millisecond), s.set.Timeout, text)
	if s.set.SoftFail {
		return s.skipped(fault.CodeSensorTimeout, message+"; soft_fail makes it a skip")
	}
	return dag.Failed(fault.New(fault.CodeSensorTimeout, message))
}

// stopped is the end of an attempt whose context is done. A worker that stops
// lets the sensor go on elsewhere: a reschedule keeps the attempt and its start,
// so that the timeout goes on counting.
func (s *watch) stopped(ctx context.Context, looking bool) dag.Outcome {
	cause := context.Cause(ctx)
	if errors.Is(cause, operator.ErrStopping) {
		s.say("the worker stops; the sensor goes on elsewhere")
		return dag.Outcome{Kind: dag.OutcomeReschedule, RescheduleAt: s.t.Clock.Now()}
	}
	e := fault.Stopped(cause)
	if looking && errors.Is(cause, operator.ErrTimeout) && (s.set.SoftFail || s.set.NeverFail) {
		return s.skipped(e.Code, "execution_timeout passed during a look; soft_fail or never_fail makes it a skip")
	}
	return dag.Failed(e)
}

func (s *watch) skipped(code, message string) dag.Outcome {
	s.say("skipped: %s", message)
	return dag.Outcome{Kind: dag.OutcomeSkipped, Err: &dag.TaskError{Code: code, Message: message}}
}
