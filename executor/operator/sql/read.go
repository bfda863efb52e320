package sqlop

import (
	"context"
	"io"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/operator"
)

// Read runs the queries of a step that only reads, in one snapshot, and gives
// the columns and the first row of the last one; no row is nil. The step has
// the keys conn_id, database, sql and parameters of the sql step. A statement
// that may change something is an error, and a SQLite file is not made.
func Read(ctx context.Context, t *operator.Task) (columns []string, row []any, te *dag.TaskError) {
	columns, row, err := read(ctx, t)
	if err != nil {
		return nil, nil, Failure(ctx, err)
	}
	return columns, row, nil
}

func read(ctx context.Context, t *operator.Task) ([]string, []any, error) {
	db, err := open(ctx, t, false)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = db.Close() }()
	quiet := *t // one line a look is the sensor's to write
	quiet.Log, quiet.Progress = io.Discard, nil
	s := &step{t: &quiet, db: db}
	if err := s.prepare(t.Args); err != nil {
		return nil, nil, err
	}
	if !s.reads {
		e := fault.New(fault.CodeInvalidArgument, "sql: a statement may change something, and this step looks again and again")
		e.Hint = "put it into a sql step of its own"
		return nil, nil, e
	}
	s.returnLast, s.maxRows = true, 1
	r, err := s.runReads(ctx)
	if err != nil {
		return nil, nil, err
	}
	if len(r.Results) == 0 || len(r.Results[0].Rows) == 0 {
		return nil, nil, nil
	}
	return r.Results[0].Columns, r.Results[0].Rows[0], nil
}
