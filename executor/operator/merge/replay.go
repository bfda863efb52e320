package merge

import (
	"context"
	"fmt"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/operator"
	sqlop "github.com/airlock-dag/airlock/executor/operator/sql"
	"github.com/airlock-dag/airlock/sql/merge"
)

// Replayer takes the place of the merge step for one attempt that, instead of
// reading the source, merges the rows of letters again. It serves one attempt.
type Replayer struct {
	Operator
	// ConnID is the connection that the letters were read from.
	ConnID  string
	Letters []merge.RowLetter
	Replay  *merge.Replay
	// Decided are the decisions so far, also after a failure.
	Decided []merge.RowDecision
}

// Run implements operator.Operator.
func (r *Replayer) Run(ctx context.Context, t *operator.Task) dag.Outcome {
	if err := r.run(ctx, t); err != nil {
		return dag.Failed(sqlop.Failure(ctx, err))
	}
	return dag.Success(nil)
}

func (r *Replayer) run(ctx context.Context, t *operator.Task) error {
	spec, problems := merge.ParseSpec(t.Args)
	if len(problems) > 0 {
		return fault.New(merge.CodeInvalid, merge.ProblemText(problems))
	}
	connID := text(t.Args, "conn_id")
	if connID != r.ConnID {
		return fault.New(merge.CodeInvalid, fmt.Sprintf("the step writes to the connection %s, the letters are in %s", connID, r.ConnID))
	}
	db, err := sqlop.Open(ctx, t, connID, "", false)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	e := &merge.Engine{DB: db, Clock: t.Clock, Rand: r.rand}
	r.Decided, err = e.Replay(ctx, spec, r.Letters, r.Replay)
	return err
}
