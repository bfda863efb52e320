package dialect

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"github.com/jmoiron/sqlx"
	"modernc.org/sqlite"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/plainfile"
)

// openSQLite opens a file with one writing connection and a pool of readers.
// More writers gain nothing, there is one write lock; and a transaction that
// begins as a reader and then writes fails at once when another wrote in
// between, whatever the busy timeout, so every write transaction is IMMEDIATE.
func openSQLite(ctx context.Context, t target, o Options) (*DB, error) {
	if err := checkFile(t, o.Create); err != nil {
		return nil, err
	}
	common := url.Values{}
	common.Set("_busy_timeout", strconv.FormatInt(o.BusyTimeout.Milliseconds(), 10))
	common.Add("_pragma", "synchronous(FULL)") // durable against a power cut
	common.Add("_pragma", "foreign_keys(1)")
	common.Add("_pragma", "cache_size(-16000)") // KiB
	w := clone(common)
	w.Set("_txlock", "immediate")
	w.Add("_pragma", "journal_mode(WAL)")
	w.Add("_pragma", "journal_size_limit(67108864)") // bytes
	r := clone(common)
	r.Set("_txlock", "deferred")
	r.Add("_pragma", "query_only(1)")

	write, err := sqlitePool(t.path, w, 1, o.KeepStatements)
	if err != nil {
		return nil, openError(t, err)
	}
	read, err := sqlitePool(t.path, r, o.MaxConns, o.KeepStatements)
	if err != nil {
		_ = write.Close()
		return nil, openError(t, err)
	}
	d := &DB{kind: SQLite, name: t.String(), path: t.path, write: write, read: read, o: o}
	var version string
	// The writer goes first: it turns the file to WAL, which the readers need.
	err = d.untilFree(ctx, func() error {
		return write.GetContext(ctx, &version, "SELECT sqlite_version() FROM (SELECT count(*) FROM sqlite_master)")
	})
	if err != nil {
		_ = d.Close()
		return nil, openError(t, err)
	}
	if err := read.PingContext(ctx); err != nil {
		_ = d.Close()
		return nil, openError(t, err)
	}
	_, d.version = parseVersion(version)
	d.caps = capsOf(SQLite, d.version)
	return d, nil
}

// untilFree runs a statement until the file is not busy, for the busy timeout.
// SQLite itself does not wait where that could be for ever: a file is turned to
// WAL by a reader that wants the whole file, so of two that open a new file at
// once each is in the other's way, and one is refused at once.
func (d *DB) untilFree(ctx context.Context, run func() error) error {
	begin := d.o.Clock.Now()
	for try := 1; ; try++ {
		err := run()
		if err == nil || ClassOf(err) != ClassBusy || d.o.Clock.Now().Sub(begin) >= d.o.BusyTimeout {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-d.o.Clock.After(backoff(min(try, Tries), d.o.Rand.Float64())):
		}
	}
}

// NoFileError is a SQLite database whose file is not there and was not to be made.
type NoFileError struct{ Path string }

// Error implements error.
func (e *NoFileError) Error() string { return "there is no file " + e.Path }

func checkFile(t target, create bool) error {
	fail := func(hint, format string, args ...any) error {
		return &dag.Error{Code: dag.ErrInvalid, Op: "open " + t.String(), Hint: hint, Err: fmt.Errorf(format, args...)}
	}
	st, err := os.Stat(t.path)
	switch {
	case err == nil && !st.Mode().IsRegular():
		return fail("name a file", "%s is %s", t.path, plainfile.KindOf(st.Mode()))
	case err == nil:
		return nil
	case !os.IsNotExist(err):
		return fail("check the rights of its folders", "%w", err)
	case !create:
		return fail("check the path; four slashes begin an absolute one", "%w", &NoFileError{Path: t.path})
	}
	folder := filepath.Dir(t.path)
	if _, err := os.Stat(folder); err != nil {
		return fail("make the folder, or check the path; four slashes begin an absolute one", "there is no folder %s", folder)
	}
	// Made here, and not by SQLite, so that others cannot read it; the files
	// beside it take its mode.
	f, err := os.OpenFile(t.path, os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return fail("check the rights of its folders", "%w", err)
	}
	return f.Close()
}

func sqlitePool(path string, q url.Values, conns int, keep bool) (*sqlx.DB, error) {
	// A URI, so that ? and % in the path are not taken for parameters.
	dsn := (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String()
	c, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	if keep {
		c = statementConnector{Connector: c, whole: conns == 1}
	}
	db := sqlx.NewDb(sql.OpenDB(c), "sqlite")
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

func clone(v url.Values) url.Values {
	out := url.Values{}
	for k, s := range v {
		out[k] = append([]string(nil), s...)
	}
	return out
}
