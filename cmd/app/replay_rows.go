package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/load"
	"github.com/airlock-dag/airlock/executor"
	"github.com/airlock-dag/airlock/executor/operator"
	mergeop "github.com/airlock-dag/airlock/executor/operator/merge"
	"github.com/airlock-dag/airlock/sql/merge"
)

// RowReplayRequest asks for the rows of letters to be merged again. All letters
// are of one task instance.
type RowReplayRequest struct {
	Instance dag.TaskInstanceKey
	// ConnID is the connection that the letters were read from.
	ConnID  string
	Letters []merge.RowLetter
	Replay  *merge.Replay
}

// ReplayRows merges rows again through the step as the DAG's file has it now,
// rendered for the run that the rows came from. The decisions that were taken
// before an error are returned with it.
func (a *App) ReplayRows(ctx context.Context, r RowReplayRequest) ([]merge.RowDecision, error) {
	op := fmt.Sprintf("replay rows of %s.%s", r.Instance.DagID, r.Instance.TaskID)
	files, err := a.source.Scan()
	if err != nil {
		return nil, err
	}
	res := load.Files(files, a.load)
	d := find(res.DAGs, r.Instance.DagID)
	if d == nil {
		return nil, noSuchDAG("replay rows of", r.Instance.DagID, res)
	}
	task := d.Task(r.Instance.TaskID)
	if task == nil || task.Operator != "merge" {
		return nil, &dag.Error{Code: dag.ErrNotFound, Op: op, Err: fmt.Errorf("the DAG has no such merge task any more"),
			Hint: "give the DAG the task again, or `airlock dlq rows export` the rows"}
	}
	run, payload, err := a.runOfRows(ctx, op, task, r.Instance)
	if err != nil {
		return nil, err
	}
	replayer := &mergeop.Replayer{Operator: mergeop.New(a.o.Rand), ConnID: r.ConnID, Letters: r.Letters, Replay: r.Replay}
	with := *a
	with.o.Operators = operator.NewRegistry(replayer)
	ending, _ := with.parts(partOptions{}).worker.Try(ctx, executor.TryRequest{DAG: d, Task: task, Run: run, Payload: payload, Out: io.Discard})
	if e := ending.Outcome.Err; e != nil {
		err = &dag.Error{Code: dag.ErrConflict, Op: op, Err: fmt.Errorf("%s: %s", e.Code, e.Message), Hint: e.Hint}
	}
	return replayer.Decided, err
}

// runOfRows finds the run that rows came from. One that was deleted since is
// good enough for a step without templates.
func (a *App) runOfRows(ctx context.Context, op string, task *dag.Task, of dag.TaskInstanceKey) (dag.Run, json.RawMessage, error) {
	run, err := a.store.Run(ctx, of.DagID, of.RunID)
	if dag.CodeOf(err) == dag.ErrNotFound {
		args, jsonErr := json.Marshal(task.Args)
		if jsonErr == nil && of.MapIndex < 0 && !strings.Contains(string(args), "{{") && !strings.Contains(string(args), "{%") {
			now := a.o.Clock.Now()
			return dag.Run{DagID: of.DagID, RunID: of.RunID, Type: dag.RunManual, State: dag.RunRunning, LogicalDate: &now, RunAfter: now}, nil, nil
		}
		return run, nil, &dag.Error{Code: dag.ErrNotFound, Op: op, Err: fmt.Errorf("the run %s is gone, and the step has templates that are rendered for it", of.RunID),
			Hint: "`airlock dlq rows export --format raw` writes the rows as a file that can be loaded"}
	}
	if err != nil || of.MapIndex < 0 {
		return run, nil, err
	}
	found, err := a.store.Instances(ctx, dag.InstanceFilter{DagID: of.DagID, RunID: of.RunID, TaskID: of.TaskID, MapIndex: &of.MapIndex})
	if err != nil {
		return run, nil, err
	}
	if len(found) == 0 {
		return run, nil, &dag.Error{Code: dag.ErrNotFound, Op: op, Err: fmt.Errorf("the run %s has no instance %d of the task", of.RunID, of.MapIndex)}
	}
	return run, found[0].Payload, nil
}
