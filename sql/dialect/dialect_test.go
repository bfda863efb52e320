package dialect_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/sqltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func table(t *testing.T, db *dialect.DB) {
	t.Helper()
	suffix := ""
	if !db.IsSQLite() {
		suffix = " ENGINE=InnoDB"
	}
	for _, s := range []string{
		"CREATE TABLE parent (id INT PRIMARY KEY)" + suffix,
		"CREATE TABLE x (id INT PRIMARY KEY, v INT NOT NULL CHECK (v < 1000), s VARCHAR(5), at DATETIME, p INT, FOREIGN KEY (p) REFERENCES parent (id))" + suffix,
		"INSERT INTO x (id, v) VALUES (1, 0), (2, 0), (3, 0)",
	} {
		_, err := db.Writer().Exec(s)
		require.NoError(t, err, s)
	}
}

func TestClassesOfRealErrors(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		db := sqltest.Open(t, dsn)
		table(t, db)
		for _, c := range []struct {
			sql       string
			want      dialect.Class
			notInFile bool // SQLite takes it
		}{
			{"INSERT INTO x (id, v) VALUES (1, 0)", dialect.ClassDuplicate, false},
			{"INSERT INTO x (id, v) VALUES (9, NULL)", dialect.ClassData, false},
			{"INSERT INTO x (id, v) VALUES (9, 5000)", dialect.ClassData, false},
			{"INSERT INTO x (id, v, s) VALUES (9, 0, 'too long')", dialect.ClassData, true},
			{"INSERT INTO x (id, v) VALUES (9, 'abc')", dialect.ClassData, true},
			{"INSERT INTO x (id, v, at) VALUES (9, 0, '2026-02-31 00:00:00')", dialect.ClassData, true},
			{"INSERT INTO x (id, v, p) VALUES (9, 0, 77)", dialect.ClassForeignKey, false},
			{"INSERT INTO nowhere VALUES (1)", dialect.ClassProgram, false},
			{"SELECT nothing FROM x", dialect.ClassProgram, false},
			{"SELEC 1", dialect.ClassProgram, false},
		} {
			if c.notInFile && db.IsSQLite() {
				continue
			}
			_, err := db.Writer().Exec(c.sql)
			require.Error(t, err, c.sql)
			require.Equal(t, c.want, dialect.ClassOf(fmt.Errorf("wrapped: %w", err)), "%s: %v", c.sql, err)
			_, ok := dialect.Number(err)
			require.True(t, ok)
		}
		require.Equal(t, dialect.ClassNone, dialect.ClassOf(nil))
		require.Equal(t, dialect.ClassUnknown, dialect.ClassOf(errors.New("x")))
	})
}

func TestOpenErrorsAreClear(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	_, err := dialect.Open(ctx, "sqlite:///"+filepath.Join(t.TempDir(), "no.db"), dialect.Options{})
	require.ErrorContains(t, err, "no file")
	_, err = dialect.Open(ctx, "sqlite:///"+filepath.Join(t.TempDir(), "no", "no.db"), dialect.Options{Create: true})
	require.ErrorContains(t, err, "no folder")
	_, err = dialect.Open(ctx, "sqlite:///"+t.TempDir(), dialect.Options{})
	require.ErrorContains(t, err, "is a folder")
	_, err = dialect.Open(ctx, "sqlite:////dev/zero", dialect.Options{})
	require.ErrorContains(t, err, "/dev/zero is a device")
	_, err = dialect.Open(ctx, "mysql://root:s3cret@127.0.0.1:1/x", dialect.Options{})
	require.ErrorContains(t, err, "is the server running")
	require.NotContains(t, err.Error(), "s3cret")
	require.Equal(t, dialect.ClassUnavailable, dialect.ClassOf(err))
	for _, s := range sqltest.Servers(t) {
		u, err := url.Parse(s.DSN)
		require.NoError(t, err)
		u.User = url.UserPassword("nobody", "s3cret")
		_, err = dialect.Open(ctx, u.String(), dialect.Options{})
		require.Equal(t, dialect.ClassConfig, dialect.ClassOf(err), "%v", err)
		require.NotContains(t, err.Error(), "s3cret")
		u, _ = url.Parse(s.DSN)
		u.Path = "/missing_database"
		_, err = dialect.Open(ctx, u.String(), dialect.Options{})
		require.Equal(t, dialect.ClassConfig, dialect.ClassOf(err), "%v", err)
	}
}

func TestWriteUndoesEverythingOnAnyError(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		db := sqltest.Open(t, dsn)
		table(t, db)
		boom := errors.New("boom")
		calls := 0
		err := db.Write(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
			calls++
			_, err := tx.ExecContext(ctx, "UPDATE x SET v = 5 WHERE id = 1")
			require.NoError(t, err)
			return boom
		})
		require.ErrorIs(t, err, boom)
		require.Equal(t, 1, calls, "an error of the caller's own is not repeated")
		require.PanicsWithValue(t, "p", func() {
			_ = db.Write(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
				_, err := tx.ExecContext(ctx, "UPDATE x SET v = 6 WHERE id = 1")
				require.NoError(t, err)
				panic("p")
			})
		})
		require.Equal(t, 0, value(t, db, 1))
	})
}

func value(t *testing.T, db *dialect.DB, id int) int {
	t.Helper()
	var v int
	require.NoError(t, db.Reader().Get(&v, "SELECT v FROM x WHERE id = ?", id))
	return v
}

// A lock wait error undoes one statement only; the first half must not be kept.
func TestLockWaitRepeatsTheWholeTransaction(t *testing.T) {
	t.Parallel()
	sqltest.EachServer(t, func(t *testing.T, _, dsn string) {
		db, err := dialect.Open(t.Context(), dsn, dialect.Options{LockWait: time.Second})
		require.NoError(t, err)
		defer func() { require.NoError(t, db.Close()) }()
		table(t, db)
		other, err := db.Writer().Beginx()
		require.NoError(t, err)
		_, err = other.Exec("UPDATE x SET v = v + 1 WHERE id = 2")
		require.NoError(t, err)
		calls := 0
		err = db.Write(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
			calls++
			if _, err := tx.ExecContext(ctx, "UPDATE x SET v = v + 100 WHERE id = 1"); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, "UPDATE x SET v = 100 WHERE id = 2")
			if err != nil {
				require.Equal(t, dialect.ClassRetryable, dialect.ClassOf(err), "%v", err)
				require.NoError(t, other.Rollback())
			}
			return err
		})
		require.NoError(t, err)
		require.Equal(t, 2, calls)
		require.Equal(t, 100, value(t, db, 1), "the first half was applied once")
		require.Equal(t, 100, value(t, db, 2))
	})
}

func TestDeadlockRepeatsTheWholeTransaction(t *testing.T) {
	t.Parallel()
	sqltest.EachServer(t, func(t *testing.T, _, dsn string) {
		db := sqltest.Open(t, dsn)
		table(t, db)
		var calls atomic.Int32
		var met sync.WaitGroup
		met.Add(2)
		add := func(first, second int) error {
			var once sync.Once
			return db.Write(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
				calls.Add(1)
				if _, err := tx.ExecContext(ctx, "UPDATE x SET v = v + 1 WHERE id = ?", first); err != nil {
					return err
				}
				once.Do(func() { met.Done(); met.Wait() })
				_, err := tx.ExecContext(ctx, "UPDATE x SET v = v + 1 WHERE id = ?", second)
				return err
			})
		}
		errs := make(chan error, 2)
		go func() { errs <- add(1, 2) }()
		go func() { errs <- add(2, 1) }()
		require.NoError(t, <-errs)
		require.NoError(t, <-errs)
		require.GreaterOrEqual(t, calls.Load(), int32(3), "one of the two was chosen as the victim")
		require.Equal(t, 2, value(t, db, 1))
		require.Equal(t, 2, value(t, db, 2))
	})
}

// Writers that read first do not fail because another wrote in between, and
// two processes (two pools) share one file.
func TestSQLiteWritersWaitForEachOther(t *testing.T) {
	t.Parallel()
	dsn := sqltest.SQLite(t)
	a, b := sqltest.Open(t, dsn), sqltest.Open(t, dsn)
	table(t, a)
	var g sync.WaitGroup
	errs := make(chan error, 100)
	for i := range 100 {
		db := a
		if i%2 == 1 {
			db = b
		}
		g.Go(func() {
			errs <- db.Write(context.Background(), func(ctx context.Context, tx *sqlx.Tx) error {
				var v int
				if err := tx.GetContext(ctx, &v, "SELECT v FROM x WHERE id = 1"); err != nil {
					return err
				}
				_, err := tx.ExecContext(ctx, "UPDATE x SET v = ? WHERE id = 1", v+1)
				return err
			})
		})
	}
	g.Wait()
	for range 100 {
		require.NoError(t, <-errs)
	}
	require.Equal(t, 100, value(t, a, 1))
	_, err := a.Reader().Exec("UPDATE x SET v = 0")
	require.Equal(t, dialect.ClassReadOnly, dialect.ClassOf(err), "%v", err)
	var mode, sync int
	var journal string
	require.NoError(t, a.Writer().Get(&sync, "PRAGMA synchronous"))
	require.Equal(t, 2, sync, "FULL")
	require.NoError(t, a.Writer().Get(&journal, "PRAGMA journal_mode"))
	require.Equal(t, "wal", journal)
	require.NoError(t, a.Writer().Get(&mode, "PRAGMA foreign_keys"))
	require.Equal(t, 1, mode)
}

func TestCancelledContextRollsBack(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		db := sqltest.Open(t, dsn)
		table(t, db)
		why := errors.New("the worker is stopping")
		ctx, cancel := context.WithCancelCause(t.Context())
		err := db.Write(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
			if _, err := tx.ExecContext(ctx, "UPDATE x SET v = 5 WHERE id = 1"); err != nil {
				return err
			}
			cancel(why)
			return nil
		})
		require.Error(t, err)
		require.Equal(t, dialect.ClassCancelled, dialect.ClassOf(err), "%v", err)
		require.Equal(t, 0, value(t, db, 1))
	})
}

func TestSnapshotSeesOneState(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		db := sqltest.Open(t, dsn)
		table(t, db)
		require.NoError(t, db.Snapshot(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
			for range 2 {
				var v int
				require.NoError(t, tx.GetContext(ctx, &v, "SELECT v FROM x WHERE id = 1"))
				require.Equal(t, 0, v)
				_, err := db.Writer().Exec("UPDATE x SET v = 9 WHERE id = 1")
				require.NoError(t, err)
			}
			_, err := tx.ExecContext(ctx, "UPDATE x SET v = 1")
			require.Error(t, err)
			return nil
		}))
		require.Equal(t, 9, value(t, db, 1))
	})
}

func TestSessionsOfAServer(t *testing.T) {
	t.Parallel()
	sqltest.EachServer(t, func(t *testing.T, _, dsn string) {
		db := sqltest.Open(t, dsn)
		table(t, db)
		require.NoError(t, db.RequireSkipLocked())
		var mode, zone string
		var wait int
		require.NoError(t, db.Writer().QueryRow("SELECT @@sql_mode, @@time_zone, @@innodb_lock_wait_timeout").Scan(&mode, &zone, &wait))
		require.Contains(t, mode, "STRICT_TRANS_TABLES")
		require.Equal(t, "+00:00", zone)
		require.Equal(t, 5, wait)
		r, err := db.Writer().Exec("UPDATE x SET v = 0 WHERE id = 1")
		require.NoError(t, err)
		n, _ := r.RowsAffected()
		require.Equal(t, int64(1), n, "matched rows are counted though nothing changed")
		_, err = db.Writer().Exec("INSERT INTO x (id, v, s) VALUES (50, 0, ?)", strings.Repeat("x", 80<<20))
		require.Equal(t, dialect.ClassData, dialect.ClassOf(err), "a statement over max_allowed_packet: %v", err)
		// READ COMMITTED: a second read in one transaction sees what others committed.
		tx, err := db.Writer().Beginx()
		require.NoError(t, err)
		defer func() { _ = tx.Rollback() }()
		var v int
		require.NoError(t, tx.Get(&v, "SELECT v FROM x WHERE id = 3"))
		_, err = db.Writer().Exec("UPDATE x SET v = 4 WHERE id = 3")
		require.NoError(t, err)
		require.NoError(t, tx.Get(&v, "SELECT v FROM x WHERE id = 3"))
		require.Equal(t, 4, v)
	})
}

func TestTimesKeepMicroseconds(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		db := sqltest.Open(t, dsn)
		column := "DATETIME(6)"
		if db.IsSQLite() {
			column = "TEXT"
		}
		_, err := db.Writer().Exec("CREATE TABLE at (id INT PRIMARY KEY, t " + column + ")")
		require.NoError(t, err)
		berlin := time.FixedZone("CEST", 2*3600)
		in := time.Date(2026, 10, 25, 2, 30, 0, 123456789, berlin)
		_, err = db.Writer().Exec("INSERT INTO at VALUES (1, ?), (2, ?), (3, ?)", dialect.At(in), dialect.Stamp(in), dialect.StampPtr(nil))
		require.NoError(t, err)
		var got []dialect.Time
		require.NoError(t, db.Reader().Select(&got, "SELECT t FROM at ORDER BY id"))
		want := time.Date(2026, 10, 25, 0, 30, 0, 123456000, time.UTC)
		require.Equal(t, []dialect.Time{dialect.At(want), dialect.At(want), {}}, got)
		require.Nil(t, got[2].Ptr())
		require.Equal(t, want, *got[0].Ptr())
	})
}

func TestUpsert(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		db := sqltest.Open(t, dsn)
		table(t, db)
		for _, v := range []int{7, 8} {
			_, err := db.Writer().Exec("INSERT INTO x (id, v) VALUES "+dialect.Rows(2, 2)+db.Upsert([]string{"id"}, []string{"v"}), 1, v, 9, v)
			require.NoError(t, err)
			require.Equal(t, v, value(t, db, 1))
			require.Equal(t, v, value(t, db, 9))
		}
		_, err := db.Writer().Exec("INSERT INTO x (id, v) VALUES (1, 3)" + db.Upsert([]string{"id"}, nil))
		require.NoError(t, err)
		require.Equal(t, 8, value(t, db, 1))
	})
}

func TestOpenConnection(t *testing.T) {
	t.Parallel()
	for _, s := range sqltest.Servers(t) {
		u, err := url.Parse(s.DSN)
		require.NoError(t, err)
		port := 0
		_, err = fmt.Sscan(u.Port(), &port)
		require.NoError(t, err)
		pass, _ := u.User.Password()
		db, err := dialect.OpenConnection(t.Context(), dag.Connection{
			ID: "c", Type: "mysql", Host: u.Hostname(), Port: port, Login: u.User.Username(), Password: pass, Schema: u.Path[1:],
		}, dialect.Options{})
		require.NoError(t, err)
		require.Equal(t, u.Path[1:], db.Schema())
		require.NoError(t, db.Close())
	}
}
