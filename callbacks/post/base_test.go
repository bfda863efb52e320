package post_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/callbacks/post"
	"github.com/airlock-dag/airlock/dag"
)

func TestBase(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		conn dag.Connection
		want string
	}{
		{dag.Connection{}, "https://usual.example"},
		{dag.Connection{Port: 99}, "https://usual.example"},
		{dag.Connection{Host: "own.example"}, "https://own.example"},
		{dag.Connection{Host: "own.example", Schema: "http", Port: 8080}, "http://own.example:8080"},
		{dag.Connection{Host: "https://own.example/proxy/", Port: 8443}, "https://own.example:8443/proxy"},
		{dag.Connection{Host: "http://own.example:81", Port: 82}, "http://own.example:81"},
		{dag.Connection{Host: "http://[::1]", Port: 82}, "http://[::1]:82"},
	} {
		got, err := post.Base(c.conn, "https://usual.example")
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	_, err := post.Base(dag.Connection{Host: "ftp://secret@own.example"}, "")
	require.ErrorContains(t, err, "the connection's host is not an http:// or https:// URL")
	require.NotContains(t, err.Error(), "secret")
}
