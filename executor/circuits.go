package executor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/breaker"
	"github.com/airlock-dag/airlock/executor/fault"
)

// circuitKey is the key in a connection's extra that names its circuit.
const circuitKey = "circuit"

// enter asks the circuit breakers of all that an attempt depends on. The outcome
// is not nil when one of them lets nothing through: the instance waits and
// spends no try.
func (w *Worker) enter(ctx context.Context, in *Ending, log *logFile) *dag.Outcome {
	if w.o.Circuits == nil || in.Claim.ID == 0 { // a person tries a step out: that waits for nobody and counts for nothing
		return nil
	}
	ticket, name, until := w.o.Circuits.Enter(ctx, w.needs(ctx, in))
	if ticket == nil {
		fmt.Fprintf(log, "%s airlock: the circuit %s is open: nothing was tried and no try is spent; asked again at %s\n",
			w.o.Clock.Now().Format(time.RFC3339Nano), name, until.Format(time.RFC3339Nano))
		return &dag.Outcome{Kind: dag.OutcomeReschedule, RescheduleAt: until}
	}
	in.ticket = ticket
	return nil
}

// needs lists the dependencies of an attempt in the order of their names: the
// task's own circuit, and those of the connections that its arguments name.
func (w *Worker) needs(ctx context.Context, in *Ending) []breaker.Need {
	names := map[string]bool{}
	if in.Task.Circuit != "" {
		names[in.Task.Circuit] = true
	}
	for key, value := range in.Args {
		id, ok := value.(string)
		if !ok || id == "" || w.o.Settings == nil || key != "conn_id" && !strings.HasSuffix(key, "_conn_id") {
			continue
		}
		conn, err := w.o.Settings.Connection(ctx, id)
		if err != nil {
			continue // the operator tells of it
		}
		if name, ok := conn.Extra[circuitKey].(string); ok && name != "" {
			names[name] = true
		}
	}
	needs := make([]breaker.Need, 0, len(names))
	for _, name := range slices.Sorted(maps.Keys(names)) {
		policy, known := in.DAG.Circuits[name]
		if !known {
			policy = dag.DefaultCircuitPolicy()
		}
		needs = append(needs, breaker.Need{Name: name, Policy: policy})
	}
	return needs
}

// verdictOn is what the end of an attempt says about what it depends on. Only
// transient failures speak against it: bad data, a wrong setting, a crash of the
// worker, an answer "too many requests" and trouble of our own do not.
func verdictOn(r dag.Result) breaker.End {
	switch r.State {
	case dag.StateSuccess, dag.StateUpForReschedule: // a sensor got its answer, if not the one it waits for
		return breaker.Success
	case dag.StateFailed, dag.StateUpForRetry:
		e := r.Attempt
		switch {
		case e.ErrorClass != dag.ClassTransient, r.Spent == dag.BudgetCrashes:
			return breaker.Neutral
		case e.ErrorCode == fault.CodeStateDatabase, e.ErrorCode == "HTTP_429":
			return breaker.Neutral
		default:
			return breaker.Failure
		}
	default:
		return breaker.Neutral
	}
}
