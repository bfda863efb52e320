package source

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/sql/merge/row"
)

// Letter is one row that is read again, from what its letter keeps of it.
type Letter struct {
	// Source, Line and Offset are where the row came from.
	Source string
	Line   int64
	Offset int64
	// Raw is the row's own bytes, or what a person made of them.
	Raw string
	// Layout is how the source was read; its Format is empty when that is not
	// known.
	Layout Layout
}

// LetterOptions are how the step reads its source now.
type LetterOptions struct {
	// Format is that of the step, for letters that keep none.
	Format string
	CSV    CSVOptions
	JSONL  JSONLOptions
}

// Letters reads letters as a source reads its rows: a letter that cannot be read
// has a fault, and the others go on.
type Letters struct {
	letters []Letter
	opt     LetterOptions
	want    Wanted
	next    int
	rec     row.Record
}

// NewLetters begins to read. With want.All the letters must have one layout,
// which names the columns.
func NewLetters(letters []Letter, opt LetterOptions, want Wanted) *Letters {
	return &Letters{letters: letters, opt: opt, want: want}
}

// Columns are those of the first letter's source.
func (l *Letters) Columns() []string {
	if len(l.letters) == 0 {
		return nil
	}
	return l.letters[0].Layout.Columns
}

// Types are those of the first letter's query; a column whose type is not known
// is a text.
func (l *Letters) Types() []string {
	out := make([]string, len(l.Columns()))
	if len(out) > 0 {
		copy(out, l.letters[0].Layout.Types)
	}
	return out
}

// Close implements Reader.
func (l *Letters) Close() error { return nil }

// Next implements Reader.
func (l *Letters) Next(ctx context.Context) (*row.Record, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if l.next == len(l.letters) {
		return nil, io.EOF
	}
	letter := &l.letters[l.next]
	l.next++
	l.rec = row.Record{Source: letter.Source, Line: letter.Line, Offset: letter.Offset, Raw: letter.Raw}
	want := l.want
	if want.All {
		want = Wanted{Names: l.Columns()}
	}
	l.rec.Values, l.rec.Fault = letter.read(ctx, l.opt, want)
	return &l.rec, nil
}

func (l *Letter) read(ctx context.Context, opt LetterOptions, want Wanted) ([]row.Value, *row.Fault) {
	format := l.Layout.Format
	if format == "" {
		format = opt.Format
	}
	switch format {
	case "csv":
		return l.readCSV(ctx, opt.CSV, want)
	case "jsonl":
		o := opt.JSONL
		o.Encoding, o.FinalNewline = l.encoding(o.Encoding), false
		r, err := NewJSONL(l.line(o.Encoding), l.Source, o, want)
		return only(ctx, r, err)
	case "query", "parquet":
		want.RejectUnknown = false
		names := want.Names
		want.Names = make([]string, len(names))
		for i, n := range names {
			want.Names[i] = l.column(n)
		}
		o := newObjectReader(want)
		values, f := o.read(l.Raw)
		for i := range values {
			values[i] = l.typed(values[i], want.Names[i])
		}
		return values, f
	default:
		o := newObjectReader(want)
		return o.read(l.Raw)
	}
}

// line is the row with the line end that letters leave out: a row that lacks
// fields is no row that the file's end has cut.
func (l *Letter) line(e Encoding) io.Reader {
	end := "\n"
	if e == UTF16LE || e == UTF16BE {
		end = string(byteOrder(e).AppendUint16(nil, '\n'))
	}
	return strings.NewReader(l.Raw + end)
}

func (l *Letter) encoding(step Encoding) Encoding {
	switch {
	case l.Layout.Encoding != AnyEncoding:
		return l.Layout.Encoding
	case step.oneByte(), step == UTF16LE, step == UTF16BE:
		return step
	default:
		return UTF8
	}
}

func (l *Letter) readCSV(ctx context.Context, opt CSVOptions, want Wanted) ([]row.Value, *row.Fault) {
	if len(l.Layout.Columns) > 0 {
		opt.Names = l.Layout.Columns
	}
	if len(opt.Names) == 0 {
		return nil, fault(row.HeaderUnknown, "", "the letter does not say which columns the file had: it is of an earlier version; load the file again")
	}
	opt.NoHeader, opt.FinalNewline, opt.Encoding = true, false, l.encoding(opt.Encoding)
	want.RejectUnknown = false
	r, err := NewCSV(l.line(opt.Encoding), l.Source, opt, want)
	return only(ctx, r, err)
}

// only is the one row of a reader.
func only(ctx context.Context, r Reader, err error) ([]row.Value, *row.Fault) {
	if err != nil {
		code := row.InvalidUTF8
		if errors.Is(err, ErrHeader) {
			code = row.HeaderUnknown
		}
		return nil, fault(code, "", "%s", err)
	}
	rec, err := r.Next(ctx)
	if err != nil {
		return nil, fault(row.UnfinishedRow, "", "the row is empty")
	}
	values, f := append([]row.Value(nil), rec.Values...), rec.Fault
	if f != nil {
		return nil, f
	}
	if _, err := r.Next(ctx); !errors.Is(err, io.EOF) {
		return nil, fault(row.TrailingData, "", "the letter holds more than one row")
	}
	return values, nil
}

// column is the source's own name of a wanted column, which a query's may differ
// from in case.
func (l *Letter) column(name string) string {
	fold := name
	for _, c := range l.Layout.Columns {
		if c == name {
			return name
		}
		if strings.EqualFold(c, name) {
			fold = c
		}
	}
	return fold
}

// typed gives a value back what JSON has no form for.
func (l *Letter) typed(v row.Value, name string) row.Value {
	if b, ok := fromHex(v); ok {
		return b
	}
	typ := ""
	for i, c := range l.Layout.Columns {
		if c == name && i < len(l.Layout.Types) {
			typ = l.Layout.Types[i]
		}
	}
	switch {
	case v.Kind != row.Text || typ == "":
		return v
	case typ == "DATE" || typ == "DATETIME" || typ == "TIMESTAMP":
		if _, err := time.Parse("2006-01-02 15:04:05.999999999", v.Text); err == nil {
			v.Kind = row.Time
		}
		return v
	case typ == "JSON" && json.Valid([]byte(v.Text)):
		v.Kind = row.JSON
		return v
	default:
		return textValue(v.Text, typ)
	}
}
