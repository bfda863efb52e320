package dialect

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/go-sql-driver/mysql"
	"modernc.org/sqlite"

	"github.com/airlock-dag/airlock/dag"
)

// TaskError is a database error as a step reports it. The code is MYSQL_n or
// SQLITE_n with the server's own number where there is one, else a word for
// what happened to the connection, else SQL_ERROR. An error that is a
// *dag.TaskError already stands for itself; nil gives nil.
func TaskError(err error) *dag.TaskError {
	if err == nil {
		return nil
	}
	var own *dag.TaskError
	if errors.As(err, &own) {
		e := *own
		return &e
	}
	class, hint := taskClass(ClassOf(err))
	e := &dag.TaskError{Class: class, Code: taskCode(err), Message: err.Error(), Hint: hint}
	var known *dag.Error
	if errors.As(err, &known) && known.Code == dag.ErrInvalid && class == dag.ClassTransient {
		// The address itself is at fault, not the server's state.
		e.Class, e.Code = dag.ClassConfiguration, "CONNECTION_INVALID"
	}
	return e
}

func taskCode(err error) string {
	var my *mysql.MySQLError
	if errors.As(err, &my) {
		return fmt.Sprintf("MYSQL_%d", my.Number)
	}
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		return fmt.Sprintf("SQLITE_%d", lite.Code())
	}
	switch ClassOf(err) {
	case ClassUnavailable:
		var dns *net.DNSError
		if errors.As(err, &dns) {
			return "DNS_ERROR"
		}
		return "CONNECTION_REFUSED"
	case ClassLost:
		return "CONNECTION_RESET"
	case ClassCancelled:
		if errors.Is(err, context.DeadlineExceeded) {
			return "NETWORK_TIMEOUT"
		}
		return "CANCELLED"
	default:
		return "SQL_ERROR"
	}
}

// taskClass says what a class of database errors means for a step.
func taskClass(c Class) (dag.ErrorClass, string) {
	switch c {
	case ClassDuplicate, ClassData:
		return dag.ClassPermanent, "the data do not fit the table; the same statement gives the same error"
	case ClassProgram:
		return dag.ClassPermanent, "correct the statement, or make the table or column that it names"
	case ClassCorrupt:
		return dag.ClassPermanent, "restore the database from a backup"
	case ClassConfig:
		return dag.ClassConfiguration, "check the connection's user, password, rights and database name"
	case ClassDiskFull:
		return dag.ClassTransient, "free space on the database's disk"
	case ClassReadOnly:
		return dag.ClassTransient, "the server takes no writes; is it a replica, or is a fail-over under way?"
	case ClassForeignKey:
		return dag.ClassTransient, "the parent row may arrive later; if it does not, load the tables in order"
	default:
		return dag.ClassTransient, ""
	}
}
