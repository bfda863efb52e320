package dialect_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/sqltest"
)

// A lone server is no cluster, with or without the plugin of groups; a member of
// a group in which all take writes is.
func TestAMemberOfAGroupThatAllWriteIsACluster(t *testing.T) {
	t.Parallel()
	server := sqltest.StartMySQL(t)
	db := openWith(t, server.Fresh(t), dialect.Options{})
	clustered := func() bool {
		is, err := db.Cluster(context.Background())
		require.NoError(t, err)
		return is
	}
	require.False(t, clustered())
	sqltest.Exec(t, server.DSN(""), "INSTALL PLUGIN group_replication SONAME 'group_replication.so'")
	require.False(t, clustered(), "one primary")
	sqltest.Exec(t, server.DSN(""), "SET GLOBAL group_replication_single_primary_mode = OFF")
	require.True(t, clustered())
}

func TestALoneServerIsNoCluster(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		is, err := openWith(t, dsn, dialect.Options{Create: true}).Cluster(context.Background())
		require.NoError(t, err)
		require.False(t, is)
	})
}
