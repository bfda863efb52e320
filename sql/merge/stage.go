package merge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/airlock-dag/airlock/sql/merge/column"
	"github.com/airlock-dag/airlock/sql/merge/row"
	"github.com/airlock-dag/airlock/sql/merge/source"
)

// loader reads the source, checks its rows and hands them to the stager.
type loader struct {
	p *plan
	w *stager
	// sources are the names of what was read; the stage keeps their number.
	sources []string
	place   map[string]int64
	origins []origin
	// layouts are those of the sources by name, read from the reader.
	layouts map[string]string
	reader  source.Reader
	next    *load
	// limit is the number of bad rows that is one too many, -1 for none; faults
	// counts those that reading found.
	limit, faults int64
	// read counts rows; marks are their watermarks.
	read   int64
	marks  marks
	keys   *distinct
	values []any
	// byName finds converted values for checks.
	byName map[string]int
}

func newLoader(p *plan, w *stager, limit int64) *loader {
	l := &loader{p: p, w: w, place: map[string]int64{}, layouts: map[string]string{}, limit: limit, values: make([]any, len(p.cols)), byName: map[string]int{}}
	l.marks = marks{order: order{kind: p.markKind, tie: p.tieKind}, chunk: int64(p.spec.Chunk)}
	l.keys = newDistinct(p)
	for i := range p.cols {
		l.byName[p.cols[i].Name] = i
	}
	return l
}

// load reads the source to its end. What was read is written meanwhile.
func (l *loader) load(ctx context.Context, r source.Reader, progress func(int64)) error {
	defer l.w.close()
	l.reader = r
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	in, free := make(chan *load, 1), make(chan *load, 3)
	for range cap(free) {
		free <- &load{}
	}
	written := make(chan error, 1)
	go func() {
		err := l.w.run(ctx, in, free)
		if err != nil {
			stop(err)
			for range in { // the reader may be about to hand one over
				continue
			}
		}
		written <- err
	}()
	l.next = <-free
	err := l.readAll(ctx, in, free, progress)
	if err == nil || errors.Is(err, errTooMany) {
		if handErr := l.hand(ctx, in, nil); err == nil {
			err = handErr
		}
	}
	close(in)
	if writeErr := <-written; writeErr != nil {
		return writeErr
	}
	if err == nil && progress != nil {
		progress(l.read)
	}
	return err
}

func (l *loader) readAll(ctx context.Context, in chan<- *load, free <-chan *load, progress func(int64)) error {
	for {
		rec, err := l.reader.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		l.read++
		if err := l.take(rec); err != nil {
			return err
		}
		if n := l.next; n.rows >= l.w.perLoad || n.bytes >= l.w.bytesLoad {
			if err := l.hand(ctx, in, free); err != nil {
				return err
			}
		}
		if progress != nil && l.read%10000 == 0 {
			progress(l.read)
		}
	}
}

// hand gives the load over and takes a free one, none when free is nil.
func (l *loader) hand(ctx context.Context, in chan<- *load, free <-chan *load) error {
	l.next.origins = l.origins
	select {
	case in <- l.next:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if free == nil {
		return nil
	}
	select {
	case l.next = <-free:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// take checks a record and adds it to the load.
func (l *loader) take(rec *row.Record) error {
	f := rec.Fault
	if f == nil {
		f = l.convert(rec)
	}
	l.advance(rec, f)
	l.next.bytes += 2*len(rec.Raw) + 16*len(l.values)
	if f != nil {
		l.next.bad = append(l.next.bad, badRow{
			seq: l.read, source: rec.Source, line: rec.Line, offset: rec.Offset, key: l.rowKey(rec), raw: rec.Raw, fault: *f,
			layout: l.layout(rec, f),
		})
		if l.faults++; l.limit >= 0 && l.faults > l.limit {
			return errTooMany
		}
		return nil
	}
	src, ok := l.place[rec.Source]
	if !ok {
		src = int64(len(l.sources))
		l.place[rec.Source] = src
		l.sources = append(l.sources, rec.Source)
		l.origins = append(l.origins, origin{rec.Source, l.layout(rec, nil)})
	}
	l.keys.add(l.values)
	var offset any
	if rec.Offset >= 0 {
		offset = rec.Offset
	}
	n := l.next
	var raw any = rec.Raw
	if !l.w.local || !utf8.ValidString(rec.Raw) {
		raw = []byte(rec.Raw)
	}
	n.args = append(n.args, l.read, src, rec.Line, offset, raw)
	n.args = append(n.args, l.values...)
	n.rows++
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
	computed := false
	for i := range l.p.cols {
		if l.p.cols[i].Computed != nil {
			l.values[i], computed = nil, true
			continue
		}
		if f := l.set(i, rec.Values[i]); f != nil && first == nil {
			first = f
		}
	}
	if first != nil {
		return first
	}
	if computed {
		if f := l.compute(rec); f != nil {
			return f
		}
	}
	for i := range l.p.cols {
		c := &l.p.cols[i]
		if c.Check == nil {
			continue
		}
		value := func(name string) (any, column.Type) {
			at := l.byName[name]
			return l.values[at], l.p.cols[at].Type
		}
		if ok, err := c.Check.Passes(value); !ok || err != nil {
			return c.Check.Failure(c.Name, value, err)
		}
	}
	return nil
}

// set types one value of the row.
func (l *loader) set(i int, v row.Value) *row.Fault {
	c := &l.p.cols[i]
	l.values[i] = nil
	if c.isKey && v.Absent() && c.Default == nil {
		return &row.Fault{Code: row.NullInKey, Column: c.Name, Message: "the key column has no value"}
	}
	out, f := l.convertOne(c, v)
	if f == nil && out == nil && c.notNull {
		f = &row.Fault{Code: row.NullNotAllowed, Column: c.Name, Message: "the table's column takes no null"}
	}
	if f == nil {
		l.values[i] = out
	}
	return f
}

// compute fills the columns that are computed from the others, which have their
// types already.
func (l *loader) compute(rec *row.Record) *row.Fault {
	value := func(name string) (any, column.Type) {
		if at, ok := l.byName[name]; ok {
			return l.values[at], l.p.cols[at].Type
		}
		if name == column.SourceLine {
			return rec.Line, column.Type{Kind: column.Integer, Bits: 64}
		}
		return rec.Source, column.Type{Kind: column.Text}
	}
	for i := range l.p.cols {
		c := &l.p.cols[i]
		if c.Computed == nil {
			continue
		}
		v, f := c.Computed.Value(c.Name, value)
		if f == nil {
			f = l.set(i, v)
		}
		if f != nil {
			return f
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
