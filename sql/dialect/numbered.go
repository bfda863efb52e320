package dialect

import (
	"fmt"
	"math"

	"github.com/airlock-dag/airlock/dag"
)

// ClassOfNumber classifies a server's own error number by the tables that
// ClassOf uses, for those who have the number alone.
func ClassOfNumber(k Kind, n int) Class {
	switch {
	case k == SQLite:
		return sqliteClass(n)
	case n < 0 || n > math.MaxUint16:
		return ClassUnknown
	default:
		return mysqlClass(uint16(n))
	}
}

// NumberedTaskError is what a step reports when a server's error has number n.
func NumberedTaskError(k Kind, n int) *dag.TaskError {
	code := fmt.Sprintf("MYSQL_%d", n)
	if k == SQLite {
		code = fmt.Sprintf("SQLITE_%d", n)
	}
	class, hint := taskClass(ClassOfNumber(k, n))
	return &dag.TaskError{Class: class, Code: code, Message: fmt.Sprintf("%s error %d", k, n), Hint: hint}
}
