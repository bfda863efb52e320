package merge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge/source"
	"github.com/airlock-dag/airlock/sql/merge/sqltext"
)

// Part is one piece of a batch's source, with the hash of its content: it tells
// whether a second run under the same key sees the same data.
type Part struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256,omitempty"`
}

// Bounds are the limits of a query's batch, as texts in the watermark's own
// form. Empty is none.
type Bounds struct {
	From, To string
	// CutTo keeps rows beyond To out of the batch; else they are read, and only
	// the watermark stays below To.
	CutTo bool
	// Kind says how the column is compared.
	Kind watermarkKind
	// Column is the source's name of the watermark column.
	Column string
	// Tie is the source's name of the tie breaker, FromTie what is stored of it:
	// for a query that bounds itself. Others begin at From inclusively, because a
	// row of that value may have changed since.
	Tie, FromTie string
	TieKind      watermarkKind
	// Sorted asks for the watermark's order.
	Sorted bool
}

// Source gives the rows of a batch. It can be opened again when a batch has to
// be read anew.
type Source interface {
	// Describe names the source in a log line.
	Describe() string
	// Open begins to read.
	Open(ctx context.Context, want source.Wanted, b Bounds) (source.Reader, error)
	// Read are the parts that were read, complete at the end of the rows.
	Read() []Part
	// Now are the parts as they stand at this moment, without reading rows.
	Now(ctx context.Context) ([]Part, error)
}

// FileSource reads files that match patterns.
type FileSource struct {
	Spec SourceSpec
	// Dir is where relative patterns start.
	Dir string
	// Logf, when set, gets a line a file.
	Logf func(format string, args ...any)

	files *source.Files
}

// Describe implements Source.
func (f *FileSource) Describe() string { return strings.Join(f.Spec.Files, ", ") }

// Find lists the files; source.ErrNotFound when a pattern matches none.
func (f *FileSource) Find() ([]source.File, error) {
	var out []source.File
	seen := map[string]bool{}
	for _, pattern := range f.Spec.Files {
		files, err := source.Glob(f.Dir, pattern)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if !seen[file.Path] {
				seen[file.Path] = true
				out = append(out, file)
			}
		}
	}
	return out, nil
}

// Open implements Source.
func (f *FileSource) Open(_ context.Context, want source.Wanted, _ Bounds) (source.Reader, error) {
	files, err := f.Find()
	if errors.Is(err, source.ErrNotFound) && f.Spec.OnMissing == "empty" {
		files, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	want.RejectUnknown = f.Spec.RejectUnknown
	f.files = source.NewFiles(files, func(r io.Reader, name string) (source.Reader, error) { return f.text(r, name, want) })
	if f.Spec.Format == "parquet" {
		f.files.Parquet = func(r io.ReaderAt, size int64, name string) (source.Reader, error) {
			p, err := source.NewParquet(r, size, name, f.Spec.MaxRow, want)
			if err != nil {
				return nil, err
			}
			f.tellUnknown(name, p.Unknown())
			return p, nil
		}
	}
	return f.files, nil
}

// text reads a file of rows of text.
func (f *FileSource) text(r io.Reader, name string, want source.Wanted) (source.Reader, error) {
	if f.Spec.Format == "jsonl" {
		return source.NewJSONL(r, name, f.Spec.jsonl(), want)
	}
	c, err := source.NewCSV(r, name, f.Spec.csv(), want)
	if err != nil {
		return nil, err
	}
	f.tellUnknown(name, c.Unknown())
	return c, nil
}

func (f *FileSource) tellUnknown(name string, unknown []string) {
	if f.Logf != nil && len(unknown) > 0 {
		f.Logf("%s has columns that the step does not take: %s", name, strings.Join(unknown, ", "))
	}
}

func (s *SourceSpec) jsonl() source.JSONLOptions {
	return source.JSONLOptions{Encoding: s.Encoding, MaxRow: s.MaxRow, FinalNewline: s.FinalNewline}
}

func (s *SourceSpec) csv() source.CSVOptions {
	return source.CSVOptions{
		Delimiter: s.Delimiter, Quote: s.Quote, NoQuote: s.NoQuote, Null: s.Null, NoHeader: s.NoHeader,
		Names: s.Names, Encoding: s.Encoding, FinalNewline: s.FinalNewline, MaxRow: s.MaxRow,
	}
}

// Read implements Source.
func (f *FileSource) Read() []Part {
	var out []Part
	if f.files == nil {
		return nil
	}
	for _, s := range f.files.Sums() {
		out = append(out, Part{Name: s.Name, SHA256: s.SHA256})
	}
	return out
}

// Now implements Source.
func (f *FileSource) Now(ctx context.Context) ([]Part, error) {
	files, err := f.Find()
	if err != nil {
		return nil, err
	}
	var out []Part
	for _, file := range files {
		sum, err := source.SumFile(ctx, file)
		if err != nil {
			return nil, err
		}
		out = append(out, Part{Name: file.Name, SHA256: sum})
	}
	return out, nil
}

// ListSource reads a JSON list of objects.
type ListSource struct {
	Name string
	Data []byte
	// RejectUnknown makes a field that is not a column a fault of its row.
	RejectUnknown bool
}

// Describe implements Source.
func (l *ListSource) Describe() string { return l.Name }

// Open implements Source.
func (l *ListSource) Open(_ context.Context, want source.Wanted, _ Bounds) (source.Reader, error) {
	want.RejectUnknown = l.RejectUnknown
	return source.NewList(l.Data, l.Name, want)
}

// Read implements Source.
func (l *ListSource) Read() []Part {
	sum := sha256.Sum256(l.Data)
	return []Part{{Name: l.Name, SHA256: hex.EncodeToString(sum[:])}}
}

// Now implements Source.
func (l *ListSource) Now(context.Context) ([]Part, error) { return l.Read(), nil }

// QuerySource reads the rows of a query.
type QuerySource struct {
	// DB is where the query runs; it reads only.
	DB   *dialect.DB
	Spec SourceSpec
}

// Describe implements Source.
func (q *QuerySource) Describe() string { return "query on " + q.DB.String() }

// Open implements Source.
func (q *QuerySource) Open(ctx context.Context, want source.Wanted, b Bounds) (source.Reader, error) {
	text, args, err := q.bound(b)
	if err != nil {
		return nil, err
	}
	rows, err := q.DB.Reader().DB.QueryContext(ctx, text, args...) //nolint:rowserrcheck // the reader asks for it
	if err != nil {
		return nil, fmt.Errorf("the source query: %w", err)
	}
	return source.NewQuery(rows, "query", want)
}

// Read implements Source. What a query gives changes from run to run; its text
// is part of the plan.
func (q *QuerySource) Read() []Part { return []Part{{Name: "query"}} }

// Now implements Source.
func (q *QuerySource) Now(context.Context) ([]Part, error) { return q.Read(), nil }

func (q *QuerySource) flavour() sqltext.Flavour { return flavourOf(q.DB) }

func flavourOf(db *dialect.DB) sqltext.Flavour {
	if db.IsSQLite() {
		return sqltext.SQLite
	}
	return sqltext.MySQL
}

// bound puts the batch's limits into the query: as its parameters
// :watermark_from, :watermark_tie and :watermark_to where it names one of them,
// else around it.
func (q *QuerySource) bound(b Bounds) (string, []any, error) {
	values := map[string]any{}
	for k, v := range q.Spec.Parameters {
		values[k] = v
	}
	names, err := q.flavour().Params(q.Spec.Query)
	if err != nil {
		return "", nil, err
	}
	own := false
	for _, n := range names {
		own = own || n == "watermark_from" || n == "watermark_to" || n == "watermark_tie"
	}
	if own {
		values["watermark_from"], values["watermark_to"] = b.parameters()
		values["watermark_tie"] = b.TieKind.parameter(b.FromTie)
	}
	text, args, _, err := q.flavour().Bind(q.Spec.Query, values)
	if err != nil {
		return "", nil, fmt.Errorf("the source query: %w", err)
	}
	if b.Column == "" {
		return text, args, nil
	}
	var conds []string
	if !own {
		conds, args = b.conditions(q.DB, args)
	}
	tail := ""
	if len(conds) > 0 {
		tail = " WHERE " + strings.Join(conds, " AND ")
	}
	if b.Sorted {
		tail += " ORDER BY airlock_q." + dialect.Quote(b.Column)
		if b.Tie != "" {
			tail += ", airlock_q." + dialect.Quote(b.Tie)
		}
	}
	if tail == "" {
		return text, args, nil
	}
	return "SELECT * FROM (" + text + ") AS airlock_q" + tail, args, nil
}

func (b Bounds) conditions(db *dialect.DB, args []any) ([]string, []any) {
	var conds []string
	col := "airlock_q." + dialect.Quote(b.Column)
	if b.From != "" {
		conds = append(conds, b.Kind.compare(db, col, ">="))
		args = append(args, b.Kind.parameter(b.From))
	}
	if b.To != "" && b.CutTo {
		conds = append(conds, b.Kind.compare(db, col, "<="))
		args = append(args, b.Kind.parameter(b.To))
	}
	return conds, args
}
