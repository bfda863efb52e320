package dialect

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"

	"github.com/airlock-dag/airlock/dag"
)

// Tries is how often Write runs a transaction before it gives up.
const Tries = 5

// CommitLostError says that the connection broke while COMMIT was under way:
// the transaction is applied or it is not, and only a look at the database
// tells. See errors.As and LostCommit.
type CommitLostError struct{ Err error }

// Error implements error.
func (e *CommitLostError) Error() string {
	return "the connection was lost during COMMIT, its outcome is unknown: " + e.Err.Error()
}

// Is makes it a dag.ErrOutcomeUnknown to those who know no SQL.
func (e *CommitLostError) Is(target error) bool { return target == dag.ErrOutcomeUnknown }

// Unwrap gives the driver's error.
func (e *CommitLostError) Unwrap() error { return e.Err }

// LostCommit tells whether err says that a COMMIT's outcome is unknown.
func LostCommit(err error) bool {
	var lost *CommitLostError
	return errors.As(err, &lost)
}

// Write runs fn in a write transaction: BEGIN IMMEDIATE on SQLite, READ
// COMMITTED elsewhere. Whatever error fn returns undoes all of it. Deadlocks,
// lock waits, busy files and connections lost before COMMIT run fn again, from
// the start on a new transaction, up to Tries times with growing drawn waits:
// fn must therefore set its results anew each time, and must return each error
// of the database that it does not mean to handle (after a deadlock the
// connection is in autocommit; going on would write halves).
//
// A connection lost in COMMIT gives a CommitLostError and is not repeated: fn's
// caller resolves it. When ctx ends, the transaction is rolled back and the
// error wraps ctx's.
func (d *DB) Write(ctx context.Context, fn func(ctx context.Context, tx *sqlx.Tx) error) error {
	err := d.repeat(ctx, func() error { return d.once(ctx, d.write, nil, fn) })
	if err == nil {
		d.commits.Add(1)
	}
	return err
}

// Snapshot runs fn in a transaction that reads one state of the database and
// writes nothing. It should be short: a long one stops the servers' clean-up.
func (d *DB) Snapshot(ctx context.Context, fn func(ctx context.Context, tx *sqlx.Tx) error) error {
	var o *sql.TxOptions
	if d.kind != SQLite {
		o = &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
	}
	return d.repeat(ctx, func() error { return d.once(ctx, d.read, o, fn) })
}

func (d *DB) repeat(ctx context.Context, run func() error) error {
	for try := 1; ; try++ {
		err := run()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return cancelled(ctx, err)
		}
		if errors.Is(err, errNotAtCommit) && try < Tries { // several may find out at once
			d.apart.Store(true)
			continue
		}
		if try == Tries || !repeatable(err) {
			return err
		}
		wait := backoff(try, d.o.Rand.Float64())
		d.o.Log.DebugContext(ctx, "transaction is run again", "try", try, "wait", wait, "error", err)
		if d.o.OnRepeat != nil {
			d.o.OnRepeat(cause(err))
		}
		select {
		case <-ctx.Done():
			return cancelled(ctx, err)
		case <-d.o.Clock.After(wait):
		}
	}
}

// cancelled keeps both facts: that ctx ended, and what the database said. An
// unknown COMMIT stays one.
func cancelled(ctx context.Context, err error) error {
	if LostCommit(err) || errors.Is(err, ctx.Err()) {
		return err
	}
	return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
}

// backoff draws from [base/2, base], base doubling from 20 ms.
func backoff(try int, random float64) time.Duration {
	base := 20 * time.Millisecond << (try - 1)
	return base/2 + time.Duration(random*float64(base/2))
}

func repeatable(err error) bool {
	if LostCommit(err) {
		return false
	}
	switch ClassOf(err) {
	case ClassRetryable, ClassBusy, ClassLost:
		return true
	default:
		return false
	}
}

// cause names why a transaction is run again: deadlock (1213), lock_wait
// (1205), or the class of the error.
func cause(err error) string {
	var my *mysql.MySQLError
	if errors.As(err, &my) {
		switch my.Number {
		case 1213:
			return "deadlock"
		case 1205:
			return "lock_wait"
		}
	}
	return string(ClassOf(err))
}

func (d *DB) once(ctx context.Context, pool *sqlx.DB, o *sql.TxOptions, fn func(context.Context, *sqlx.Tx) error) (err error) {
	tx, err := pool.BeginTxx(ctx, o)
	if err != nil {
		return err
	}
	done := false
	defer func() {
		// Also when fn panics: a pooled connection must not keep a transaction.
		if !done {
			_ = tx.Rollback()
		}
	}()
	if err := fn(ctx, tx); err != nil {
		return err
	}
	done = true
	err = d.commit(ctx, tx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, driver.ErrBadConn):
		return err // nothing was sent
	case d.kind != SQLite && ClassOf(err) == ClassLost:
		return &CommitLostError{Err: err}
	default:
		return err
	}
}

// answerGrace is how much longer than its context a COMMIT may wait for the
// server's answer.
const answerGrace = 5 * time.Second

var errNoAnswer = errors.New("the server did not answer in time")

// commit commits. The driver waits for the answer as long as the connection
// stands, and a machine that is gone leaves it standing for a quarter of an hour.
func (d *DB) commit(ctx context.Context, tx *sqlx.Tx) error {
	if d.kind == SQLite || ctx.Done() == nil {
		return tx.Commit()
	}
	answer := make(chan error, 1)
	go func() { answer <- tx.Commit() }()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-answer:
		return err
	case <-d.o.Clock.After(answerGrace):
		return &CommitLostError{Err: errNoAnswer}
	}
}
