package dialect

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/go-sql-driver/mysql"
	"modernc.org/sqlite"
)

// Class says what a database error means for the one who sees it.
type Class string

// Classes of database errors.
const (
	// ClassNone is the class of nil.
	ClassNone Class = ""
	// ClassDuplicate: a unique key exists already. The transaction is open.
	ClassDuplicate Class = "duplicate"
	// ClassData: a value that the table refuses (too long, no date, NULL, CHECK).
	// The transaction is open; it is the only class, with the two beside it,
	// that a batch may handle inside a transaction.
	ClassData Class = "data"
	// ClassForeignKey: no parent, or the parent is in use.
	ClassForeignKey Class = "foreign_key"
	// ClassRetryable: the whole transaction is to be run again (deadlock, lock
	// wait, changed snapshot). After a lock wait the transaction is still open
	// and holds half of its work: it must be rolled back by its owner.
	ClassRetryable Class = "retryable"
	// ClassBusy: too many connections, a file locked: run it again a little later.
	ClassBusy Class = "busy"
	// ClassLost: the connection broke. In a transaction before COMMIT nothing was
	// kept; outside one, or in COMMIT, nobody knows.
	ClassLost Class = "lost"
	// ClassUnavailable: no connection could be made, or the storage fails.
	ClassUnavailable Class = "unavailable"
	// ClassTimeout: the server's own limit for a statement passed.
	ClassTimeout Class = "timeout"
	// ClassCancelled: our context ended, or somebody killed the query.
	ClassCancelled Class = "cancelled"
	// ClassConfig: wrong user, password, right, database or file.
	ClassConfig Class = "configuration"
	// ClassProgram: unknown column or table, syntax: never right by trying again.
	ClassProgram Class = "program"
	// ClassReadOnly: the server or file takes no writes (a fail-over).
	ClassReadOnly Class = "read_only"
	// ClassDiskFull: no room.
	ClassDiskFull Class = "disk_full"
	// ClassCorrupt: the file is damaged or no database.
	ClassCorrupt Class = "corrupt"
	// ClassUnknown is everything else.
	ClassUnknown Class = "unknown"
)

// ClassOf classifies an error from a driver, however it is wrapped.
func ClassOf(err error) Class {
	if err == nil {
		return ClassNone
	}
	var lost *CommitLostError
	if errors.As(err, &lost) {
		return ClassLost
	}
	var my *mysql.MySQLError
	if errors.As(err, &my) {
		return mysqlClass(my.Number)
	}
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		return sqliteClass(lite.Code())
	}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, sql.ErrTxDone):
		return ClassCancelled
	case errors.Is(err, mysql.ErrPktTooLarge):
		return ClassData
	case errors.Is(err, mysql.ErrInvalidConn), errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone):
		return ClassLost
	}
	return netClass(err)
}

// netClass classifies what comes from the socket: a failed dial means that
// nothing was sent, anything later that something may have been.
func netClass(err error) Class {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return ClassUnavailable
	}
	var op *net.OpError
	if errors.As(err, &op) {
		if op.Op == "dial" {
			return ClassUnavailable
		}
		return ClassLost
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		return ClassUnavailable
	case errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return ClassLost
	default:
		return ClassUnknown
	}
}

// Number is the server's own error number: MySQL's, MariaDB's or SQLite's
// extended result code. ok is false for errors that carry none.
func Number(err error) (n int, ok bool) {
	var my *mysql.MySQLError
	if errors.As(err, &my) {
		return int(my.Number), true
	}
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		return lite.Code(), true
	}
	return 0, false
}

// mysqlClass is the table of MySQL's and MariaDB's numbers.
func mysqlClass(n uint16) Class {
	switch n {
	case 1062, 1022, 1169, 1586, 1761, 1762:
		return ClassDuplicate
	case 1406, 1264, 1265, 1292, 1366, 1048, 1364, 4025, 3819, // length, range, date, number, NULL, CHECK
		1138, 1263, 1300, 1365, 1411, 1426, 1441, 1525, 1690, 4078, // NULL, bad UTF-8, division, functions
		3140, 3141, 3143, 3144, 3146, 3147, 3149, 3150, 3156, 3157, 3158, // JSON
		1105, 1118, 1153, 1301: // over max_allowed_packet or the row's size
		return ClassData
	case 1216, 1217, 1451, 1452:
		return ClassForeignKey
	case 1205, 1213, 1020, 1206, 1412, 1613, 1614, 1615, 1689, 3101:
		return ClassRetryable
	case 3572, 1040, 1203, 1226, 1041:
		return ClassBusy
	case 1053, 1079, 1080, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 2006, 2013, 4031:
		return ClassLost
	case 1129, 1037, 1038, 1135, 1030:
		return ClassUnavailable
	case 1969, 3024:
		return ClassTimeout
	case 1317:
		return ClassCancelled
	case 1044, 1045, 1049, 1130, 1142, 1143, 1148, 1227, 1251, 1370, 1524, 1698, 1820, 1862, 3118, 3159, 3948, 4166:
		return ClassConfig
	case 1290, 1836, 3100, 3750:
		return ClassReadOnly
	case 1021, 1114:
		return ClassDiskFull
	case 1034, 1035, 1194, 1195, 1712, 1815:
		return ClassCorrupt
	case 1007, 1008, 1046, 1050, 1051, 1052, 1054, 1055, 1056, 1060, 1061, 1064, 1068, 1072, 1091, 1093, 1101, 1103,
		1109, 1111, 1115, 1136, 1140, 1146, 1149, 1166, 1210, 1222, 1235, 1241, 1242, 1247, 1248, 1273, 1305, 1318, 1347, 1792:
		return ClassProgram
	default:
		return ClassUnknown
	}
}

// Why adds what an error's own text leaves out: what SQLite's input and output
// errors mean. It is empty for errors that say enough.
func Why(err error) string {
	var lite *sqlite.Error
	if errors.As(err, &lite) && lite.Code()&0xff == 10 {
		return "the file cannot be read or written: the disk fails, or a quota or a limit on the size of files is reached"
	}
	return ""
}

// sqliteClass is the table of SQLite's result codes: first the extended ones
// that matter, then the primary code, which is the low byte.
func sqliteClass(code int) Class {
	switch code {
	case 1555, 2067, 2579: // PRIMARYKEY, UNIQUE, ROWID
		return ClassDuplicate
	case 787: // FOREIGNKEY
		return ClassForeignKey
	case 4874: // IOERR_SHMSIZE: the WAL's index has no room, which is how a full disk shows when a file is opened
		return ClassDiskFull
	}
	switch code & 0xff {
	case 19, 18, 20: // CONSTRAINT (CHECK, NOT NULL, data type, trigger), TOOBIG, MISMATCH
		return ClassData
	case 5, 6, 15: // BUSY, LOCKED, PROTOCOL
		return ClassBusy
	case 17: // SCHEMA
		return ClassRetryable
	case 9, 4: // INTERRUPT, ABORT
		return ClassCancelled
	case 8: // READONLY
		return ClassReadOnly
	case 13: // FULL
		return ClassDiskFull
	case 11, 26: // CORRUPT, NOTADB
		return ClassCorrupt
	case 3, 14, 23: // PERM, CANTOPEN, AUTH
		return ClassConfig
	case 7, 10, 22: // NOMEM, IOERR, NOLFS
		return ClassUnavailable
	case 1, 12, 21, 25: // ERROR, NOTFOUND, MISUSE, RANGE
		return ClassProgram
	default:
		return ClassUnknown
	}
}
