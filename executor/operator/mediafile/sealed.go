package mediafile

import (
	"context"
	"errors"
	"fmt"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/operator"
)

// SkipSealed is the key of the steps that may pass over a file which they have
// failed at before.
func SkipSealed() dag.Field {
	return dag.Field{
		Name: "skip_sealed", Type: dag.FieldBool, Default: false,
		Doc: "Skip a file while a dead letter of this task about the same content stands open, instead of sealing it once more in each run.",
	}
}

// sealedBefore is the end of an attempt at a file whose letter stands open.
type sealedBefore struct{ letter int64 }

func (e *sealedBefore) Error() string {
	return fmt.Sprintf("the file is what dead letter %d is about, which stands open: replay, resolve or drop it", e.letter)
}

// AskSealed asks, where the step has skip_sealed, for the open letter about a file.
// The error is for Skipped, or one of the state database.
func AskSealed(ctx context.Context, t *operator.Task, assetSHA256 string) error {
	if asked, _ := t.Args["skip_sealed"].(bool); !asked || assetSHA256 == "" {
		return nil
	}
	letter, err := t.SealedBefore(ctx, assetSHA256)
	if err == nil && letter != 0 {
		err = &sealedBefore{letter}
	}
	return err
}

// Skipped gives the outcome of an attempt that AskSealed ended.
func Skipped(t *operator.Task, err error) (dag.Outcome, bool) {
	var sealed *sealedBefore
	if !errors.As(err, &sealed) {
		return dag.Outcome{}, false
	}
	fmt.Fprintf(t.Log, "airlock: skipped: %s\n", sealed)
	return dag.Outcome{Kind: dag.OutcomeSkipped, Err: &dag.TaskError{Code: fault.CodeSealedBefore, Message: sealed.Error()}}, true
}
