package cli_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/cli"
)

func TestPools(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	require.Equal(t, []any{"default_pool", "replay_pool"}, column(h.list("pools", "list"), "name"))
	h.ok("pools", "set", "gpu", "2", "the two cards")
	require.Contains(t, h.ok("pools", "get", "gpu").stdout, "the two cards")
	require.InDelta(t, 2, h.list("pools", "get", "gpu")[0]["slots"], 0)
	h.fails(cli.ExitFailed, []string{"did you mean gpu?"}, "pools", "get", "gpus")

	h.ok("pools", "export", "pools.yaml")
	h.ok("pools", "delete", "gpu")
	h.fails(cli.ExitFailed, []string{"`airlock pools list` shows all"}, "pools", "delete", "gpu")
	h.fails(cli.ExitFailed, nil, "pools", "delete", "default_pool")
	h.fails(cli.ExitFailed, nil, "pools", "delete", "replay_pool")
	h.ok("pools", "import", "pools.yaml")
	require.InDelta(t, 2, h.list("pools", "get", "gpu")[0]["slots"], 0)
	h.write("wrong.json", `{"a": {"slots": 1}, "b": {"slots": "many"}}`)
	h.fails(cli.ExitUsage, []string{"pool b"}, "pools", "import", "wrong.json")
	require.Len(t, h.list("pools", "list"), 3, "a file with a mistake changes nothing")
}

func TestVariables(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	h.ok("variables", "set", "region", "eu", "--description", "where we are")
	h.ok("variables", "set", "api_token", "hunter2")
	require.Equal(t, "eu\n", h.ok("variables", "get", "region").stdout)
	require.NotContains(t, h.ok("variables", "list").stdout, "hunter2")
	require.Equal(t, "hunter2\n", h.ok("variables", "get", "api_token").stdout, "who asks for one by name gets it")
	require.Equal(t, "none\n", h.ok("variables", "get", "nothing", "-d", "none").stdout)
	h.fails(cli.ExitFailed, []string{"did you mean region?"}, "variables", "get", "regoin")

	h.stdin = "from the input\n"
	h.ok("variables", "set", "long", "-")
	require.Equal(t, "from the input\n", h.ok("variables", "get", "long").stdout)

	for _, file := range []string{"v.json", "v.yaml", "v.env"} {
		h.ok("variables", "export", file)
		h.ok("variables", "delete", "region")
		h.fails(cli.ExitFailed, nil, "variables", "delete", "region")
		h.ok("variables", "import", file)
		require.Equal(t, "eu\n", h.ok("variables", "get", "region").stdout, file)
		info, err := os.Stat(h.path(file))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "values may be secret")
	}
	h.write("typed.json", `{"limits": {"max": 3}, "n": 7}`)
	h.ok("variables", "import", "typed.json")
	require.JSONEq(t, `{"max": 3}`, h.ok("variables", "get", "limits").stdout)
	require.Equal(t, "7\n", h.ok("variables", "get", "n").stdout)

	h.env = append(h.env, "AIRFLOW_VAR_REGION=us")
	require.Equal(t, "us\n", h.ok("variables", "get", "region").stdout, "the environment wins")
	require.Contains(t, h.ok("variables", "set", "region", "asia").stderr, "steps see that one")
	for _, row := range h.list("variables", "list") {
		if row["key"] == "region" {
			require.Equal(t, "environment", row["source"])
		}
	}
}

func TestConnections(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	h.ok("connections", "add", "warehouse", "--conn-uri", "mysql://me:hunter2@db:3307/shop?tls=true&api_key=hunter2", "--conn-description", "the warehouse")
	got := h.list("connections", "get", "warehouse")[0]
	require.Equal(t, "mysql", got["conn_type"])
	require.Equal(t, "db", got["host"])
	require.InDelta(t, 3307, got["port"], 0)
	require.Equal(t, "***", got["password"])
	require.Equal(t, "the warehouse", got["description"])
	for _, out := range []string{h.ok("connections", "list").stdout, h.ok("connections", "list", "-o", "yaml").stdout, h.ok("connections", "get", "warehouse").stdout} {
		require.NotContains(t, out, "hunter2")
	}
	require.Equal(t, "hunter2", h.list("connections", "list", "--show-secrets")[0]["password"])
	h.fails(cli.ExitFailed, []string{"airlock connections set"}, "connections", "add", "warehouse", "--conn-type", "http")

	h.stdin = "s3cret\n"
	h.ok("connections", "set", "feed", "--conn-type", "http", "--conn-host", "https://feed.example.org", "--conn-password", "-", "--conn-extra", `{"n": 1}`)
	require.Equal(t, "s3cret", h.list("connections", "get", "feed", "--show-secrets")[0]["password"])

	for _, file := range []string{"c.json", "c.yaml", "c.env"} {
		before := h.ok("connections", "list", "--show-secrets", "-o", "json").stdout
		h.ok("connections", "export", file)
		h.ok("connections", "delete", "warehouse")
		h.ok("connections", "delete", "feed")
		h.fails(cli.ExitFailed, []string{"airlock connections list"}, "connections", "delete", "feed")
		h.ok("connections", "import", file)
		after := h.ok("connections", "list", "--show-secrets", "-o", "json").stdout
		if file == "c.env" { // a URI holds no description
			require.Contains(t, after, "hunter2")
			continue
		}
		require.JSONEq(t, before, after, file)
	}
	h.write("wrong.json", `{"good": "http://h", "bad": "hunter2"}`)
	h.fails(cli.ExitUsage, []string{"connection bad"}, "connections", "import", "wrong.json")
	h.fails(cli.ExitFailed, []string{"AIRLOCK_CONN_GOOD"}, "connections", "get", "good")

	h.env = append(h.env, "AIRLOCK_CONN_FEED=http://elsewhere", "AIRFLOW_CONN_BAD=nonsense")
	require.Equal(t, "elsewhere", h.list("connections", "get", "feed")[0]["host"])
	r := h.ok("connections", "list")
	require.Contains(t, r.stdout, "elsewhere")
	require.Contains(t, r.stderr, "connection bad")
}
