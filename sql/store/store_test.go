package store_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/airlock-dag/airlock/sql/sqltest"
	"github.com/airlock-dag/airlock/sql/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSQLite(t *testing.T) {
	t.Parallel()
	storetest.Run(t, sqltest.SQLite)
}

func TestServer(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(tb testing.TB) string { return sqltest.Servers(tb)[0].DSN })
}
