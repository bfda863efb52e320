package executor

import (
	"context"
	"fmt"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
)

// openInput is the gate before a media input: it notes that the attempt opens
// it, and refuses one that has failed too often. The same file met in another
// task, run or DAG, or on another worker, is the same input.
func (w *Worker) openInput(ctx context.Context, in *Ending, hash string) error {
	in.OpenedInput = hash
	if in.Claim.ID == 0 { // a try outside the state database counts nothing
		return nil
	}
	m, err := w.o.Store.OpenInput(ctx, dag.Lease{TaskInstanceID: in.Claim.ID, Fence: in.Claim.Fence}, hash)
	if err != nil {
		return in.trouble.note(ctx, err)
	}
	if !m.Poisoned(w.o.MaxInputFailures) {
		return nil
	}
	fail := fault.New(fault.CodePoisonedInput, fmt.Sprintf("this input failed %d times since %s, the last time with %s in %s, and %d are allowed",
		m.Failures, m.FirstFailedAt.UTC().Format("2006-01-02 15:04:05 UTC"), m.LastErrorCode, m.LastJobID, w.o.MaxInputFailures))
	fail.Hint = "look at what failed, then run `airlock inputs release " + hash + "`"
	fail.AssetSHA256, fail.Decided = hash, true
	return fail
}

// sealedBefore looks for an open letter of the attempt's task about a media input.
func (w *Worker) sealedBefore(ctx context.Context, in *Ending, hash string) (int64, error) {
	if in.Claim.ID == 0 || in.Claim.Replaying {
		return 0, nil
	}
	id, err := w.o.Store.OpenLetterOf(ctx, in.Claim.DagID, in.Claim.TaskID, hash)
	if err != nil {
		return 0, in.trouble.note(ctx, err)
	}
	return id, nil
}
