package merge

import (
	"context"
	"strings"

	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge/row"
)

// isRowFault tells whether the database refuses a row of a statement: the
// statement is undone, the transaction goes on.
func isRowFault(err error) bool {
	switch dialect.ClassOf(err) {
	case dialect.ClassData, dialect.ClassDuplicate, dialect.ClassForeignKey:
		return true
	default:
		n, _ := dialect.Number(err)
		return n == signalled
	}
}

// signalled is the number of MySQL's and MariaDB's errors that a trigger raises
// with SIGNAL.
const signalled = 1644

// bisect puts the good rows of a refused INSERT into the stage and finds the
// bad ones.
func (s *stager) bisect(ctx context.Context, args []any, origins []origin) error {
	width := systemCols + len(s.p.cols)
	n := len(args) / width
	if n > 1 {
		mid := n / 2 * width
		for _, half := range [][]any{args[:mid], args[mid:]} {
			_, err := s.conn.ExecContext(ctx, s.insertSQL(len(half)/width), half...)
			if isRowFault(err) {
				err = s.bisect(ctx, half, origins)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	_, err := s.conn.ExecContext(ctx, s.insertSQL(1), args...)
	if !isRowFault(err) {
		return err
	}
	raw, _ := args[4].([]byte)
	offset := int64(-1)
	if o, ok := args[3].(int64); ok {
		offset = o
	}
	src, _ := args[1].(int64)
	seq, _ := args[0].(int64)
	line, _ := args[2].(int64)
	f, ferr := s.blame(ctx, args, err)
	if ferr != nil {
		return ferr
	}
	parts := make([]string, len(s.p.keys))
	for i, k := range s.p.keys {
		parts[i] = storedText(args[systemCols+k.at])
		if len(s.p.keys) > 1 {
			parts[i] = k.target + "=" + parts[i]
		}
	}
	return s.bad.add(ctx, badRow{seq: seq, source: origins[src].name, line: line, offset: offset, key: keyText(strings.Join(parts, ", ")), raw: string(raw), fault: f, layout: origins[src].layout})
}

// blame finds the column that the database refuses, by trying each alone.
func (s *stager) blame(ctx context.Context, args []any, cause error) (row.Fault, error) {
	f := row.Fault{Code: row.Rejected, Message: cause.Error()}
	empty := append([]any(nil), args...)
	for i := range s.p.cols {
		empty[systemCols+i] = nil
	}
	empty[4] = nil
	if _, err := s.conn.ExecContext(ctx, s.insertSQL(1), empty...); err != nil {
		if isRowFault(err) {
			return f, nil
		}
		return f, err
	}
	for i := range s.p.cols {
		_, err := s.conn.ExecContext(ctx, "UPDATE "+s.p.stage()+" SET "+dialect.Quote(s.p.cols[i].Name)+" = ? WHERE airlock_seq = ?", args[systemCols+i], args[0])
		if isRowFault(err) {
			f.Column, f.Message = s.p.cols[i].Name, err.Error()
			break
		}
		if err != nil {
			return f, err
		}
	}
	if f.Column == "" {
		f.Code = row.RowTooLarge
	}
	_, err := s.conn.ExecContext(ctx, "DELETE FROM "+s.p.stage()+" WHERE airlock_seq = ?", args[0])
	return f, err
}
