package dialect

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/airlock-dag/airlock/dag"
)

// target is a database's address, taken apart. Only open.go puts the password
// to use; no error text is made from it.
type target struct {
	kind     Kind // MySQL stands for MariaDB too until the server has answered
	path     string
	host     string
	port     int
	socket   string
	user     string
	password string
	database string
	tls      string
}

// Example DSNs, shown in hints.
const dsnHint = "use sqlite:///relative/path, sqlite:////absolute/path or mysql://user:password@host:3306/database"

func dsnError(format string, args ...any) error {
	return &dag.Error{Code: dag.ErrInvalid, Op: "database address", Hint: dsnHint, Err: fmt.Errorf(format, args...)}
}

// parseDSN takes an address apart. Errors name the faulty part, never the whole
// text: it may hold a password.
func parseDSN(dsn string) (target, error) {
	scheme, rest, ok := strings.Cut(dsn, "://")
	if !ok {
		if strings.TrimSpace(dsn) == "" {
			return target{}, dsnError("it is empty")
		}
		return target{}, dsnError("it has no scheme (the part before ://)")
	}
	// SQLAlchemy's "mysql+pymysql://" is what people copy from Airflow.
	scheme, _, _ = strings.Cut(strings.ToLower(scheme), "+")
	switch scheme {
	case "sqlite":
		return parseSQLite(rest)
	case "mysql", "mariadb":
		return parseMySQL(rest)
	default:
		return target{}, dsnError("scheme %q is not known", scheme)
	}
}

func parseSQLite(rest string) (target, error) {
	path, query, _ := strings.Cut(rest, "?")
	if query != "" {
		return target{}, dsnError("a sqlite address takes no parameters, found %q", query)
	}
	path, ok := strings.CutPrefix(path, "/")
	if !ok {
		return target{}, dsnError("sqlite:// needs a third slash before the path, found %q", rest)
	}
	return sqliteTarget(path)
}

func sqliteTarget(path string) (target, error) {
	if path == "" {
		return target{}, dsnError("the path of the sqlite file is missing")
	}
	if path == ":memory:" || strings.HasPrefix(path, "file:") {
		return target{}, dsnError("%q is not a file: every connection would see a database of its own", path)
	}
	if strings.ContainsRune(path, 0) {
		return target{}, dsnError("the path of the sqlite file holds a NUL character")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return target{}, dsnError("path %q: %w", path, err)
	}
	return target{kind: SQLite, path: abs}, nil
}

func parseMySQL(rest string) (target, error) {
	t := target{kind: MySQL, host: "127.0.0.1", port: 3306}
	body, query, _ := strings.Cut(rest, "?")
	// The last @ ends the login, so that a password may hold an @.
	if at := strings.LastIndex(body, "@"); at >= 0 {
		user, password, _ := strings.Cut(body[:at], ":")
		t.user, t.password = unescape(user), unescape(password)
		body = body[at+1:]
	}
	hostport, database, _ := strings.Cut(body, "/")
	t.database = unescape(strings.TrimSuffix(database, "/"))
	if hostport != "" {
		host, port, err := splitHostPort(hostport)
		if err != nil {
			return target{}, err
		}
		t.host, t.port = host, port
	}
	params, err := url.ParseQuery(query)
	if err != nil {
		return target{}, dsnError("the parameters after ? cannot be read")
	}
	for k, v := range params {
		switch k {
		case "unix_socket", "socket":
			t.socket = v[len(v)-1]
		case "tls", "ssl":
			t.tls = v[len(v)-1]
		case "charset":
			// Always utf8mb4; the parameter is common in copied addresses.
		default:
			return target{}, dsnError("parameter %q is not known; known are unix_socket, tls, charset", k)
		}
	}
	return t.checked()
}

func (t target) checked() (target, error) {
	if t.user == "" {
		return target{}, dsnError("the user is missing")
	}
	switch t.tls {
	case "", "true", "false", "skip-verify", "preferred":
		return t, nil
	default:
		return target{}, dsnError("tls %q is not known; known are true, false, skip-verify, preferred", t.tls)
	}
}

func splitHostPort(s string) (string, int, error) {
	host, portText := s, ""
	switch {
	case strings.HasPrefix(s, "["):
		h, p, err := net.SplitHostPort(s)
		if err != nil {
			h, p = strings.Trim(s, "[]"), ""
		}
		host, portText = h, p
	case strings.Contains(s, ":"):
		host, portText, _ = strings.Cut(s, ":")
	}
	port := 3306
	if portText != "" {
		n, err := strconv.Atoi(portText)
		if err != nil || n < 1 || n > 65535 {
			// Not echoed: in "mysql://user:pass/word" the "port" is the password.
			return "", 0, dsnError("the port is not a number from 1 to 65535 (a / or @ in the password is written %%2F or %%40)")
		}
		port = n
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return host, port, nil
}

// unescape undoes percent signs; a text with a stray % stays as it is.
func unescape(s string) string {
	if u, err := url.PathUnescape(s); err == nil {
		return u
	}
	return s
}

// Speaks tells whether a connection of this type is to a database that
// OpenConnection opens.
func Speaks(connType string) bool {
	switch strings.ToLower(connType) {
	case "sqlite", "mysql", "mariadb":
		return true
	default:
		return false
	}
}

// fromConnection reads a stored connection: types mysql, mariadb and sqlite.
// Extra knows unix_socket and tls; a sqlite connection's path is its host (as
// in Airflow) or else its schema.
func fromConnection(c dag.Connection) (target, error) {
	op := "connection " + c.ID
	fail := func(format string, args ...any) (target, error) {
		return target{}, &dag.Error{Code: dag.ErrInvalid, Op: op, Hint: "change it with `airlock connections set`", Err: fmt.Errorf(format, args...)}
	}
	switch strings.ToLower(c.Type) {
	case "sqlite":
		path := c.Host
		if path == "" {
			path = c.Schema
		}
		t, err := sqliteTarget(path)
		if err != nil {
			return fail("the path of the sqlite file (host) is missing or no file")
		}
		return t, nil
	case "mysql", "mariadb":
	default:
		return fail("type %q is no database that SQL steps know; known are mysql, mariadb, sqlite", c.Type)
	}
	t := target{kind: MySQL, host: c.Host, port: c.Port, user: c.Login, password: c.Password, database: c.Schema}
	if t.host == "" {
		t.host = "127.0.0.1"
	}
	if t.port == 0 {
		t.port = 3306
	}
	t.socket, _ = c.Extra["unix_socket"].(string)
	switch v := c.Extra["tls"].(type) {
	case string:
		t.tls = v
	case bool:
		t.tls = strconv.FormatBool(v)
	}
	if t.user == "" {
		return fail("the login is missing")
	}
	if _, err := t.checked(); err != nil {
		return fail("tls %q is not known; known are true, false, skip-verify, preferred", t.tls)
	}
	return t, nil
}

// String is the address for people, without the password.
func (t target) String() string {
	if t.kind == SQLite {
		return "sqlite:///" + t.path
	}
	where := net.JoinHostPort(t.host, strconv.Itoa(t.port))
	if t.socket != "" {
		where = t.socket
	}
	return "mysql://" + t.user + "@" + where + "/" + t.database
}
