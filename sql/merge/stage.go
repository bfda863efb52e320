package merge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jmoiron/sqlx"

	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge/column"
	"github.com/airlock-dag/airlock/sql/merge/row"
	"github.com/airlock-dag/airlock/sql/merge/source"
)

// Sizes of one INSERT into the stage.
const (
	stageRows  = 500
	stageBytes = 1 << 20
	systemCols = 5 // seq, src, line, off, raw
)

// loader fills the stage from the source.
type loader struct {
	p    *plan
	conn *sqlx.Conn
	// sources are the names of what was read; the stage keeps their number.
	sources []string
	place   map[string]int64
	// layouts are those of the sources by name, read from the reader.
	layouts map[string]string
	reader  source.Reader

	perInsert int
	full      *sqlx.Stmt
	args      []any
	rows      int
	bytes     int

	bad *badRows
	// read counts rows; marks are their watermarks.
	read   int64
	marks  marks
	values []any
	// byName finds converted values for checks.
	byName map[string]int
}

func newLoader(p *plan, conn *sqlx.Conn, bad *badRows) *loader {
	l := &loader{p: p, conn: conn, place: map[string]int64{}, layouts: map[string]string{}, bad: bad, values: make([]any, len(p.cols)), byName: map[string]int{}}
	l.marks = marks{order: order{kind: p.markKind, tie: p.tieKind}, chunk: int64(p.spec.Chunk)}
	width := systemCols + len(p.cols)
	l.perInsert = max(1, min(stageRows, 30000/width))
	if p.db.IsSQLite() {
		l.perInsert = max(1, min(100, 30000/width))
	}
	for i := range p.cols {
		l.byName[p.cols[i].Name] = i
	}
	return l
}

// load reads the source to its end.
func (l *loader) load(ctx context.Context, r source.Reader, progress func(int64)) error {
	defer func() {
		if l.full != nil {
			_ = l.full.Close()
		}
	}()
	l.reader = r
	for {
		rec, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		l.read++
		if err := l.take(ctx, rec); err != nil {
			return err
		}
		if progress != nil && l.read%10000 == 0 {
			progress(l.read)
		}
	}
	if err := l.flush(ctx); err != nil {
		return err
	}
	if progress != nil {
		progress(l.read)
	}
	return l.bad.flush(ctx)
}

// take checks a record and puts it into the stage or among the bad rows.
func (l *loader) take(ctx context.Context, rec *row.Record) error {
	f := rec.Fault
	if f == nil {
		f = l.convert(rec)
	}
	l.advance(rec, f)
	if f != nil {
		return l.bad.add(ctx, badRow{
			seq: l.read, source: rec.Source, line: rec.Line, offset: rec.Offset, key: l.rowKey(rec), raw: rec.Raw, fault: *f,
			layout: l.layout(rec, f),
		})
	}
	src, ok := l.place[rec.Source]
	if !ok {
		src = int64(len(l.sources))
		l.place[rec.Source] = src
		l.sources = append(l.sources, rec.Source)
		l.layout(rec, nil)
	}
	var offset any
	if rec.Offset >= 0 {
		offset = rec.Offset
	}
	l.args = append(l.args, l.read, src, rec.Line, offset, []byte(rec.Raw))
	l.args = append(l.args, l.values...)
	l.rows++
	l.bytes += 2*len(rec.Raw) + 16*len(l.values)
	if l.rows >= l.perInsert || l.bytes >= stageBytes {
		return l.flush(ctx)
	}
	return nil
}

// layout is how the record's source is to be read, as a letter keeps it.
func (l *loader) layout(rec *row.Record, f *row.Fault) string {
	text, known := l.layouts[rec.Source]
	if !known {
		text = source.LayoutText(l.reader)
		l.layouts[rec.Source] = text
	}
	if f != nil && f.Code == row.LineTooLong {
		return source.CutLayout(text, -1)
	}
	return text
}

// convert types the record's values; l.values has them.
func (l *loader) convert(rec *row.Record) *row.Fault {
	var first *row.Fault
	for i := range l.p.cols {
		c := &l.p.cols[i]
		l.values[i] = nil
		v := rec.Values[i]
		if c.isKey && v.Absent() && c.Default == nil {
			if first == nil {
				first = &row.Fault{Code: row.NullInKey, Column: c.Name, Message: "the key column has no value"}
			}
			continue
		}
		out, f := l.convertOne(c, v)
		if f == nil && out == nil && c.notNull {
			f = &row.Fault{Code: row.NullNotAllowed, Column: c.Name, Message: "the table's column takes no null"}
		}
		if f != nil {
			if first == nil {
				first = f
			}
			continue
		}
		l.values[i] = out
	}
	if first != nil {
		return first
	}
	for i := range l.p.cols {
		c := &l.p.cols[i]
		if c.Check == nil {
			continue
		}
		ok, err := c.Check.Passes(func(name string) (any, column.Type) {
			at := l.byName[name]
			return l.values[at], l.p.cols[at].Type
		})
		if !ok || err != nil {
			return c.Check.Failure(c.Name, err)
		}
	}
	return nil
}

func (l *loader) convertOne(c *planColumn, v row.Value) (any, *row.Fault) {
	if c.native {
		return native(v, l.p.db.IsSQLite()), nil
	}
	return c.Convert(v)
}

// native passes a value on as the source's driver gave it; floats are kept as
// such where a database has no other numbers with a fraction.
func native(v row.Value, floats bool) any {
	switch v.Kind {
	case row.Missing, row.Null:
		return nil
	case row.Number:
		if n, err := strconv.ParseInt(v.Text, 10, 64); err == nil {
			return n
		}
		if f, err := strconv.ParseFloat(v.Text, 64); err == nil && floats && strconv.FormatFloat(f, 'f', -1, 64) == v.Text {
			return f
		}
		return v.Text
	case row.Bool:
		if v.Text == "true" {
			return int64(1)
		}
		return int64(0)
	case row.Bytes:
		return []byte(v.Text)
	default:
		return v.Text
	}
}

// advance moves the batch's watermark past the row. A quarantined row counts
// when its own watermark can be read: it is kept, so nothing is lost behind it.
func (l *loader) advance(rec *row.Record, f *row.Fault) {
	if l.p.mark < 0 || rec.Values == nil {
		return
	}
	v := l.values[l.p.mark]
	if f != nil {
		out, bad := l.convertOne(&l.p.cols[l.p.mark], rec.Values[l.p.mark])
		if bad != nil {
			return
		}
		v = out
	}
	if v == nil {
		return
	}
	at := mark{value: storedText(v)}
	if l.p.tie >= 0 {
		at.tie = storedText(l.values[l.p.tie])
	}
	l.marks.add(l.read, at)
}

func storedText(v any) string {
	switch x := v.(type) {
	case nil:
		return ""
	case string:
		return x
	case []byte:
		return string(x)
	default:
		return fmt.Sprint(x)
	}
}

// rowKey is the row's key for a person: the value of a key of one column, else
// names and values.
func (l *loader) rowKey(rec *row.Record) string {
	if rec.Values == nil {
		return ""
	}
	parts := make([]string, len(l.p.keys))
	any := false
	for i, k := range l.p.keys {
		v := rec.Values[k.at]
		text := v.Text
		if v.Absent() {
			text = "null"
		} else {
			any = true
		}
		parts[i] = text
		if len(l.p.keys) > 1 {
			parts[i] = k.target + "=" + text
		}
	}
	if !any {
		return ""
	}
	return keyText(strings.Join(parts, ", "))
}

func keyText(s string) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\uFFFD")
	for utf8.RuneCountInString(s) > 255 {
		s = string([]rune(s)[:255])
	}
	return s
}

// insertSQL is an INSERT of n rows.
func (l *loader) insertSQL(n int) string {
	names := make([]string, 0, systemCols+len(l.p.cols))
	for _, s := range []string{"airlock_seq", "airlock_src", "airlock_line", "airlock_off", "airlock_raw"} {
		names = append(names, dialect.Quote(s))
	}
	for i := range l.p.cols {
		names = append(names, dialect.Quote(l.p.cols[i].Name))
	}
	return "INSERT INTO " + l.p.stage() + " (" + strings.Join(names, ", ") + ") VALUES " + dialect.Rows(n, len(names))
}

func (l *loader) flush(ctx context.Context) error {
	if l.rows == 0 {
		return nil
	}
	err := l.insert(ctx)
	if isRowFault(err) {
		err = l.bisect(ctx, l.args)
	}
	if err != nil {
		return fmt.Errorf("fill the stage: %w", err)
	}
	l.args, l.rows, l.bytes = l.args[:0], 0, 0
	return nil
}

func (l *loader) insert(ctx context.Context) error {
	if l.rows != l.perInsert {
		_, err := l.conn.ExecContext(ctx, l.insertSQL(l.rows), l.args...)
		return err
	}
	if l.full == nil {
		var err error
		if l.full, err = l.conn.PreparexContext(ctx, l.insertSQL(l.perInsert)); err != nil {
			return err
		}
	}
	_, err := l.full.ExecContext(ctx, l.args...)
	return err
}
