package sqltest

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/airlock-dag/airlock/sql/dialect"
)

// MySQLEnv names an external MySQL server for tests, as
// mysql://root@127.0.0.1:3306/: Each and Servers then use it instead of MariaDB.
const MySQLEnv = "AIRLOCK_TEST_MYSQL_DSN"

// Server is one database that a test is to be run on.
type Server struct {
	// Name is sqlite, mariadb or mysql.
	Name string
	// DSN is a fresh, empty database.
	DSN string
}

// Each runs fn as a parallel subtest on SQLite and on MariaDB, or on SQLite and
// MySQL where MySQLEnv is set.
func Each(t *testing.T, fn func(t *testing.T, name, dsn string)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		fn(t, "sqlite", SQLite(t))
	})
	name := serverName()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		fn(t, name, fresh(t, name))
	})
}

// EachServer is Each without SQLite: for what a file cannot do.
func EachServer(t *testing.T, fn func(t *testing.T, name, dsn string)) {
	t.Helper()
	name := serverName()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		fn(t, name, fresh(t, name))
	})
}

// Servers gives a fresh database on each server (no SQLite) that Each would use.
func Servers(tb testing.TB) []Server {
	tb.Helper()
	name := serverName()
	return []Server{{Name: name, DSN: fresh(tb, name)}}
}

func serverName() string {
	if os.Getenv(MySQLEnv) != "" {
		return "mysql"
	}
	return "mariadb"
}

func fresh(tb testing.TB, name string) string {
	tb.Helper()
	if name == "mysql" {
		return MySQL(tb)
	}
	return MariaDB(tb)
}

// SQLite is the DSN of a file in the test's own folder. The file is made empty.
func SQLite(tb testing.TB) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "airlock.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		tb.Fatal(err)
	}
	return "sqlite:///" + path
}

// sharedServer is the one MariaDB server of this test process. A process-wide
// server needs a process-wide variable: starting one for each test would take
// seconds each time.
var sharedServer struct {
	once sync.Once
	p    *Process
	err  error
}

// counter numbers the databases of this process.
var counter atomic.Int64

// MariaDB is the DSN of a fresh database on this test process' own MariaDB
// server, which the first call starts. It fails the test when mariadbd is not
// installed.
func MariaDB(tb testing.TB) string {
	tb.Helper()
	sharedServer.once.Do(func() { sharedServer.p, sharedServer.err = start(nil) })
	if sharedServer.err != nil {
		tb.Fatalf("a MariaDB server for tests: %v", sharedServer.err)
	}
	return createDatabase(tb, sharedServer.p.DSN(""))
}

// MySQL is the DSN of a fresh database on the server that MySQLEnv names. It
// skips the test where the variable is not set.
func MySQL(tb testing.TB) string {
	tb.Helper()
	dsn := os.Getenv(MySQLEnv)
	if dsn == "" {
		tb.Skipf("%s is not set; make test-mysql starts a server and sets it", MySQLEnv)
	}
	return createDatabase(tb, dsn)
}

// createDatabase makes a database with a name of its own and drops it after
// the test, so that a long run does not fill the disk.
func createDatabase(tb testing.TB, serverDSN string) string {
	tb.Helper()
	name := fmt.Sprintf("t_%d_%d", os.Getpid(), counter.Add(1))
	exec(tb, serverDSN, "CREATE DATABASE "+name+" CHARACTER SET utf8mb4")
	tb.Cleanup(func() { exec(tb, serverDSN, "DROP DATABASE IF EXISTS "+name) })
	u, err := url.Parse(serverDSN)
	if err != nil {
		tb.Fatalf("%s is not a database address", dialect.SafeDSN(serverDSN))
	}
	u.Path = "/" + name
	return u.String()
}

func exec(tb testing.TB, dsn, statement string) {
	tb.Helper()
	ctx := context.Background()
	db, err := dialect.Open(ctx, dsn, dialect.Options{MaxConns: 1})
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.Writer().ExecContext(ctx, statement); err != nil {
		tb.Fatalf("%s: %v", statement, err)
	}
}

// Exec runs statements (separated by a semicolon at a line's end) on a database,
// with the session settings that Airlock uses. For preparing a test.
func Exec(tb testing.TB, dsn string, statements string) {
	tb.Helper()
	for _, s := range strings.Split(statements, ";\n") {
		if s = strings.TrimSuffix(strings.TrimSpace(s), ";"); s != "" {
			exec(tb, dsn, s)
		}
	}
}

// Open opens a database of this package and closes it after the test.
func Open(tb testing.TB, dsn string) *dialect.DB {
	tb.Helper()
	db, err := dialect.Open(context.Background(), dsn, dialect.Options{Create: true})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

// Raw is a plain connection pool of a database, for what a test does behind
// Airlock's back.
func Raw(tb testing.TB, dsn string) *sql.DB {
	tb.Helper()
	return Open(tb, dsn).Writer().DB
}
