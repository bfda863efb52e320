package dialect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/airlock-dag/airlock/dag"
)

// Options of Open. The zero value is usable.
type Options struct {
	// Clock measures the waits between tries. Default dag.SystemClock.
	Clock dag.Clock
	// Rand draws the waits between tries. Default dag.SystemRand.
	Rand dag.Rand
	// MaxConns bounds the connections to a server, or the readers of a SQLite
	// file (which has one writer besides). Default 8.
	MaxConns int
	// ConnectTimeout bounds a connection's start. Default 10 s.
	ConnectTimeout time.Duration
	// LockWait is how long a statement waits for a row lock before the
	// transaction is rolled back and run again: whole seconds. Default 5 s.
	LockWait time.Duration
	// IdleTransaction is how long a MariaDB server waits for the next statement of a
	// transaction before it ends the connection and undoes it: whole seconds. A
	// process that stands still, or is cut off, then holds its locks no longer than
	// that. Zero, and on servers that know no such limit (MySQL), as long as the
	// connection stands.
	IdleTransaction time.Duration
	// BusyTimeout is how long a SQLite writer waits for the file. Default 10 s.
	BusyTimeout time.Duration
	// Create makes a SQLite file that is not there. Without it a missing file is
	// an error, so that a misspelt path is not taken for an empty database.
	Create bool
	// KeepStatements makes the connections to a SQLite file keep compiled
	// statements by their text: for a caller that uses the same texts over and
	// over. Rows then tell only their columns' names.
	KeepStatements bool
	// Together makes the connections to a server send statements together where
	// nobody waits for the answer between them: BEGIN with the first statement of a
	// transaction, and the lists of ExecTogether. Their texts may then hold several
	// statements, so it is for pools that run no text of a user's.
	Together bool
	// OnRepeat, when set, is told of each transaction that is run again, and why:
	// deadlock, lock_wait, or the class of the error.
	OnRepeat func(cause string)
	// Log gets repeated transactions. Default: discarded.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = dag.SystemClock{}
	}
	if o.Rand == nil {
		o.Rand = dag.SystemRand{}
	}
	if o.MaxConns <= 0 {
		o.MaxConns = 8
	}
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = 10 * time.Second
	}
	if o.LockWait < time.Second {
		o.LockWait = 5 * time.Second
	}
	if o.BusyTimeout <= 0 {
		o.BusyTimeout = 10 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// DB is an open database: a pool that writes and a pool that reads. On MySQL
// and MariaDB they are one; a SQLite file has exactly one writing connection.
type DB struct {
	kind    Kind
	version Version
	caps    Caps
	name    string // address without the password
	path    string
	schema  string
	write   *sqlx.DB
	read    *sqlx.DB
	// together is set when several statements may be sent at once.
	together bool
	// apart is set when nothing can be sent with COMMIT.
	apart   atomic.Bool
	o       Options
	commits atomic.Int64
}

// Open connects to the database of a DSN (see docs/operations.md) and asks its
// version. Errors say what is wrong and never hold the password.
func Open(ctx context.Context, dsn string, o Options) (*DB, error) {
	t, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	return open(ctx, t, o.withDefaults())
}

// OpenConnection connects to the database of a stored connection.
func OpenConnection(ctx context.Context, c dag.Connection, o Options) (*DB, error) {
	t, err := fromConnection(c)
	if err != nil {
		return nil, err
	}
	db, err := open(ctx, t, o.withDefaults())
	if err != nil {
		return nil, fmt.Errorf("connection %s: %w", c.ID, err)
	}
	return db, nil
}

// SafeDSN is a DSN without its password, for logs.
func SafeDSN(dsn string) string {
	t, err := parseDSN(dsn)
	if err != nil {
		return "(not a database address)"
	}
	return t.String()
}

func open(ctx context.Context, t target, o Options) (*DB, error) {
	ctx, cancel := context.WithTimeout(ctx, o.ConnectTimeout)
	defer cancel()
	if t.kind == SQLite {
		return openSQLite(ctx, t, o)
	}
	return openMySQL(ctx, t, o)
}

// openError puts the address and a hint by class to a failed start.
func openError(t target, err error) error {
	e := &dag.Error{Code: dag.ErrInternal, Op: "open " + t.String(), Err: err}
	switch ClassOf(err) {
	case ClassUnavailable:
		e.Hint = "is the server running, and is the host, port or socket right?"
		if t.kind == SQLite {
			e.Hint = "the system could not read or write the file: look at the disk, and at the limits of this process"
		}
	case ClassBusy:
		e.Hint = "the server has no room for one more connection: try again, or raise its limit"
		if t.kind == SQLite {
			e.Hint = "another process holds the file: end it, or wait until it has finished"
		}
	case ClassDiskFull:
		e.Hint = "make room on its disk"
	case ClassConfig:
		e.Code = dag.ErrInvalid
		e.Hint = "check the user, the password, the database's name and the user's rights"
		if t.kind == SQLite {
			e.Hint = "check the path and the rights of its folder"
		}
	case ClassReadOnly:
		e.Code = dag.ErrInvalid
		e.Hint = "nothing can be written here: check the rights of the user, and whether the disk or the server is read-only"
	case ClassCorrupt:
		e.Code = dag.ErrInvalid
		e.Hint = "the file is no SQLite database, or is damaged"
	case ClassCancelled:
		if errors.Is(err, context.DeadlineExceeded) {
			e.Hint = "the server did not answer in time"
		}
	default:
	}
	return e
}

// Kind is the brand that answered.
func (d *DB) Kind() Kind { return d.kind }

// Version is the server's version.
func (d *DB) Version() Version { return d.version }

// Caps is what the server can do.
func (d *DB) Caps() Caps { return d.caps }

// IsSQLite tells whether it is a SQLite file.
func (d *DB) IsSQLite() bool { return d.kind == SQLite }

// String is the address without the password.
func (d *DB) String() string { return d.name }

// Path is the file of a SQLite database, else empty.
func (d *DB) Path() string { return d.path }

// Schema is the database's name on a server, else empty.
func (d *DB) Schema() string { return d.schema }

// Writer is the pool for statements that write. Use Write for transactions.
func (d *DB) Writer() *sqlx.DB { return d.write }

// Reader is the pool for statements that only read.
func (d *DB) Reader() *sqlx.DB { return d.read }

// Commits counts the write transactions that were committed since Open: what a
// durable database charges most for.
func (d *DB) Commits() int64 { return d.commits.Load() }

// Close closes all connections.
func (d *DB) Close() error {
	if d.read != d.write {
		return errors.Join(d.read.Close(), d.write.Close())
	}
	return d.write.Close()
}
