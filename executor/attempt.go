package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/crashpoint"
	"github.com/airlock-dag/airlock/dag/proc"
	"github.com/airlock-dag/airlock/dag/render"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/operator"
)

// attempt runs one claim to its end and decides what becomes of it. When the
// lease was lost the result is made all the same: the fence keeps it from being
// written over somebody else's, and for a cleared instance it says that the old
// attempt has stopped.
func (w *Worker) attempt(ctx context.Context, c dag.Claim) (Ending, dag.Result) {
	start := w.o.Clock.Now()
	logPath := LogPath(c.TaskInstanceKey, c.TryNumber)
	in := Ending{Claim: c, Start: start, LogPath: logPath, WorkerID: w.o.ID, Hostname: w.o.Hostname, trouble: &trouble{}}

	log := attemptLog(w.o.LogsDir, logPath, w.o.LogLimit)
	defer func() { _ = log.Close() }()
	in.tell = &teller{clock: w.o.Clock, log: log}
	w.keep.tells(leaseOf(c), in.tell)
	log.Note("%s airlock: attempt %d of %s begins on %s (fence %d)\n", start.Format(time.RFC3339Nano), c.TryNumber, c.String(), w.o.Hostname, c.Fence)

	var err error
	in.DAG, err = w.o.Store.Version(ctx, c.VersionID)
	if err != nil {
		in.Outcome = dag.Failed(fault.New(fault.CodeStateDatabase, "the DAG's version cannot be read: "+err.Error()))
		_ = in.trouble.note(ctx, err)
	} else if in.Task = in.DAG.Task(c.TaskID); in.Task == nil {
		in.Outcome = dag.Failed(fault.New(fault.CodeTaskRemoved, fmt.Sprintf("DAG %s has no task %s any more", c.DagID, c.TaskID)))
	} else {
		in.Outcome = w.operate(ctx, &in, log)
	}
	in.End = w.o.Clock.Now()
	in.Detail = in.tell.detail(in.Detail)

	in.Outcome = w.settled(context.Cause(ctx), &in, log)
	if in.Outcome.Kind == dag.OutcomeFailed {
		in.PreviousDelay = w.previousDelay(context.WithoutCancel(ctx), &in)
	}
	result := Decide(in, w.o.Rand)
	in.ticket.Leave(verdictOn(result))
	writeEnd(log, in, result)
	return in, result
}

// settled is the outcome of an attempt with what came from outside in it: an
// attempt that was stopped says why, and one that the worker's end or the state
// database kept from success is handed back and spends nothing.
func (w *Worker) settled(cause error, in *Ending, log *logFile) dag.Outcome {
	out := in.Outcome
	if out.Kind != dag.OutcomeFailed {
		w.releases.forget(in.Claim.ID)
		return out
	}
	released := dag.Outcome{Kind: dag.OutcomeReleased}
	switch away := in.trouble.found(); {
	case errors.Is(cause, operator.ErrStopping):
		return released
	case errors.Is(cause, errStateAway):
		away = cause
		fallthrough
	case cause == nil && away != nil && (out.Err == nil || out.Err.Code != fault.CodeTimeout):
		if w.releases.again(in.Claim.ID) {
			fmt.Fprintf(log, "%s airlock: handed back, no try is spent: %v\n", in.End.Format(time.RFC3339Nano), away)
			return released
		}
	case cause == nil:
		w.releases.forget(in.Claim.ID)
		return out
	}
	if cause != nil {
		return dag.Failed(fault.Stopped(cause))
	}
	return out
}

// writeEnd tells the reader of the log how the attempt ended and what is next.
func writeEnd(log *logFile, in Ending, r dag.Result) {
	at := in.End.Format(time.RFC3339Nano)
	if e := in.Outcome.Err; e != nil {
		fmt.Fprintf(log, "%s airlock: %s %s: %s\n", at, e.Class, e.Code, e.Message)
		if e.Hint != "" {
			fmt.Fprintf(log, "%s airlock: hint: %s\n", at, e.Hint)
		}
	}
	switch r.State {
	case dag.StateUpForRetry:
		fmt.Fprintf(log, "%s airlock: tried again at %s (delay %s)\n", at, r.NextTryAt.Format(time.RFC3339Nano), r.Delay)
	case dag.StateFailed:
		fmt.Fprintf(log, "%s airlock: sealed as a dead letter: %s %s\n", at, r.Letter.ErrorClass, r.Letter.ErrorCode)
	default:
		log.Note("%s airlock: %s\n", at, r.State)
	}
}

// operate renders the arguments and runs the operator under the task's time
// limit; a panic is a failure like any other.
func (w *Worker) operate(ctx context.Context, in *Ending, log *logFile) (out dag.Outcome) {
	defer func() {
		if p := recover(); p != nil {
			out = dag.Failed(fault.FromPanic(p, debug.Stack()))
		}
	}()
	op, found := w.o.Operators.Get(in.Task.Operator)
	if !found {
		return dag.Failed(fault.New(fault.CodeUnknownOperator, fmt.Sprintf("this worker has no operator %q", in.Task.Operator)))
	}
	scratch := ""
	if s, ok := op.(operator.Scratch); ok && s.UsesScratch() {
		var err error
		if scratch, err = os.MkdirTemp(w.o.ScratchRoot, "airlock-"+safeName(in.Task.ID)+"-"); err != nil {
			return dag.Failed(fault.New(fault.CodeIOError, "no scratch folder: "+err.Error()))
		}
		defer func() { _ = os.RemoveAll(scratch) }()
	}

	c := in.Claim
	if c.CrashCount > 0 { // a worker died over this instance: its children may live on this machine
		if n, err := proc.Sweep(w.markerPrefix(c.ID), proc.DefaultGrace); err == nil && n > 0 {
			fmt.Fprintf(log, "airlock: ended %d processes that an earlier attempt left behind\n", n)
		}
	}
	renderer, err := w.renderer(ctx, in, log)
	if err != nil {
		return dag.Failed(fault.New(fault.CodeTemplate, err.Error()))
	}
	args, err := RenderArgs(renderer, op.Spec(), in.DAG, in.Task, c.Payload)
	if err != nil {
		return dag.Failed(fault.New(fault.CodeTemplate, err.Error()))
	}
	in.Args = args
	if wait := w.enter(ctx, in, log); wait != nil {
		return *wait
	}
	if events := w.executeEvents(in); len(events) > 0 {
		if err := in.trouble.note(ctx, w.o.Store.PutEvents(ctx, events)); err != nil {
			return dag.Failed(fault.New(fault.CodeStateDatabase, "on_execute_callback cannot be stored: "+err.Error()))
		}
		w.o.OutboxWake.Signal()
	}
	if limit := in.Task.ExecutionTimeout; limit > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, limit, operator.ErrTimeout)
		defer stop()
	}
	crashpoint.Point("worker: before the operator")
	attempt := op.Run
	if in.planOnly {
		planner, can := op.(operator.Planner)
		if !can {
			return dag.Failed(fault.New(fault.CodeInvalidArgument, fmt.Sprintf("a %s step cannot tell what it would do; only merge steps can", in.Task.Operator)))
		}
		attempt = planner.Plan
	}
	out = attempt(ctx, w.task(in, renderer, scratch, w.marker(c.ID, c.Fence), log))
	crashpoint.Point("worker: after the operator")
	if errors.Is(context.Cause(ctx), operator.ErrTimeout) && out.Kind == dag.OutcomeFailed {
		out.Err = fault.Timeout(in.Task.ExecutionTimeout, out.Err)
	}
	return out
}

// executeEvents are the on_execute_callback events of an attempt that begins.
func (w *Worker) executeEvents(in *Ending) []dag.Event {
	if in.Claim.ID == 0 {
		return nil
	}
	return in.events(dag.EventExecute, nil, nil)
}

// task puts together what the operator sees.
func (w *Worker) task(in *Ending, renderer *render.Renderer, scratch, marker string, log *logFile) *operator.Task {
	c := in.Claim
	settings, xcoms := notingSettings{w.o.Settings, in.trouble}, notingXComs{w.o.Store, in.trouble}
	key, _ := in.Args["idempotency_key"].(string)
	if key == "" {
		key = dag.IdempotencyKey(c.TaskInstanceKey, c.Intent())
	}
	in.IdempotencyKey = key
	return &operator.Task{
		DAG: in.DAG, Def: in.Task, TI: c.TaskInstance, Run: c.Run, Args: in.Args, Render: renderer.String, Log: log,
		Progress: func(p operator.Progress) {
			if in.tell != nil {
				in.tell.report(p)
			}
			if w.o.OnProgress != nil {
				w.o.OnProgress(c, p)
			}
		},
		Connection: func(ctx context.Context, id string) (dag.Connection, error) {
			conn, err := settings.Connection(ctx, id)
			log.Mask(conn.Password)
			maskExtra(log, conn.Extra)
			return conn, err
		},
		XCom: func(ctx context.Context, taskID, key string, mapIndex *int) (json.RawMessage, error) {
			return xcoms.XCom(ctx, c.DagID, c.RunID, taskID, key, mapIndex)
		},
		Trigger: func(ctx context.Context, r operator.TriggerRequest) (string, error) {
			runID, err := w.trigger(ctx, c, r)
			return runID, in.trouble.note(ctx, err)
		},
		RunState: func(ctx context.Context, dagID, runID string) (dag.RunState, error) {
			run, err := w.o.Store.Run(ctx, dagID, runID)
			if dag.CodeOf(err) == dag.ErrNotFound {
				return "", nil
			}
			return run.State, in.trouble.note(ctx, err)
		},
		ExternalStates: func(ctx context.Context, q operator.ExternalQuery) (operator.ExternalStates, error) {
			states, err := w.externalStates(ctx, q)
			return states, in.trouble.note(ctx, err)
		},
		StillMine: func(ctx context.Context) error {
			if c.ID == 0 { // a try outside the state database: nobody can take it over
				return nil
			}
			mine, err := w.stillMine(ctx, dag.Lease{TaskInstanceID: c.ID, Fence: c.Fence})
			if err == nil && !mine {
				err = operator.ErrLeaseLost
			}
			return in.trouble.note(ctx, err)
		},
		OpenInput:      func(ctx context.Context, hash string) error { return w.openInput(ctx, in, hash) },
		SealedBefore:   func(ctx context.Context, hash string) (int64, error) { return w.sealedBefore(ctx, in, hash) },
		Dir:            filepath.Join(w.o.DagsFolder, filepath.Dir(filepath.FromSlash(in.DAG.FileLoc))),
		ScratchDir:     scratch,
		Marker:         marker,
		IdempotencyKey: key,
		Detail: func(v any) {
			if b, err := json.Marshal(v); err == nil {
				in.Detail = b
			}
		},
		Clock: w.o.Clock,
	}
}

// stillMine tells whether a lease is held. One that has ended and that nobody
// took is renewed: the database's clock may have been set forward.
func (w *Worker) stillMine(ctx context.Context, l dag.Lease) (bool, error) {
	mine, err := w.o.Store.StillMine(ctx, l)
	if err != nil || mine {
		return mine, err
	}
	lost, err := w.o.Store.Renew(ctx, []dag.Lease{l}, w.o.Lease)
	return err == nil && len(lost) == 0, err
}

// maskExtra keeps what looks like a secret in a connection's extra out of the
// log (aws_secret_access_key, aws_session_token).
func maskExtra(log *logFile, extra map[string]any) {
	for key, v := range extra {
		if text, ok := v.(string); ok && dag.LooksSecret(key) {
			log.Mask(text)
		}
	}
}

// TryRequest asks for one attempt of a task outside the state database.
type TryRequest struct {
	DAG  *dag.DAG
	Task *dag.Task
	Run  dag.Run
	// Payload is that of a mapped instance, nil for none.
	Payload json.RawMessage
	// Out gets the attempt's log.
	Out io.Writer
	// PlanOnly asks what the attempt would do instead of making it; the operator
	// must be an operator.Planner.
	PlanOnly bool
}

// Try makes one attempt at once, whatever the task's dependencies say, and
// records nothing: no state, no letter, no callback. What the step itself does
// is done for real. The result says what would have become of the instance.
func (w *Worker) Try(ctx context.Context, r TryRequest) (Ending, dag.Result) {
	log := newLog(func() (io.WriteCloser, error) { return nopCloser{r.Out}, nil }, w.o.LogLimit)
	defer func() { _ = log.Close() }()
	in := Ending{
		DAG: r.DAG, Task: r.Task, Start: w.o.Clock.Now(), WorkerID: w.o.ID, Hostname: w.o.Hostname, trouble: &trouble{},
		planOnly: r.PlanOnly,
		Claim: dag.Claim{
			TaskInstance: dag.TaskInstance{
				TaskInstanceKey: dag.TaskInstanceKey{DagID: r.DAG.ID, RunID: r.Run.RunID, TaskID: r.Task.ID, MapIndex: -1},
				State:           dag.StateRunning, TryNumber: 1, MaxTries: r.Task.Retry.Retries, Operator: r.Task.Operator,
				Queue: r.Task.Queue, Pool: r.Task.Pool, PoolSlots: r.Task.PoolSlots, Payload: r.Payload,
			},
			Run: r.Run,
		},
	}
	if r.Payload != nil {
		in.Claim.MapIndex = 0
	}
	in.Outcome = w.operate(ctx, &in, log)
	in.End = w.o.Clock.Now()
	return in, Decide(in, w.o.Rand)
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// RenderArgs merges a mapped instance's payload over the task's arguments and
// renders what the operator declares as templated. Values that come from expand
// are not rendered again, as in Airflow. Those of a mapped group are no arguments:
// templates read them as params.
func RenderArgs(r *render.Renderer, spec dag.OperatorSpec, d *dag.DAG, t *dag.Task, payload json.RawMessage) (map[string]any, error) {
	args := make(map[string]any, len(t.Args))
	for k, v := range t.Args {
		args[k] = v
	}
	mapped := map[string]any{}
	if len(payload) > 0 && d.MappedGroup(t) == nil {
		if err := decodeJSON(payload, &mapped); err != nil {
			return nil, fmt.Errorf("the instance's payload is not a JSON object: %w", err)
		}
	}
	for k, v := range mapped {
		if t.Expand == nil || isPartial(t.Expand, k) {
			args[k] = v
			delete(mapped, k)
		}
	}
	for _, f := range spec.Fields {
		v, set := args[f.Name]
		if !set || !f.Templated {
			continue
		}
		var err error
		if d.RenderTemplateAsNativeObj {
			v, err = r.Native(v)
		} else {
			v, err = r.Value(v)
		}
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", t.ID, f.Name, err)
		}
		args[f.Name] = v
	}
	for k, v := range mapped {
		args[k] = v
	}
	return args, nil
}

func isPartial(e *dag.Expand, key string) bool {
	if slices.Contains(e.Names, key) {
		return false
	}
	_, ok := e.Partial[key]
	return ok
}
