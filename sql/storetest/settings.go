package storetest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/store"
)

func testSettings(t *testing.T, b *bundle) {
	ctx := t.Context()
	// Pools.
	require.Equal(t, dag.ErrConflict, dag.CodeOf(b.s.DeletePool(ctx, dag.DefaultPool)))
	require.Equal(t, dag.ErrNotFound, dag.CodeOf(b.s.DeletePool(ctx, "nope")))
	require.Equal(t, dag.ErrInvalid, dag.CodeOf(b.s.SetPool(ctx, dag.Pool{Name: "", Slots: 1})))
	require.Equal(t, dag.ErrInvalid, dag.CodeOf(b.s.SetPool(ctx, dag.Pool{Name: "p", Slots: -2})))
	for _, slots := range []int{4, 0} {
		require.NoError(t, b.s.SetPool(ctx, dag.Pool{Name: "p", Slots: slots, Description: "d", IncludeDeferred: true}))
	}
	pools, err := b.s.Pools(ctx)
	require.NoError(t, err)
	require.Equal(t, dag.Pool{Name: "p", Description: "d", IncludeDeferred: true}, pools[1])
	require.NoError(t, b.s.DeletePool(ctx, "p"))

	// Variables: names differ by case.
	for _, v := range []dag.Variable{{Key: "k", Value: "1"}, {Key: "K", Value: "2"}, {Key: "k", Value: "ünï\n", Description: "d"}} {
		require.NoError(t, b.s.SetVariable(ctx, v))
	}
	vars, err := b.s.Variables(ctx)
	require.NoError(t, err)
	require.Equal(t, []dag.Variable{{Key: "K", Value: "2"}, {Key: "k", Value: "ünï\n", Description: "d"}}, vars)
	one, err := b.s.Variable(ctx, "K")
	require.NoError(t, err)
	require.Equal(t, "2", one.Value)
	require.NoError(t, b.s.DeleteVariable(ctx, "K"))
	_, err = b.s.Variable(ctx, "K")
	require.Equal(t, dag.ErrNotFound, dag.CodeOf(err))
	require.Equal(t, dag.ErrInvalid, dag.CodeOf(b.s.SetVariable(ctx, dag.Variable{Key: strings.Repeat("x", 251)})))

	// Connections: secrets are stored encrypted.
	c := dag.Connection{
		ID: "db", Type: "mysql", Description: "d", Host: "h", Port: 3306, Login: "u", Password: "s3cret", Schema: "x",
		Extra: map[string]any{"unix_socket": "/s3cret/x"},
	}
	require.NoError(t, b.s.SetConnection(ctx, c))
	got, err := b.s.Connection(ctx, "db")
	require.NoError(t, err)
	require.Equal(t, c, got)
	var row string
	require.NoError(t, b.s.DB().Reader().GetContext(ctx, &row, "SELECT CONCAT(connection_id, conn_type, host, login, password, schema_name, extra) FROM connection"))
	require.NotContains(t, row, "s3cret")
	plain := dag.Connection{ID: "web", Type: "http", Host: "x"}
	require.NoError(t, b.s.SetConnection(ctx, plain))
	list, err := b.s.Connections(ctx)
	require.NoError(t, err)
	require.Equal(t, []dag.Connection{c, plain}, list)
	for _, bad := range []dag.Connection{{Type: "x"}, {ID: "x"}, {ID: "x", Type: "x", Port: 70000}} {
		require.Equal(t, dag.ErrInvalid, dag.CodeOf(b.s.SetConnection(ctx, bad)))
	}

	// Another key, or none: refused with a hint, for what has a secret.
	for _, key := range []string{"", "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="} {
		other, err := store.Open(ctx, b.dsn, store.Options{FernetKey: key})
		require.NoError(t, err)
		_, err = other.Connection(ctx, "db")
		require.Equal(t, dag.ErrInvalid, dag.CodeOf(err))
		require.ErrorContains(t, err, "fernet_key")
		_, err = other.Connection(ctx, "web")
		require.NoError(t, err)
		if key == "" {
			require.Equal(t, dag.ErrInvalid, dag.CodeOf(other.SetConnection(ctx, c)))
		}
		require.NoError(t, other.Close())
	}
	// A rotation: the new key first, the old one still reads.
	rotated, err := store.Open(ctx, b.dsn, store.Options{FernetKey: "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=," + testKey})
	require.NoError(t, err)
	got, err = rotated.Connection(ctx, "db")
	require.NoError(t, err)
	require.Equal(t, "s3cret", got.Password)
	require.NoError(t, rotated.Close())
	require.NoError(t, b.s.DeleteConnection(ctx, "db"))
	_, err = b.s.Connection(ctx, "db")
	require.Equal(t, dag.ErrNotFound, dag.CodeOf(err))
	_, err = store.Open(ctx, b.dsn, store.Options{FernetKey: "short"})
	require.Equal(t, dag.ErrInvalid, dag.CodeOf(err))

	require.NoError(t, b.s.WriteAudit(ctx, dag.AuditEntry{Actor: "cli:ann", Action: "variable.set", Subject: "k"}))
	log, err := b.s.Audit(ctx, dag.AuditFilter{Subject: "k"})
	require.NoError(t, err)
	require.Equal(t, []dag.AuditEntry{{ID: log[0].ID, At: start, Actor: "cli:ann", Action: "variable.set", Subject: "k"}}, log)
}
