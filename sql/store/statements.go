package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jmoiron/sqlx"

	"github.com/airlock-dag/airlock/sql/dialect"
)

// queryer reads: a pool, or a transaction.
type queryer interface {
	SelectContext(ctx context.Context, into any, query string, args ...any) error
	GetContext(ctx context.Context, into any, query string, args ...any) error
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// later is a statement whose answer nobody waits for, and what is then to be made
// of it: nil for nothing. otherwise is what it is to match other rows than it must.
type later struct {
	dialect.Statement
	then      func(dialect.Outcome) error
	otherwise error
}

// later runs a statement before all that come after it in this transaction. On a
// server it waits for the next one whose answer is needed, and goes with it: each
// answer that is waited for is a round trip. So what it fails with, and what then
// makes of it, comes later too.
func (t *tx) later(ctx context.Context, then func(dialect.Outcome) error, query string, args ...any) error {
	return t.wait(ctx, later{Statement: dialect.Statement{Text: query, Args: args, Asked: then != nil}, then: then})
}

// laterMatching is later for a statement that must match n rows; otherwise it
// fails with an error.
func (t *tx) laterMatching(ctx context.Context, n int, otherwise error, query string, args ...any) error {
	return t.wait(ctx, later{Statement: dialect.Statement{Text: query, Args: args, Asked: true, Must: n}, otherwise: otherwise})
}

func (t *tx) wait(ctx context.Context, l later) error {
	t.pending = append(t.pending, l)
	if t.s.db.IsSQLite() { // which has no round trips
		return t.flush(ctx)
	}
	return nil
}

// end runs what waits at the end of the transaction: with COMMIT, where nothing
// has to be made of it but to see that it matched its rows.
func (t *tx) end(ctx context.Context) error {
	if len(t.pending) == 0 {
		return nil
	}
	var otherwise error
	for i := range t.pending {
		p := &t.pending[i]
		if p.then != nil || p.Must > 0 && otherwise != nil && otherwise != p.otherwise { //nolint:errorlint // whether it is the very same
			return t.flush(ctx)
		}
		if p.Must > 0 {
			otherwise = p.otherwise
		}
	}
	list := make([]dialect.Statement, len(t.pending))
	for i, p := range t.pending {
		list[i] = p.Statement
	}
	goes, err := t.s.db.AtCommit(ctx, t.x, list)
	if !goes {
		return t.flush(ctx)
	}
	t.pending, t.otherwise = nil, otherwise
	return err
}

// flush runs what waits.
func (t *tx) flush(ctx context.Context) error {
	if len(t.pending) == 0 {
		return nil
	}
	list, done := t.takePending()
	outcomes, err := t.s.db.ExecTogether(ctx, t.x, list)
	if err != nil {
		return t.joinedError(len(list), err)
	}
	return settle(done, outcomes)
}

// takePending takes what waits.
func (t *tx) takePending() ([]dialect.Statement, []later) {
	list := make([]dialect.Statement, len(t.pending))
	for i, p := range t.pending {
		list[i] = p.Statement
	}
	done := t.pending
	t.pending = nil
	return list, done
}

// joinedError is what it means that one of n statements failed.
func (t *tx) joinedError(n int, err error) error {
	if t.trusts && n > 1 && refuses(err) {
		// A guard before it may have failed, and nobody tells.
		return errors.Join(errOtherwise, err)
	}
	return err
}

// settle makes of the outcomes what is to be made of them.
func settle(done []later, outcomes []dialect.Outcome) error {
	for i, p := range done {
		if p.Must > 0 && outcomes[i].Rows != int64(p.Must) {
			return p.otherwise
		}
		if p.then == nil {
			continue
		}
		if err := p.then(outcomes[i]); err != nil {
			return err
		}
	}
	return nil
}

// refuses tells whether an error is about what the statement says.
func refuses(err error) bool {
	switch dialect.ClassOf(err) {
	case dialect.ClassDuplicate, dialect.ClassData, dialect.ClassForeignKey:
		return true
	default:
		return false
	}
}

// exec runs a statement and gives the number of rows that it matched.
func (t *tx) exec(ctx context.Context, query string, args ...any) (int64, error) {
	o, err := t.run(ctx, query, args)
	return o.Rows, err
}

// insert runs an INSERT of one row and gives its id. It goes by itself: who
// inserts may go on where the row is there already.
func (t *tx) insert(ctx context.Context, query string, args ...any) (int64, error) {
	if err := t.flush(ctx); err != nil {
		return 0, err
	}
	o, err := t.run(ctx, query, args)
	return o.ID, err
}

// run runs a statement after what waits, and waits for its answer. Its error may
// be that of a statement before it: no caller may go on after one.
func (t *tx) run(ctx context.Context, query string, args []any) (dialect.Outcome, error) {
	var out dialect.Outcome
	t.pending = append(t.pending, later{Statement: dialect.Statement{Text: query, Args: args}, then: func(o dialect.Outcome) error {
		out = o
		return nil
	}})
	err := t.flush(ctx) // which sets out
	return out, err
}

// SelectContext reads all rows of a query into a slice, see sqlx.
func (t *tx) SelectContext(ctx context.Context, into any, query string, args ...any) error {
	if len(t.pending) == 0 {
		return t.x.SelectContext(ctx, into, query, args...)
	}
	return sqlx.SelectContext(ctx, afterPending{t.x, t}, into, query, args...)
}

// GetContext reads the one row of a query, see sqlx.
func (t *tx) GetContext(ctx context.Context, into any, query string, args ...any) error {
	if err := t.flush(ctx); err != nil {
		return err
	}
	return t.x.GetContext(ctx, into, query, args...)
}

// QueryContext implements queryer.
func (t *tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if len(t.pending) == 0 {
		return t.x.QueryContext(ctx, query, args...)
	}
	rows, err := afterPending{t.x, t}.QueryxContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return rows.Rows, nil
}

// afterPending asks a query together with what waits.
type afterPending struct {
	*sqlx.Tx
	t *tx
}

// QueryxContext implements sqlx.QueryerContext.
func (a afterPending) QueryxContext(ctx context.Context, query string, args ...any) (*sqlx.Rows, error) {
	list, done := a.t.takePending()
	rows, outcomes, err := a.t.s.db.QueryAfter(ctx, a.Tx, list, query, args)
	if err != nil {
		return nil, a.t.joinedError(len(list)+1, err)
	}
	if err := settle(done, outcomes); err != nil {
		return nil, errors.Join(err, rows.Close()) //nolint:sqlclosecheck // else the caller closes them
	}
	return rows, nil
}
