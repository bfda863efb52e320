package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/airlock-dag/airlock/sql/merge/row"
)

// CSVOptions say how a CSV file is written.
type CSVOptions struct {
	// Delimiter between fields, one ASCII character; default ','.
	Delimiter byte
	// Quote around fields, one ASCII character; default '"'. NoQuote turns
	// quoting off.
	Quote   byte
	NoQuote bool
	// Null are the texts that mean null, in fields without quotes only.
	Null []string
	// NoHeader: the file has no header and Names gives its columns in order.
	NoHeader bool
	Names    []string
	// Encoding of the bytes.
	Encoding Encoding
	// FinalNewline: a last row without a line end is not finished.
	FinalNewline bool
	// MaxRow is the greatest length of a row in bytes; DefaultMaxRow when 0.
	MaxRow int
}

// CSV reads CSV as RFC 4180 describes it, with these rules where files differ:
//
//   - A quote inside a field that does not begin with one is an ordinary
//     character. Anything but a delimiter or a line end after a closing quote,
//     and a quote that is never closed, is a fault of the physical line that the
//     row begins on; reading goes on with the next physical line.
//   - A line without any character is no row.
//   - A row with more or fewer fields than the header is a fault of that row.
type CSV struct {
	w       *window
	name    string
	opt     CSVOptions
	columns []string
	index   []int // of Wanted.Names in columns; -1 when absent
	unknown []string
	// lastUnended is set while the row just scanned had no line end.
	lastUnended bool

	spans  []span
	values []row.Value
	rec    row.Record
}

// span is a field of the row being read, relative to the row's first byte.
type span struct {
	from, to int
	quoted   bool // without the quotes
	doubled  bool // has doubled quotes inside
}

// NewCSV begins to read; it reads the header. An empty file has no columns and
// no rows.
func NewCSV(r io.Reader, name string, opt CSVOptions, want Wanted) (*CSV, error) {
	if opt.Delimiter == 0 {
		opt.Delimiter = ','
	}
	if opt.Quote == 0 {
		opt.Quote = '"'
	}
	if opt.MaxRow <= 0 {
		opt.MaxRow = DefaultMaxRow
	}
	c := &CSV{w: newWindow(r), name: name, opt: opt}
	var err error
	if c.opt.Encoding, err = c.w.start(name, opt.Encoding); err != nil {
		return nil, err
	}
	if opt.NoHeader {
		c.columns = opt.Names
	} else if err := c.readHeader(); err != nil {
		return nil, err
	}
	return c, c.choose(want)
}

// Columns are the file's columns in order; none for an empty file.
func (c *CSV) Columns() []string { return c.columns }

// Unknown are the file's columns that nobody wants.
func (c *CSV) Unknown() []string { return c.unknown }

// Layout implements Laid.
func (c *CSV) Layout() Layout {
	l := Layout{Format: "csv", Columns: c.columns}
	if c.opt.Encoding != UTF8 {
		l.Encoding = c.opt.Encoding
	}
	if c.opt.Delimiter != ',' {
		l.Delimiter = string(c.opt.Delimiter)
	}
	switch {
	case c.opt.NoQuote:
		l.Quote = noQuote
	case c.opt.Quote != '"':
		l.Quote = string(c.opt.Quote)
	}
	return l
}

// Close implements Reader; the stream belongs to the caller.
func (c *CSV) Close() error { return nil }

func (c *CSV) readHeader() error {
	for {
		raw, fault, err := c.scan()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if fault != nil {
			return fmt.Errorf("%s: the header cannot be read: %s: %w", c.name, fault.Message, ErrHeader)
		}
		if raw == "" {
			continue
		}
		if !c.opt.Encoding.oneByte() && !utf8.ValidString(raw) {
			return fmt.Errorf("%s: the header is not UTF-8: %w; say its encoding, which may be iso-8859-1 or windows-1252", c.name, ErrEncoding)
		}
		seen := map[string]bool{}
		for _, s := range c.spans {
			name, ok := c.text(raw, s)
			if !ok {
				return fmt.Errorf("%s: the header has bytes that are no characters of %s: %w", c.name, c.opt.Encoding, ErrEncoding)
			}
			if seen[name] {
				return fmt.Errorf("%s: the header has %q twice: %w", c.name, name, ErrHeader)
			}
			seen[name] = true
			c.columns = append(c.columns, name)
		}
		return nil
	}
}

// choose finds the wanted columns among the file's.
func (c *CSV) choose(want Wanted) error {
	names := want.Names
	if want.All {
		names = c.columns
	}
	c.index = make([]int, len(names))
	c.values = make([]row.Value, len(names))
	if len(c.columns) == 0 {
		return nil
	}
	place := map[string]int{}
	for i, n := range c.columns {
		place[n] = i
	}
	wanted := map[string]bool{}
	var lacks []string
	for i, n := range names {
		wanted[n] = true
		at, ok := place[n]
		if !ok {
			at = -1
			if !want.Optional[n] {
				lacks = append(lacks, n)
			}
		}
		c.index[i] = at
	}
	for _, n := range c.columns {
		if !wanted[n] {
			c.unknown = append(c.unknown, n)
		}
	}
	if len(lacks) > 0 {
		other := ""
		if len(c.columns) == 1 && strings.ContainsAny(c.columns[0], ",;|\t") {
			other = fmt.Sprintf(", which is one column; is the delimiter another one than %q?", c.opt.Delimiter)
		}
		return fmt.Errorf("%s: no column %s; the file has %s%s: %w", c.name, quoteList(lacks), quoteList(c.columns), other, ErrHeader)
	}
	if want.RejectUnknown && len(c.unknown) > 0 {
		return fmt.Errorf("%s: the columns %s are not among the step's columns: %w", c.name, quoteList(c.unknown), ErrHeader)
	}
	return nil
}

func quoteList(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(quoted, ", ")
}

// Next implements Reader.
func (c *CSV) Next(ctx context.Context) (*row.Record, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		line, off := c.w.line, c.w.off
		raw, broken, err := c.scan()
		if err != nil {
			return nil, err
		}
		if raw == "" && broken == nil {
			continue
		}
		c.rec = row.Record{Source: c.name, Line: line, Offset: off, Raw: c.w.original(raw), Fault: broken}
		if broken == nil {
			c.rec.Fault = c.fill(raw)
		}
		return &c.rec, nil
	}
}

// fill sets the record's values from the row's fields.
func (c *CSV) fill(raw string) *row.Fault {
	if !c.opt.Encoding.oneByte() && !utf8.ValidString(raw) {
		return fault(row.InvalidUTF8, c.badColumn(raw), "the row has bytes that are not %s", cmp.Or(c.w.encoding, UTF8))
	}
	unfinished := c.w.eof && len(c.w.bytes()) == 0 && c.lastUnended
	switch got, want := len(c.spans), len(c.columns); {
	case unfinished && (got < want || c.opt.FinalNewline):
		return fault(row.UnfinishedRow, "", "the file ends inside this row: %d of %d fields and no line end", got, want)
	case got < want:
		return fault(row.TooFewFields, "", "the row has %d fields, the header has %d", got, want)
	case got > want:
		return fault(row.TooManyFields, "", "the row has %d fields, the header has %d; is a delimiter inside a field without quotes?", got, want)
	}
	for i, at := range c.index {
		if at < 0 {
			c.values[i] = row.Value{}
			continue
		}
		s := c.spans[at]
		text, ok := c.text(raw, s)
		if !ok {
			return fault(row.InvalidUTF8, c.columns[at], "the field has bytes that are no characters of %s", c.opt.Encoding)
		}
		kind := row.Text
		if !s.quoted && c.isNull(text) {
			kind = row.Null
		}
		c.values[i] = row.Value{Kind: kind, Text: text}
	}
	c.rec.Values = c.values
	return nil
}

func (c *CSV) isNull(text string) bool {
	for _, n := range c.opt.Null {
		if text == n {
			return true
		}
	}
	return false
}

// badColumn names the column with the bad bytes where the row's fields tell.
func (c *CSV) badColumn(raw string) string {
	if len(c.spans) != len(c.columns) {
		return ""
	}
	for i, s := range c.spans {
		if !utf8.ValidString(raw[s.from:s.to]) {
			return c.columns[i]
		}
	}
	return ""
}

// text is a field's text in UTF-8; ok is false for bytes that are no characters.
func (c *CSV) text(raw string, s span) (text string, ok bool) {
	t := raw[s.from:s.to]
	if s.doubled {
		q := string(c.opt.Quote)
		t = strings.ReplaceAll(t, q+q, q)
	}
	if c.opt.Encoding.oneByte() {
		return c.opt.Encoding.toUTF8(t)
	}
	return t, true
}
