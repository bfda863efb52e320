package dialect_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/sqltest"
)

func TestTaskErrorsOfRealErrors(t *testing.T) {
	t.Parallel()
	require.Nil(t, dialect.TaskError(nil))
	own := &dag.TaskError{Class: dag.ClassPoison, Code: "X"}
	require.Equal(t, own, dialect.TaskError(fmt.Errorf("wrapped: %w", own)))
	_, err := dialect.Open(t.Context(), "mysql://root:s3cret@127.0.0.1:1/x", dialect.Options{})
	e := dialect.TaskError(err)
	require.Equal(t, "CONNECTION_REFUSED", e.Code)
	require.Equal(t, dag.ClassTransient, e.Class)
	require.NotContains(t, e.Message, "s3cret")
	_, err = dialect.Open(t.Context(), "sqlite:////no/such/folder/x.db", dialect.Options{})
	e = dialect.TaskError(err)
	require.Equal(t, "CONNECTION_INVALID", e.Code)
	require.Equal(t, dag.ClassConfiguration, e.Class)
	for _, s := range sqltest.Servers(t) {
		_, err := sqltest.Raw(t, s.DSN).Exec("SELECT * FROM nowhere")
		e := dialect.TaskError(err)
		require.Equal(t, "MYSQL_1146", e.Code)
		require.Equal(t, dag.ClassPermanent, e.Class)
	}
	_, err = sqltest.Raw(t, sqltest.SQLite(t)).Exec("SELECT * FROM nowhere")
	e = dialect.TaskError(err)
	require.Equal(t, "SQLITE_1", e.Code)
	require.Equal(t, dag.ClassPermanent, e.Class)
}
