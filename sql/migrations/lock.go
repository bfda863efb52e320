package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/pressly/goose/v3/lock"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// lockWait is how long one process waits for another's migration.
const lockWait = 5 * time.Minute

// lockFor makes sure that one process migrates at a time, with a lock that ends
// when its holder dies: a named lock of the session on a server, an advisory
// lock on a file beside a SQLite database.
func lockFor(ctx context.Context, db *dialect.DB) (unlock func(), locker lock.SessionLocker, err error) {
	if !db.IsSQLite() {
		return func() {}, namedLock{}, nil
	}
	unlock, err = lockFile(ctx, db.Path()+".migrate-lock")
	return unlock, nil, err
}

// namedLock is GET_LOCK, one for each database of a server.
type namedLock struct{}

// The name is hashed because a lock's name may have 64 characters only. MySQL 9
// has no MD5 any more.
const namedLockName = "CONCAT('airlock_migrate_', LEFT(SHA2(DATABASE(), 256), 32))"

// SessionLock implements lock.SessionLocker.
func (namedLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	var got sql.NullInt64
	err := conn.QueryRowContext(ctx, "SELECT GET_LOCK("+namedLockName+", ?)", int(lockWait/time.Second)).Scan(&got)
	if err != nil {
		return fmt.Errorf("lock the database for its migration: %w", err)
	}
	if got.Int64 != 1 {
		return fmt.Errorf("another process has been migrating the database for %s", lockWait)
	}
	return firstRow(ctx, conn)
}

// firstRow writes the row that the table of files begins with, if the table has
// none. A server commits a CREATE TABLE at once, so a process that was killed
// right after it leaves an empty table, which the library takes for broken.
func firstRow(ctx context.Context, conn *sql.Conn) error {
	var tables, rows int
	err := conn.QueryRowContext(ctx,
		"SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?", TableName).Scan(&tables)
	if err != nil || tables == 0 {
		return err
	}
	if err := conn.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+TableName).Scan(&rows); err != nil || rows > 0 {
		return err
	}
	_, err = conn.ExecContext(ctx, "INSERT INTO "+TableName+" (version_id, is_applied) VALUES (0, TRUE)")
	return err
}

// SessionUnlock implements lock.SessionLocker.
func (namedLock) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	var got sql.NullInt64
	return conn.QueryRowContext(ctx, "SELECT RELEASE_LOCK("+namedLockName+")").Scan(&got)
}

// lockFile takes an advisory lock on a file. The file stays: removing it would
// let two processes lock two different files of one name.
func lockFile(ctx context.Context, path string) (func(), error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the database for its migration: %w", err)
	}
	clock := dag.SystemClock{}
	deadline := clock.Now().Add(lockWait)
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if clock.Now().After(deadline) {
			_ = f.Close()
			return nil, fmt.Errorf("another process has been migrating the database for %s", lockWait)
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, context.Cause(ctx)
		case <-clock.After(20 * time.Millisecond):
		}
	}
}
