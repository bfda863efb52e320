package merge

import (
	"context"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/jmoiron/sqlx"

	"github.com/airlock-dag/airlock/sql/dialect"
)

// Sizes of one statement that fills the stage.
const (
	stageRows  = 500
	stageBytes = 1 << 20
	localRows  = 20000
	localBytes = 4 << 20
	systemCols = 5 // seq, src, line, off, raw
)

// origin is a source of rows and how it is read, as a letter keeps it.
type origin struct{ name, layout string }

// load is some rows of a reading, on their way into the stage or among the bad
// rows. Reading goes on while another one is written.
type load struct {
	args  []any
	rows  int
	bytes int
	bad   []badRow
	// origins are the sources that the rows name by their number.
	origins []origin
}

func (l *load) reset() {
	clear(l.args)
	clear(l.bad)
	*l = load{args: l.args[:0], bad: l.bad[:0]}
}

// stager writes loads. Only it uses the connection while the stage is filled.
type stager struct {
	p    *plan
	conn *sqlx.Conn
	bad  *badRows
	// perInsert is the number of rows of an INSERT, perLoad that of a load, which is
	// handed on early from bytesLoad bytes.
	perInsert, perLoad, bytesLoad int
	full                          *sqlx.Stmt
	// local loads by LOAD DATA LOCAL: half of the server's work of an INSERT.
	local   bool
	rows    dialect.LocalRows
	columns []string
}

func newStager(ctx context.Context, p *plan, conn *sqlx.Conn, bad *badRows) *stager {
	s := &stager{p: p, conn: conn, bad: bad}
	s.columns = append(s.columns, "airlock_seq", "airlock_src", "airlock_line", "airlock_off", "airlock_raw")
	native := false
	for i := range p.cols {
		s.columns = append(s.columns, p.cols[i].Name)
		native = native || p.cols[i].native
	}
	s.perInsert = max(1, min(stageRows, 30000/len(s.columns)))
	if p.db.IsSQLite() {
		s.perInsert = max(1, min(100, 30000/len(s.columns)))
	}
	s.perLoad, s.bytesLoad = s.perInsert, stageBytes
	// A value that this package has no checks for is left to the server's own,
	// which LOCAL does not make.
	if conn != nil && !native && p.db.LocalAllowed(ctx, conn) {
		s.local, s.perLoad, s.bytesLoad = true, localRows, localBytes
	}
	return s
}

func (s *stager) close() {
	if s.full != nil {
		_ = s.full.Close()
	}
}

// run writes loads until there are no more, and gives each back when it is
// written.
func (s *stager) run(ctx context.Context, in <-chan *load, free chan<- *load) error {
	for l := range in {
		if err := s.write(ctx, l); err != nil {
			return err
		}
		l.reset()
		free <- l
	}
	return s.bad.flush(ctx)
}

func (s *stager) write(ctx context.Context, l *load) error {
	for _, r := range l.bad {
		if err := s.bad.add(ctx, r); err != nil {
			return err
		}
	}
	if l.rows == 0 {
		return nil
	}
	if s.local {
		done, err := s.loadLocal(ctx, l)
		if done || err != nil {
			return err
		}
	}
	width := len(s.columns)
	for from := 0; from < l.rows; from += s.perInsert {
		args := l.args[from*width : min(from+s.perInsert, l.rows)*width]
		err := s.insert(ctx, args)
		if isRowFault(err) {
			err = s.bisect(ctx, args, l.origins)
		}
		if err != nil {
			return fmt.Errorf("fill the stage: %w", err)
		}
	}
	return nil
}

// loadLocal tries LOAD DATA LOCAL. Where the server would have bent a value, or
// takes no such statement after all, it leaves nothing behind and the rows are
// inserted.
func (s *stager) loadLocal(ctx context.Context, l *load) (done bool, err error) {
	s.rows.Reset()
	width := len(s.columns)
	for i, v := range l.args {
		switch x := v.(type) {
		case nil:
			s.rows.Null()
		case string:
			s.rows.Text(x)
		case []byte:
			if !utf8.Valid(x) {
				return false, nil
			}
			s.rows.Text(string(x))
		case int64:
			s.rows.Text(strconv.FormatInt(x, 10))
		case float64:
			s.rows.Text(strconv.FormatFloat(x, 'g', -1, 64))
		default:
			return false, nil
		}
		if i%width == width-1 {
			s.rows.End()
		} else {
			s.rows.Next()
		}
	}
	taken, warnings, err := s.p.db.LoadLocal(ctx, s.conn, s.p.stage(), s.columns, &s.rows)
	if err == nil && warnings == 0 && taken == int64(l.rows) {
		return true, nil
	}
	switch class := dialect.ClassOf(err); class {
	case dialect.ClassLost, dialect.ClassCancelled, dialect.ClassTimeout, dialect.ClassUnavailable:
		return false, err
	case dialect.ClassConfig, dialect.ClassProgram:
		s.local = false
	}
	first, last := l.args[0], l.args[(l.rows-1)*width]
	if _, err := s.conn.ExecContext(ctx, "DELETE FROM "+s.p.stage()+" WHERE airlock_seq >= ? AND airlock_seq <= ?", first, last); err != nil {
		return false, fmt.Errorf("fill the stage: %w", err)
	}
	return false, nil
}

// insertSQL is an INSERT of n rows.
func (s *stager) insertSQL(n int) string {
	return "INSERT INTO " + s.p.stage() + " (" + dialect.QuoteAll(s.columns) + ") VALUES " + dialect.Rows(n, len(s.columns))
}

func (s *stager) insert(ctx context.Context, args []any) error {
	n := len(args) / len(s.columns)
	if n != s.perInsert {
		_, err := s.conn.ExecContext(ctx, s.insertSQL(n), args...)
		return err
	}
	if s.full == nil {
		var err error
		if s.full, err = s.conn.PreparexContext(ctx, s.insertSQL(n)); err != nil {
			return err
		}
	}
	_, err := s.full.ExecContext(ctx, args...)
	return err
}
