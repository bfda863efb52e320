package sqlop

import (
	"cmp"
	"context"
	"errors"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/operator"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// Open opens the database of the connection that a step names, for every step
// that works on one. A database that is given takes the place of the
// connection's own; create says whether a SQLite file that is not there is made.
// An id that is empty or that nobody knows is a *dag.TaskError with code
// CONNECTION_MISSING.
func Open(ctx context.Context, t *operator.Task, id, database string, create bool) (*dialect.DB, error) {
	if id == "" {
		return nil, fault.New(fault.CodeConnectionMissing, "the step names no conn_id")
	}
	c, err := t.Connection(ctx, id)
	if err != nil {
		if dag.CodeOf(err) == dag.ErrNotFound {
			return nil, fault.Connection(err)
		}
		return nil, err
	}
	c.Schema = cmp.Or(database, c.Schema)
	return dialect.OpenConnection(ctx, c, dialect.Options{Clock: t.Clock, Create: create})
}

// Failure says what the error of a step that works on a database means for its
// task: what Airlock itself did to the attempt comes first, then the step's own
// word, then the database's.
func Failure(ctx context.Context, err error) *dag.TaskError {
	if stopped := fault.Context(ctx); stopped != nil {
		return stopped
	}
	var own *dag.TaskError
	if errors.As(err, &own) {
		e := *own
		return &e
	}
	if errors.Is(err, operator.ErrLeaseLost) {
		return fault.Stopped(operator.ErrLeaseLost)
	}
	e := dialect.TaskError(err)
	if e.Code == "SQL_ERROR" {
		// Not the database: a file that cannot be read, say.
		return fault.Error(err)
	}
	return e
}
