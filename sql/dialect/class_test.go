package dialect

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

func TestClassTables(t *testing.T) {
	t.Parallel()
	for class, numbers := range map[Class][]uint16{
		ClassDuplicate: {1062}, ClassData: {1406, 1264, 1265, 1292, 1366, 1048, 1364, 4025, 3819, 3140, 1153}, ClassForeignKey: {1451, 1452},
		ClassRetryable: {1205, 1213, 1020}, ClassBusy: {3572, 1040, 1226}, ClassLost: {1053, 2006, 2013, 1927}, ClassTimeout: {1969, 3024},
		ClassCancelled: {1317}, ClassConfig: {1044, 1045, 1049, 1142, 3948}, ClassReadOnly: {1290, 1836}, ClassDiskFull: {1114, 1021},
		ClassProgram: {1054, 1146, 1064, 1136, 1792}, ClassUnknown: {9999},
	} {
		for _, n := range numbers {
			err := fmt.Errorf("x: %w", &mysql.MySQLError{Number: n})
			require.Equal(t, class, ClassOf(err), "%d", n)
			got, ok := Number(err)
			require.True(t, ok)
			require.Equal(t, int(n), got)
		}
	}
	for code, class := range map[int]Class{
		5: ClassBusy, 517: ClassBusy, 261: ClassBusy, 6: ClassBusy, 13: ClassDiskFull, 8: ClassReadOnly, 1032: ClassReadOnly, 11: ClassCorrupt,
		26: ClassCorrupt, 14: ClassConfig, 10: ClassUnavailable, 9: ClassCancelled, 1: ClassProgram, 19: ClassData, 275: ClassData, 1299: ClassData,
		2067: ClassDuplicate, 1555: ClassDuplicate, 787: ClassForeignKey, 4874: ClassDiskFull, 4618: ClassUnavailable, 17: ClassRetryable, 99: ClassUnknown,
	} {
		require.Equal(t, class, sqliteClass(code), "%d", code)
	}
	for class, errs := range map[Class][]error{
		ClassCancelled: {context.Canceled, context.DeadlineExceeded, sql.ErrTxDone},
		ClassLost: {
			mysql.ErrInvalidConn, driver.ErrBadConn, sql.ErrConnDone, io.ErrUnexpectedEOF, &CommitLostError{Err: io.EOF},
			&net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.EPIPE)},
		},
		ClassUnavailable: {
			&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, &net.DNSError{Name: "nowhere"},
		},
		ClassData: {mysql.ErrPktTooLarge},
	} {
		for _, err := range errs {
			require.Equal(t, class, ClassOf(fmt.Errorf("x: %w", err)), "%v", err)
		}
	}
}

func TestOddFileNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a b.db", "50%.db", "ünï#.db", "what%3F.db"} {
		path := filepath.Join(t.TempDir(), name)
		db, err := OpenConnection(t.Context(), connectionTo(path), Options{Create: true})
		require.NoError(t, err, name)
		_, err = db.Writer().ExecContext(t.Context(), "CREATE TABLE x (id INTEGER)")
		require.NoError(t, err)
		require.NoError(t, db.Close())
		require.FileExists(t, path)
	}
}

func connectionTo(path string) dag.Connection {
	return dag.Connection{ID: "c", Type: "sqlite", Host: path}
}
