package source

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"

	"github.com/airlock-dag/airlock/sql/merge/row"
)

// Parquet reads the rows of a Parquet file, row group after row group, a page of
// each column at a time: memory does not grow with the file. Numbers, decimals
// and times keep every digit; a struct, list or map is JSON.
type Parquet struct {
	name    string
	groups  []parquet.RowGroup
	rows    parquet.Rows // of the present group, nil between two
	buf     []parquet.Row
	have    []parquet.Row // read and not yet given
	fields  []*parquetField
	leaves  [][]parquet.Value // values of the row by leaf
	columns []string
	want    []parquetPick
	unknown []string
	values  []row.Value
	n       int64
	rec     row.Record
	guard   *parquetGuard
	group   int // the next one's number
	maxRow  int
}

// parquetPick is a wanted column: a field of the file, or a path inside one.
type parquetPick struct {
	field *parquetField // nil when the file has none
	inner []step
}

// parquetRows is how many rows are decoded at once; maxEmpty how many row groups
// and reads in a row may give none.
const (
	parquetRows = 64
	maxEmpty    = 10000
)

// NewParquet reads the file's schema. maxRow is the greatest length of a row as
// JSON in bytes, DefaultMaxRow when 0.
func NewParquet(r io.ReaderAt, size int64, name string, maxRow int, want Wanted) (p *Parquet, err error) {
	defer noPanic(name, &err)
	footer, err := readFooter(r, size)
	if err == nil {
		err = checkMeta(footer)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f, err := parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(256<<10))
	if err != nil {
		return nil, fmt.Errorf("%s: not a Parquet file that can be read: %w: %w", name, err, ErrDamaged)
	}
	p = &Parquet{name: name, groups: f.RowGroups(), buf: make([]parquet.Row, parquetRows), guard: newParquetGuard(r, size, f), maxRow: maxRow}
	if p.maxRow <= 0 {
		p.maxRow = DefaultMaxRow
	}
	leaf := 0
	for _, field := range f.Schema().Fields() {
		made := newParquetField(field, &leaf, 0, 0)
		p.fields = append(p.fields, made)
		p.columns = append(p.columns, made.name)
	}
	p.leaves = make([][]parquet.Value, leaf)
	return p, p.choose(want)
}

// readFooter reads the file's description, which is at its end.
func readFooter(r io.ReaderAt, size int64) ([]byte, error) {
	const least = 12 // PAR1, the footer's length, PAR1
	end := make([]byte, 8)
	if size < least {
		return nil, fmt.Errorf("not a Parquet file, it has %d bytes: %w", size, ErrDamaged)
	}
	if _, err := r.ReadAt(end, size-int64(len(end))); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if magic := string(end[4:]); magic != "PAR1" {
		return nil, fmt.Errorf("not a whole Parquet file, it ends with %q and not with PAR1: %w", magic, ErrDamaged)
	}
	n := int64(binary.LittleEndian.Uint32(end))
	switch {
	case n > size-least:
		return nil, fmt.Errorf("the footer is said to have %d bytes, the file has %d: %w", n, size, ErrDamaged)
	case n > maxFooter:
		return nil, fmt.Errorf("the footer has %d bytes, the limit is %d: %w", n, maxFooter, ErrTooLarge)
	}
	footer := make([]byte, n)
	if _, err := r.ReadAt(footer, size-int64(len(end))-n); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return footer, nil
}

// noPanic turns what a damaged file makes the library do into an error.
func noPanic(name string, err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%s: the file cannot be decoded: %v: %w", name, r, ErrDamaged)
	}
}

func (p *Parquet) choose(want Wanted) error {
	names := want.Names
	if want.All {
		names = p.columns
	}
	used := map[*parquetField]bool{}
	var lacks []string
	for _, n := range names {
		pick := parquetPick{field: p.field(n)}
		if steps := parsePath(n); pick.field == nil && len(steps) > 1 {
			pick = parquetPick{field: p.field(steps[0].key), inner: steps[1:]}
		}
		if pick.field == nil && !want.Optional[n] {
			lacks = append(lacks, n)
		}
		used[pick.field] = true
		p.want = append(p.want, pick)
	}
	p.values = make([]row.Value, len(names))
	for _, f := range p.fields {
		if !used[f] {
			p.unknown = append(p.unknown, f.name)
		}
	}
	if len(lacks) > 0 {
		return fmt.Errorf("%s: no column %s; the file has %s: %w", p.name, quoteList(lacks), quoteList(p.columns), ErrHeader)
	}
	if want.RejectUnknown && len(p.unknown) > 0 {
		return fmt.Errorf("%s: the columns %s are not among the step's columns: %w", p.name, quoteList(p.unknown), ErrHeader)
	}
	return nil
}

func (p *Parquet) field(name string) *parquetField {
	for _, f := range p.fields {
		if f.name == name {
			return f
		}
	}
	return nil
}

// Columns are the file's columns in order.
func (p *Parquet) Columns() []string { return p.columns }

// Unknown are the file's columns that nobody wants.
func (p *Parquet) Unknown() []string { return p.unknown }

// Layout implements Laid.
func (p *Parquet) Layout() Layout { return Layout{Format: "parquet"} }

// Close implements Reader; the file belongs to the caller.
func (p *Parquet) Close() error {
	p.groups, p.have = nil, nil
	if p.rows == nil {
		return nil
	}
	rows := p.rows
	p.rows = nil
	return rows.Close()
}

// Next implements Reader.
func (p *Parquet) Next(ctx context.Context) (rec *row.Record, err error) {
	defer noPanic(p.name, &err)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for tries := 0; len(p.have) == 0; tries++ {
		if err := p.more(); err != nil {
			return nil, err
		}
		if tries > maxEmpty { // a damaged page can keep the library from coming forward
			return nil, fmt.Errorf("%s: after row %d: no further rows and no end: %w", p.name, p.n, ErrDamaged)
		}
	}
	r := p.have[0]
	p.have = p.have[1:]
	p.n++
	r.Range(func(i int, values []parquet.Value) bool {
		p.leaves[i] = values
		return true
	})
	if size := p.size(); size > p.maxRow {
		p.rec = row.Record{Source: p.name, Line: p.n, Offset: -1, Raw: p.short(), Fault: fault(row.LineTooLong, "", "the row has about %d bytes, the limit is %d; only its short values are kept", size, p.maxRow)}
		return &p.rec, nil
	}
	p.rec = row.Record{Source: p.name, Line: p.n, Offset: -1, Raw: p.raw(), Values: p.values}
	for i, pick := range p.want {
		switch {
		case pick.field == nil:
			p.values[i] = row.Value{}
		case len(pick.inner) == 0:
			p.values[i] = pick.field.value(p.leaves)
		default:
			v, _, _ := lookup(string(pick.field.appendJSON(nil, p.leaves)), pick.inner)
			if b, is := fromHex(v); is {
				v = b
			}
			p.values[i] = v
		}
	}
	return &p.rec, nil
}

// more decodes further rows; io.EOF after the last.
func (p *Parquet) more() error {
	if p.rows == nil {
		if len(p.groups) == 0 {
			return io.EOF
		}
		longest, err := p.guard.check(p.group)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		// Rows with long lists are decoded one by one.
		p.buf = p.buf[:max(1, min(parquetRows, 1<<18/max(1, longest)))]
		p.rows = p.groups[0].Rows()
		p.groups = p.groups[1:]
		p.group++
	}
	n, err := p.rows.ReadRows(p.buf)
	p.have = p.buf[:n]
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		err = p.rows.Close()
		p.rows = nil
	}
	if err != nil {
		return fmt.Errorf("%s: after row %d: %w: %w", p.name, p.n, err, ErrDamaged)
	}
	return nil
}

// raw is the row as a JSON object, which is what a letter keeps of it.
func (p *Parquet) raw() string {
	b := []byte{'{'}
	for i, f := range p.fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, jsonText(f.name)...), ':')
		b = f.appendJSON(b, p.leaves)
	}
	return string(append(b, '}'))
}
