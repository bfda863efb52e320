package config_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/airlock-dag/airlock/cmd/config"
	"github.com/airlock-dag/airlock/dag"
)

func TestParseConnection(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want dag.Connection
	}{
		"uri": {
			"mysql://me:p%40ss@db:3307/shop?tls=true&charset=utf8mb4",
			dag.Connection{Type: "mysql", Host: "db", Port: 3307, Login: "me", Password: "p@ss", Schema: "shop", Extra: map[string]any{"tls": "true", "charset": "utf8mb4"}},
		},
		"absolute sqlite file": {"sqlite:////srv/w.db", dag.Connection{Type: "sqlite", Schema: "/srv/w.db"}},
		"relative sqlite file": {"sqlite:///w.db", dag.Connection{Type: "sqlite", Schema: "w.db"}},
		"type spelling":        {"google-cloud-platform://", dag.Connection{Type: "google_cloud_platform"}},
		"postgresql":           {"postgresql://h/db", dag.Connection{Type: "postgres", Host: "h", Schema: "db"}},
		"protocol in the host": {"http://https://api.example.org:8443/v1", dag.Connection{Type: "http", Host: "https://api.example.org", Port: 8443, Schema: "v1"}},
		"escaped host":         {"http://https%3A%2F%2Fapi.example.org%2Fv1", dag.Connection{Type: "http", Host: "https://api.example.org/v1"}},
		"ipv6":                 {"mysql://me@[::1]:3306/db", dag.Connection{Type: "mysql", Login: "me", Host: "::1", Port: 3306, Schema: "db"}},
		"at in the password":   {"mysql://me:p@ss@db/x", dag.Connection{Type: "mysql", Login: "me", Password: "p@ss", Host: "db", Schema: "x"}},
		"stray percent sign":   {"mysql://me:100%@db/x", dag.Connection{Type: "mysql", Login: "me", Password: "100%", Host: "db", Schema: "x"}},
		"uri with json extra": {
			`http://h?__extra__=%7B%22n%22%3A%201%7D`,
			dag.Connection{Type: "http", Host: "h", Extra: map[string]any{"n": 1.0}},
		},
		"json": {
			`{"conn_type": "MySQL", "host": "db", "port": "3306", "login": "me", "password": "s", "schema": "x", "extra": {"tls": true}}`,
			dag.Connection{Type: "mysql", Host: "db", Port: 3306, Login: "me", Password: "s", Schema: "x", Extra: map[string]any{"tls": true}},
		},
		"json with extra as text": {
			` {"conn_type": "http", "port": 80, "extra": "{\"a\": \"b\"}"}`,
			dag.Connection{Type: "http", Port: 80, Extra: map[string]any{"a": "b"}},
		},
		"json with nulls": {`{"conn_type": "http", "port": null, "extra": null, "host": null}`, dag.Connection{Type: "http"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.want.ID = "c"
			got, err := config.ParseConnection("c", tc.text)
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}

func TestParseConnectionErrorsHideTheText(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no scheme":     "hunter2",
		"empty":         "",
		"slash in it":   "mysql://me:hunter2/x@db/shop",
		"no json":       `{"password": "hunter2"`,
		"unknown key":   `{"conn_type": "mysql", "hunter2": 1}`,
		"no type":       `{"password": "hunter2"}`,
		"bad port":      `{"conn_type": "mysql", "port": "hunter2"}`,
		"bad extra":     `{"conn_type": "mysql", "extra": "hunter2"}`,
		"extra list":    `{"conn_type": "mysql", "extra": ["hunter2"]}`,
		"bad uri extra": "mysql://h?__extra__=hunter2",
		"bad query":     "mysql://h?a=%zzhunter2",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := config.ParseConnection("warehouse", text)
			require.Equal(t, dag.ErrInvalid, dag.CodeOf(err))
			require.ErrorContains(t, err, "warehouse")
			require.NotContains(t, err.Error(), "hunter2")
		})
	}
}

// A connection written as a URI reads back as itself.
func TestConnectionURIRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("aZ0-_.~ :/@?#%&=+[]é")), 0, 12, -1)
		c := dag.Connection{
			ID: "c", Type: rapid.SampledFrom([]string{"mysql", "sqlite", "http", "file"}).Draw(t, "type"),
			Host: rapid.StringMatching(`[a-z]([a-z0-9.-]{0,8}[a-z0-9])?|::1|https://[a-z]{1,5}`).Draw(t, "host"),
			Port: rapid.IntRange(0, 65535).Draw(t, "port"), Login: text.Draw(t, "login"), Password: text.Draw(t, "password"), Schema: text.Draw(t, "schema"),
		}
		if rapid.Bool().Draw(t, "with extra") {
			c.Extra = map[string]any{"k" + text.Draw(t, "key"): text.Draw(t, "value"), "n": rapid.SampledFrom([]any{"t", true, 1.5}).Draw(t, "n")}
		}
		uri, err := config.ConnectionURI(c)
		if err != nil {
			t.Fatal(err)
		}
		got, err := config.ParseConnection("c", uri)
		if err != nil {
			t.Fatalf("%s: %v", uri, err)
		}
		require.Equal(t, c, got, uri)
	})
}

func FuzzParseConnection(f *testing.F) {
	f.Add("mysql://me:p@h:1/s?a=b")
	f.Add(`{"conn_type": "x", "port": 1}`)
	f.Add("http://https://[::1")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := config.ParseConnection("c", text)
		if err == nil && (c.Port < 0 || c.Port > 65535 || c.Type == "") {
			t.Fatalf("%q gave %+v", text, c)
		}
	})
}

// stored is a state database with one connection and two variables.
type stored struct{}

func (stored) Connection(_ context.Context, id string) (dag.Connection, error) {
	return dag.Connection{ID: id, Type: "stored"}, nil
}

func (stored) Variables(context.Context) ([]dag.Variable, error) {
	return []dag.Variable{{Key: "Region", Value: "stored"}, {Key: "other", Value: "stored"}}, nil
}

func TestEnvironmentWinsOverTheStore(t *testing.T) {
	t.Parallel()
	e := config.NewEnvironment([]string{
		"AIRFLOW_CONN_WAREHOUSE=mysql://airflow/db", "AIRLOCK_CONN_WAREHOUSE=mysql://airlock/db", "AIRFLOW_CONN_FEED=http://h", "AIRLOCK_CONN_BAD=nonsense",
		"AIRFLOW_VAR_REGION=eu", "AIRLOCK_VAR_API_URL=http://x",
	})
	require.Equal(t, []string{"bad", "feed", "warehouse"}, e.ConnectionIDs())
	require.Equal(t, []string{"api_url", "region"}, e.VariableKeys())

	s := e.Over(stored{})
	c, err := s.Connection(t.Context(), "Warehouse")
	require.NoError(t, err)
	require.Equal(t, "airlock", c.Host, "Airlock's prefix wins")
	c, err = s.Connection(t.Context(), "elsewhere")
	require.NoError(t, err)
	require.Equal(t, "stored", c.Type)
	_, err = s.Connection(t.Context(), "bad")
	require.Equal(t, dag.ErrInvalid, dag.CodeOf(err))

	variables, err := s.Variables(t.Context())
	require.NoError(t, err)
	values := map[string]string{}
	for _, v := range variables {
		values[v.Key] = v.Value
	}
	require.Equal(t, map[string]string{
		"Region": "eu", "region": "eu", "REGION": "eu", "other": "stored", "api_url": "http://x", "API_URL": "http://x",
	}, values)
}
