package dialect

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"
)

// LocalRows are rows on their way into a table by LOAD DATA LOCAL, in the form
// that LoadLocal's statement names. The zero value is empty.
type LocalRows struct{ buf bytes.Buffer }

// Reset forgets the rows and keeps the memory.
func (r *LocalRows) Reset() { r.buf.Reset() }

// Len is the size in bytes.
func (r *LocalRows) Len() int { return r.buf.Len() }

// Null adds a null.
func (r *LocalRows) Null() { r.buf.WriteString(`\N`) }

// Text adds a value as the server reads texts: numbers and times in digits.
func (r *LocalRows) Text(s string) {
	if strings.ContainsAny(s, "\\\t\n\x00") {
		for i := range len(s) {
			switch c := s[i]; c {
			case '\\', '\t', '\n':
				r.buf.WriteByte('\\')
				r.buf.WriteByte(c)
			case 0:
				r.buf.WriteString(`\0`)
			default:
				r.buf.WriteByte(c)
			}
		}
		return
	}
	r.buf.WriteString(s)
}

// Next ends a value.
func (r *LocalRows) Next() { r.buf.WriteByte('\t') }

// End ends a row.
func (r *LocalRows) End() { r.buf.WriteByte('\n') }

// LocalAllowed tells whether the server of a connection takes LOAD DATA LOCAL.
func (d *DB) LocalAllowed(ctx context.Context, conn *sqlx.Conn) bool {
	if d.kind == SQLite {
		return false
	}
	var on bool
	return conn.QueryRowxContext(ctx, "SELECT @@local_infile").Scan(&on) == nil && on
}

// LoadLocal loads rows into columns of a table and gives how many the server
// took and how many warnings it had. LOCAL bends values that do not fit instead
// of refusing them, so with a warning, or with fewer rows, nothing of it is to
// be relied on.
func (d *DB) LoadLocal(ctx context.Context, conn *sqlx.Conn, table string, columns []string, rows *LocalRows) (taken, warnings int64, err error) {
	// The driver keeps readers by name for the whole process; the rows' address is
	// theirs alone as long as they live.
	name := fmt.Sprintf("airlock-%p", rows)
	mysql.RegisterReaderHandler(name, func() io.Reader { return bytes.NewReader(rows.buf.Bytes()) })
	defer mysql.DeregisterReaderHandler(name)
	// The escapes are written as numbers: NO_BACKSLASH_ESCAPES changes what a
	// backslash in a statement means.
	r, err := conn.ExecContext(ctx, "LOAD DATA LOCAL INFILE 'Reader::"+name+"' INTO TABLE "+table+
		" CHARACTER SET utf8mb4 FIELDS TERMINATED BY 0x09 ESCAPED BY 0x5C LINES TERMINATED BY 0x0A ("+QuoteAll(columns)+")")
	if err != nil {
		return 0, 0, err
	}
	if taken, err = r.RowsAffected(); err != nil {
		return 0, 0, err
	}
	var n sql.NullInt64
	if err := conn.QueryRowxContext(ctx, "SELECT @@warning_count").Scan(&n); err != nil {
		return 0, 0, err
	}
	return taken, n.Int64, nil
}
