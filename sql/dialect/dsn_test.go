package dialect

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

func TestParseDSN(t *testing.T) {
	t.Parallel()
	rel, err := filepath.Abs("data/airlock.db")
	require.NoError(t, err)
	for _, c := range []struct {
		dsn  string
		want target
	}{
		{"sqlite:///data/airlock.db", target{kind: SQLite, path: rel}},
		{"sqlite:////var/lib/airlock.db", target{kind: SQLite, path: "/var/lib/airlock.db"}},
		{"mysql://u:p@db:3307/state", target{kind: MySQL, host: "db", port: 3307, user: "u", password: "p", database: "state"}},
		{"mariadb://u@db", target{kind: MySQL, host: "db", port: 3306, user: "u"}},
		{"mysql+pymysql://u:p@db/state?charset=utf8mb4", target{kind: MySQL, host: "db", port: 3306, user: "u", password: "p", database: "state"}},
		{"mysql://u:p%40ss%2Fw@db/state", target{kind: MySQL, host: "db", port: 3306, user: "u", password: "p@ss/w", database: "state"}},
		{"mysql://u:p@ss@db/state", target{kind: MySQL, host: "db", port: 3306, user: "u", password: "p@ss", database: "state"}},
		{"mysql://u:50%@db/state", target{kind: MySQL, host: "db", port: 3306, user: "u", password: "50%", database: "state"}},
		{"mysql://u@/state?unix_socket=/run/m.sock", target{kind: MySQL, host: "127.0.0.1", port: 3306, user: "u", database: "state", socket: "/run/m.sock"}},
		{"mysql://u@[::1]:3308/state?tls=true", target{kind: MySQL, host: "::1", port: 3308, user: "u", database: "state", tls: "true"}},
	} {
		got, err := parseDSN(c.dsn)
		require.NoError(t, err, c.dsn)
		require.Equal(t, c.want, got, c.dsn)
	}
}

func TestParseDSNErrorsNameTheFaultAndNotThePassword(t *testing.T) {
	t.Parallel()
	for dsn, says := range map[string]string{
		"":                            "empty",
		"airlock.db":                  "no scheme",
		"postgres://u:s3cret@h/d":     `"postgres"`,
		"sqlite://x.db":               "third slash",
		"sqlite:///":                  "missing",
		"sqlite:///:memory:":          "not a file",
		"sqlite:///x.db?mode=s3cret=": "no parameters",
		"mysql://h/d":                 "user is missing",
		"mysql://u:s3cret@h:99999/d":  "port",
		"mysql://u:s3cret@h:x/d":      "port",
		"mysql://u:p/s3cret@h/d?a=b":  `"a"`,
		"mysql://u:s3cret/h":          "port",
		"mysql://u:s3cret@h/d?tls=no": `"no"`,
		"mysql://u:s3cret@h/d?%zz":    "parameters",
	} {
		_, err := parseDSN(dsn)
		require.ErrorContains(t, err, says, dsn)
		require.Equal(t, dag.ErrInvalid, dag.CodeOf(err))
		if dsn != "sqlite:///x.db?mode=s3cret=" {
			require.NotContains(t, err.Error(), "s3cret", dsn)
		}
	}
	require.Equal(t, "mysql://u@h:3306/d", SafeDSN("mysql://u:s3cret@h/d"))
	require.NotContains(t, SafeDSN("u:s3cret@h"), "s3cret")
}

func TestFromConnection(t *testing.T) {
	t.Parallel()
	got, err := fromConnection(dag.Connection{ID: "c", Type: "mysql", Login: "u", Password: "p", Schema: "d", Extra: map[string]any{"unix_socket": "/s", "tls": true}})
	require.NoError(t, err)
	require.Equal(t, target{kind: MySQL, host: "127.0.0.1", port: 3306, user: "u", password: "p", database: "d", socket: "/s", tls: "true"}, got)
	got, err = fromConnection(dag.Connection{ID: "c", Type: "sqlite", Host: "/x.db"})
	require.NoError(t, err)
	require.Equal(t, target{kind: SQLite, path: "/x.db"}, got)
	for _, bad := range []dag.Connection{{ID: "cc", Type: "http"}, {ID: "cc", Type: "sqlite"}, {ID: "cc", Type: "mysql"}} {
		_, err := fromConnection(bad)
		require.ErrorContains(t, err, "connection cc")
		require.Equal(t, dag.ErrInvalid, dag.CodeOf(err))
	}
}

func FuzzParseDSN(f *testing.F) {
	f.Add("mysql://u:p@h:1/d?tls=true")
	f.Add("sqlite:////x")
	f.Fuzz(func(t *testing.T, dsn string) {
		if tg, err := parseDSN(dsn); err == nil {
			require.NotEmpty(t, tg.String())
		}
	})
}

func TestParseVersion(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]struct {
		k    Kind
		v    Version
		skip bool
	}{
		"10.11.19-MariaDB-0+deb12u1": {MariaDB, Version{10, 11, 19}, true},
		"5.5.5-10.5.1-MariaDB":       {MariaDB, Version{10, 5, 1}, false},
		"8.0.36":                     {MySQL, Version{8, 0, 36}, true},
		"5.7.44-log":                 {MySQL, Version{5, 7, 44}, false},
		"nonsense":                   {MySQL, Version{}, false},
	} {
		k, v := parseVersion(s)
		require.Equal(t, want.k, k, s)
		require.Equal(t, want.v, v, s)
		require.Equal(t, want.skip, capsOf(k, v).SkipLocked, s)
	}
}
