package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/crashpoint"
	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/migrations"
)

// Store is the state database. It is safe for concurrent use; several
// processes may share one database.
type Store struct {
	db       *dialect.DB
	clock    dag.Clock // nil: the server tells the time
	secrets  *fernet   // nil: no key
	cluster  bool      // several servers that write, and do not see each other's locks
	versions *versionCache
	memory   *runMemory
	held     *holding
	trust    trust
	// follows is set once results were exchanged beside a scheduler: then runs are
	// remembered.
	follows  atomic.Bool
	standing standing
	allowed  map[change]bool
	log      *slog.Logger
	// idle remembers that the last question found nothing: the next one is asked
	// with a plain read first, which takes no lock and begins no transaction.
	idle   struct{ claims, events, passes atomic.Bool }
	doubts eventDoubts
	// tallied counts the rows that this process added to the tally of letters
	// since it last drew them together.
	tallied atomic.Int64
	audited doubles
}

// idleTransaction is how long a process may stand still within a transaction until
// a MariaDB server undoes it. No transaction here waits for anything but the
// server; one of a process that is stopped, or on a machine that is cut off, would
// keep the reaper from the tasks that it held.
const idleTransaction = time.Minute

// change is one step of an instance's life.
type change struct{ from, to dag.State }

// Open connects to a state database: sqlite:///path, sqlite:////absolute/path or
// mysql://user:password@host:3306/database (for MariaDB too). A SQLite file is
// made when its folder is there. It does not migrate. Errors name what is wrong
// and never the password.
func Open(ctx context.Context, dsn string, o Options) (*Store, error) {
	secrets, err := newFernet(o.FernetKey)
	if err != nil {
		return nil, err
	}
	db, err := dialect.Open(ctx, dsn, dialect.Options{
		Rand: o.Rand, MaxConns: o.MaxConns, ConnectTimeout: o.ConnectTimeout, Create: true, KeepStatements: true, Together: true, Log: o.Log, OnRepeat: o.OnRepeat,
		IdleTransaction: idleTransaction,
	})
	if err != nil {
		return nil, err
	}
	if err := db.RequireSkipLocked(); err != nil {
		_ = db.Close()
		return nil, err
	}
	s := &Store{db: db, clock: o.Clock, secrets: secrets, versions: newVersionCache(), memory: newRunMemory(), held: newHolding(), allowed: map[change]bool{}, log: o.Log}
	if s.cluster, err = db.Cluster(ctx); err != nil {
		_ = db.Close()
		return nil, err
	}
	if s.clock == nil && db.IsSQLite() {
		s.clock = crashpoint.Clock(dag.SystemClock{})
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	for _, r := range dag.TransitionTable() {
		s.allowed[change{r.From, r.To}] = true
	}
	return s, nil
}

// Close implements Desk.
func (s *Store) Close() error { return s.db.Close() }

// DB is the open database, for checks and tools that read beside the Store.
func (s *Store) DB() *dialect.DB { return s.db }

// Migrate implements Desk.
func (s *Store) Migrate(ctx context.Context) error { return migrations.Up(ctx, s.db) }

// Reset implements Desk.
func (s *Store) Reset(ctx context.Context) error {
	tables, err := migrations.Tables(s.db)
	if err != nil {
		return err
	}
	for _, table := range tables { // a server commits each by itself; what is left is dropped by the next try
		if _, err := s.db.Writer().ExecContext(ctx, "DROP TABLE IF EXISTS "+table); err != nil {
			return fmt.Errorf("drop table %s: %w", table, err)
		}
	}
	return s.Migrate(ctx)
}

// Clustered tells whether the database is a node of a cluster whose nodes all take
// writes and do not see each other's locks.
func (s *Store) Clustered() bool { return s.cluster }

// String names the database, without its password.
func (s *Store) String() string { return s.db.String() }

// SchemaVersion implements Desk.
func (s *Store) SchemaVersion(ctx context.Context) (have, want int64, err error) {
	return migrations.Version(ctx, s.db)
}

// Ping implements Desk.
func (s *Store) Ping(ctx context.Context) error {
	_, err := s.Now(ctx)
	return err
}

// Now is the state database's clock, UTC with microseconds.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	now, err := s.nowBy(ctx, s.db.Reader())
	if err != nil {
		return time.Time{}, fmt.Errorf("the database's time: %w", err)
	}
	return now, nil
}

func (s *Store) nowBy(ctx context.Context, q queryer) (time.Time, error) {
	if s.clock != nil {
		return s.clock.Now().UTC().Truncate(time.Microsecond), nil
	}
	var t dialect.Time
	if err := q.GetContext(ctx, &t, "SELECT UTC_TIMESTAMP(6)"); err != nil {
		return time.Time{}, err
	}
	return t.Time, nil
}

// finds tells whether a query for ids finds one.
func (s *Store) finds(ctx context.Context, query string, args ...any) (bool, error) {
	var ids []int64
	err := s.db.Reader().SelectContext(ctx, &ids, query, args...)
	return len(ids) > 0, err
}

// tx is one write transaction with the one instant that everything in it
// happens at.
type tx struct {
	x   *sqlx.Tx
	s   *Store
	now time.Time
	at  string // now as SQL text

	tally tally // what changed of the numbers of letters
	lines int   // how many rows of the tally that made

	failed []dag.Event // failures that may open incidents

	// woke is set when runs were woken: somebody has to look at them.
	woke bool
	// late are the runs that others held when they were to be woken.
	late []int64
	// room is set when the end of a run may let its DAG have the next, which is due.
	room bool
	// stands is what the pass counted; nil when it counted nothing.
	stands *stood
	// ended are the results that the transaction writes before its pass.
	ended []settled
	// trusts is set when it may go by what this process remembers, relied when it
	// did in all that its results are about.
	trusts, relied bool
	// believed are wide runs that it decided about as they are remembered.
	believed []int64
	// asked is set when waits tells whether anything was scheduled as it began, and
	// unqueued when it set queued instances back to that.
	asked, waits, unqueued bool
	// unlocked is set when it handed out no slots because nothing seemed to wait.
	unlocked bool
	// takes is what a worker asks for in it; starts are the rows that it got before
	// they were ever queued.
	takes  *dag.ClaimParams
	starts []instanceRow
	// began are the rows that it claimed, and done the results that it wrote.
	began []instanceRow
	done  []settled
	// pending are the statements that are sent with the next one that is waited for,
	// and otherwise is what it is if one that goes with COMMIT matches other rows.
	pending   []later
	otherwise error
}

// begin is the first statement of a transaction. One that will ask whether
// anything waits for a slot asks a server at once: a statement is a round trip.
func (s *Store) begin(ctx context.Context, x *sqlx.Tx, asks bool) (*tx, error) {
	t := &tx{x: x, s: s, tally: tally{}}
	var err error
	if t.asked = asks && s.clock == nil; t.asked {
		var at dialect.Time
		err = x.QueryRowxContext(ctx, "SELECT UTC_TIMESTAMP(6), EXISTS (SELECT 1 FROM task_instance WHERE state = 'scheduled')").Scan(&at, &t.waits)
		t.now = at.Time
	} else {
		t.now, err = s.nowBy(ctx, x)
	}
	t.at = dialect.Stamp(t.now)
	return t, err
}

// write runs fn in a transaction that is repeated as dialect.DB.Write says: fn
// must set its results anew each time.
func (s *Store) write(ctx context.Context, op string, fn func(ctx context.Context, t *tx) error) error {
	return s.writeAsking(ctx, op, false, fn)
}

func (s *Store) writeAsking(ctx context.Context, op string, asks bool, fn func(ctx context.Context, t *tx) error) error {
	crashpoint.At(op, "before")
	var last *tx
	err := s.db.Write(ctx, func(ctx context.Context, x *sqlx.Tx) error {
		t, err := s.begin(ctx, x, asks)
		if err != nil {
			return err
		}
		if err = fn(ctx, t); err == nil {
			err = t.writeTally(ctx)
		}
		if err == nil && len(t.failed) > 0 {
			err = t.openIncidents(ctx, t.failed)
		}
		if err == nil {
			err = t.end(ctx)
		}
		last = t
		crashpoint.At(op, "inside")
		return err
	})
	crashpoint.At(op, "after")
	if errors.Is(err, dialect.ErrOtherRows) {
		err = last.otherwise
	}
	if dialect.LostCommit(err) {
		s.wakeLate(ctx, last.late)
	}
	if err != nil {
		return s.explain(op, err)
	}
	s.standing.commit(last.stands)
	s.held.drop(last.done)
	s.held.keep(last.began)
	s.wakeLate(ctx, last.late)
	if last.lines > 0 && s.tallied.Add(int64(last.lines)) >= compactAfter {
		s.tallied.Store(0)
		if err := s.compact(ctx); err != nil { // the sums are right all the same
			s.log.WarnContext(ctx, "the tally of letters was not drawn together; it is tried again", "error", err)
		}
	}
	return nil
}

// againIfLost writes once more what may be written twice, where the answer to its
// COMMIT was lost.
func againIfLost(write func() error) error {
	err := write()
	if dialect.LostCommit(err) {
		err = write()
	}
	return err
}

// explain names what was tried. Errors that carry their own words for the user
// pass unchanged.
func (s *Store) explain(op string, err error) error {
	var told *dag.Error
	if err == nil || errors.As(err, &told) {
		return err
	}
	if why := dialect.Why(err); why != "" {
		return fmt.Errorf("%s: %w (%s)", op, err, why)
	}
	return fmt.Errorf("%s: %w", op, err)
}

// force names the index that must serve a query: one that scans would lock rows
// that it does not want. SQLite has no row locks, but its planner, which knows
// nothing of how many rows there are, takes the index of a state where ids are
// given, or an order with a limit: that is to look through all rows in that state.
// PRIMARY is for tables whose key is a number.
func (s *Store) force(index string) string {
	if !s.db.IsSQLite() {
		return s.db.ForceIndex(index)
	}
	switch index {
	case "PRIMARY":
		return " NOT INDEXED" // but by the row's number
	case "k_eval":
		return " INDEXED BY dag_run_eval"
	}
	return ""
}

func (t *tx) force(index string) string { return t.s.force(index) }
