package dialect

import (
	"context"
	"crypto/tls"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"

	"github.com/airlock-dag/airlock/dag"
)

// mysqlConfig turns an address into the driver's settings.
func mysqlConfig(t target, o Options) (*mysql.Config, error) {
	c := mysql.NewConfig()
	c.User, c.Passwd, c.DBName = t.user, t.password, t.database
	c.Net, c.Addr = "tcp", net.JoinHostPort(t.host, strconv.Itoa(t.port))
	if t.socket != "" {
		c.Net, c.Addr = "unix", t.socket
	}
	c.ParseTime = true
	c.Loc = time.UTC
	// Matched rows, not changed ones: a guarded UPDATE that sets a row to what
	// it was still tells that the guard held.
	c.ClientFoundRows = true
	c.InterpolateParams = true // one round trip a statement instead of three
	c.Collation = "utf8mb4_bin"
	c.MaxAllowedPacket = 0 // ask the server, so that an oversized statement is an error and not a dead line
	c.Timeout = o.ConnectTimeout
	c.RejectReadOnly = false // a read-only server is an error with a class of its own
	// Broken lines come back as errors; the driver's own lines on stderr would
	// only double them.
	c.Logger = &mysql.NopLogger{}
	switch t.tls {
	case "", "false":
	case "true":
		c.TLS = &tls.Config{ServerName: t.host, MinVersion: tls.VersionTLS12}
	default:
		c.TLSConfig = t.tls
	}
	return c, nil
}

// sessionConnector sets each new connection's session before the pool uses it.
// The isolation level is set by statement because its variable has different
// names on MySQL 8 and on MariaDB before 11.1.
type sessionConnector struct {
	driver.Connector
	statements []string
	together   bool
}

// Connect implements driver.Connector.
func (c sessionConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	ex, ok := conn.(driver.ExecerContext)
	if !ok {
		_ = conn.Close()
		return nil, errors.New("the driver's connection takes no statements")
	}
	for _, s := range c.statements {
		if _, err := ex.ExecContext(ctx, s, nil); err != nil {
			_ = conn.Close()
			return nil, err
		}
	}
	if !c.together {
		return conn, nil
	}
	full, ok := conn.(serverConn)
	if !ok {
		_ = conn.Close()
		return nil, errors.New("the driver's connection lacks what a pool needs")
	}
	return &togetherConn{serverConn: full}, nil
}

func openMySQL(ctx context.Context, t target, o Options) (*DB, error) {
	cfg, err := mysqlConfig(t, o)
	if err != nil {
		return nil, openError(t, err)
	}
	cfg.MultiStatements = o.Together
	base, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, openError(t, err)
	}
	pool := sqlx.NewDb(sql.OpenDB(sessionConnector{base, []string{
		// A server may be told to pass over what its clients say of their characters.
		// Values are written into texts as UTF-8: another set may read their quotes otherwise.
		"SET NAMES utf8mb4 COLLATE utf8mb4_bin",
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
		fmt.Sprintf("SET SESSION autocommit = 1, innodb_lock_wait_timeout = %d, time_zone = '+00:00',"+
			// What stands in such a comment is for MariaDB alone.
			" sql_mode = CONCAT(@@sql_mode, ',STRICT_TRANS_TABLES') /*M!100300 , idle_transaction_timeout = %d */",
			int(o.LockWait/time.Second), int(o.IdleTransaction/time.Second)),
	}, o.Together}), "mysql")
	pool.SetMaxOpenConns(o.MaxConns)
	pool.SetMaxIdleConns(o.MaxConns)
	pool.SetConnMaxIdleTime(5 * time.Minute)
	pool.SetConnMaxLifetime(time.Hour)
	var version string
	ask := "SELECT VERSION()"
	if o.Together {
		ask = "DO 0; " + ask
	}
	if err := pool.GetContext(ctx, &version, ask); err != nil {
		_ = pool.Close()
		if class := ClassOf(err); o.Together && (class == ClassProgram || class == ClassUnknown) {
			o.Together = false // something on the way takes one statement at a time
			return openMySQL(ctx, t, o)
		}
		return nil, openError(t, err)
	}
	d := &DB{name: t.String(), schema: t.database, write: pool, read: pool, together: o.Together, o: o}
	d.kind, d.version = parseVersion(version)
	d.caps = capsOf(d.kind, d.version)
	return d, nil
}

// RequireSkipLocked refuses servers that are too old to be a state database.
func (d *DB) RequireSkipLocked() error {
	if d.kind == SQLite || d.caps.SkipLocked {
		return nil
	}
	return &dag.Error{
		Code: dag.ErrInvalid, Op: "open " + d.name, Hint: "use MySQL 8.0.1 or newer, or MariaDB 10.6 or newer",
		Err: fmt.Errorf("%s %s cannot skip locked rows", d.kind, d.version),
	}
}

// Cluster tells whether the server is one of several that all take writes: a node
// of a Galera cluster, or a member of a MySQL group with more than one primary.
// Transactions on the others do not wait for its locks, and one of two that write
// a row is undone at its COMMIT.
func (d *DB) Cluster(ctx context.Context) (bool, error) {
	if d.kind == SQLite {
		return false, nil
	}
	for _, ask := range []struct{ text, single string }{
		{"SHOW GLOBAL STATUS LIKE 'wsrep_cluster_size'", "0"},
		{"SHOW GLOBAL VARIABLES LIKE 'group_replication_single_primary_mode'", "ON"},
	} {
		var found []struct {
			Name  string `db:"Variable_name"`
			Value string `db:"Value"`
		}
		if err := d.read.SelectContext(ctx, &found, ask.text); err != nil {
			return false, fmt.Errorf("ask %s whether it is a cluster: %w", d.name, err)
		}
		if len(found) > 0 && found[0].Value != ask.single {
			return true, nil
		}
	}
	return false, nil
}
