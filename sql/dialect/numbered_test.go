package dialect_test

import (
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

func TestNumberedTaskError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind  dialect.Kind
		n     int
		class dag.ErrorClass
		code  string
	}{
		{dialect.MySQL, 1213, dag.ClassTransient, "MYSQL_1213"},         // deadlock
		{dialect.MariaDB, 1062, dag.ClassPermanent, "MYSQL_1062"},       // duplicate key
		{dialect.MySQL, 1045, dag.ClassConfiguration, "MYSQL_1045"},     // access denied
		{dialect.MySQL, 1_000_000, dag.ClassTransient, "MYSQL_1000000"}, // no such number
		{dialect.SQLite, 5, dag.ClassTransient, "SQLITE_5"},             // busy
		{dialect.SQLite, 2067, dag.ClassPermanent, "SQLITE_2067"},       // UNIQUE
	} {
		got := dialect.NumberedTaskError(c.kind, c.n)
		require.Equal(t, c.class, got.Class, c.code)
		require.Equal(t, c.code, got.Code)
	}
	// The number alone says what the driver's error says.
	for n := range uint16(5000) {
		require.Equal(t, dialect.ClassOf(&mysql.MySQLError{Number: n}), dialect.ClassOfNumber(dialect.MySQL, int(n)))
	}
}
