package source

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/sql/merge/row"
)

// Query reads the rows of a query as the database gives them, one at a time.
type Query struct {
	rows    *sql.Rows
	name    string
	columns []string
	types   []string // upper case, as the driver names them
	index   []int
	dest    []any
	cells   []any
	values  []row.Value
	n       int64
	rec     row.Record
}

// NewQuery reads rows, which it closes.
func NewQuery(rows *sql.Rows, name string, want Wanted) (*Query, error) {
	q := &Query{rows: rows, name: name}
	types, err := rows.ColumnTypes()
	if err != nil {
		_ = rows.Close()
		return nil, err
	}
	place := map[string]int{}
	for i, t := range types {
		if _, twice := place[t.Name()]; twice {
			_ = rows.Close()
			return nil, fmt.Errorf("%s: the query gives the column %q twice: %w", name, t.Name(), ErrHeader)
		}
		place[t.Name()] = i
		q.columns = append(q.columns, t.Name())
		q.types = append(q.types, strings.ToUpper(t.DatabaseTypeName()))
	}
	q.cells = make([]any, len(types))
	q.dest = make([]any, len(types))
	for i := range q.cells {
		q.dest[i] = &q.cells[i]
	}
	names := want.Names
	if want.All {
		names = q.columns
	}
	for _, n := range names {
		at, ok := place[n]
		if !ok {
			at, ok = q.foldPlace(n)
		}
		if !ok {
			if !want.Optional[n] {
				_ = rows.Close()
				return nil, fmt.Errorf("%s: the query gives no column %q; it gives %s: %w", name, n, quoteList(q.columns), ErrHeader)
			}
			at = -1
		}
		q.index = append(q.index, at)
	}
	q.values = make([]row.Value, len(names))
	return q, nil
}

func (q *Query) foldPlace(name string) (int, bool) {
	for i, c := range q.columns {
		if strings.EqualFold(c, name) {
			return i, true
		}
	}
	return 0, false
}

// Columns are the query's columns in order.
func (q *Query) Columns() []string { return q.columns }

// Types are the columns' types as the driver names them, in upper case.
func (q *Query) Types() []string { return q.types }

// Close implements Reader.
func (q *Query) Close() error { return q.rows.Close() }

// Next implements Reader.
func (q *Query) Next(ctx context.Context) (*row.Record, error) {
	if !q.rows.Next() {
		if err := q.rows.Err(); err != nil {
			return nil, fmt.Errorf("%s: %w", q.name, err)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, io.EOF
	}
	if err := q.rows.Scan(q.dest...); err != nil {
		return nil, fmt.Errorf("%s: %w", q.name, err)
	}
	q.n++
	q.rec = row.Record{Source: q.name, Line: q.n, Offset: -1, Raw: q.raw()}
	for i, at := range q.index {
		if at < 0 {
			q.values[i] = row.Value{}
			continue
		}
		q.values[i] = value(q.cells[at], q.types[at])
	}
	q.rec.Values = q.values
	return &q.rec, nil
}

// value gives a driver's value with every digit that it has.
func value(v any, typ string) row.Value {
	switch x := v.(type) {
	case nil:
		return row.Value{Kind: row.Null}
	case int64:
		return row.Value{Kind: row.Number, Text: strconv.FormatInt(x, 10)}
	case uint64:
		return row.Value{Kind: row.Number, Text: strconv.FormatUint(x, 10)}
	case float64:
		return row.Value{Kind: row.Number, Text: plainFloat(x, 64)}
	case float32:
		return row.Value{Kind: row.Number, Text: plainFloat(float64(x), 32)}
	case bool:
		return row.Value{Kind: row.Bool, Text: strconv.FormatBool(x)}
	case time.Time:
		return row.Value{Kind: row.Time, Text: x.UTC().Format("2006-01-02 15:04:05.999999999")}
	case string:
		return textValue(x, typ)
	case []byte:
		return textValue(string(x), typ)
	default:
		return row.Value{Kind: row.Text, Text: fmt.Sprint(x)}
	}
}

func textValue(s, typ string) row.Value {
	switch {
	case strings.HasPrefix(typ, "DECIMAL"), strings.HasPrefix(typ, "NUMERIC"):
		return row.Value{Kind: row.Number, Text: s}
	case typ == "JSON":
		return row.Value{Kind: row.JSON, Text: s}
	case strings.Contains(typ, "BLOB"), strings.Contains(typ, "BINARY"), typ == "BIT", typ == "GEOMETRY":
		return row.Value{Kind: row.Bytes, Text: s}
	default:
		return row.Value{Kind: row.Text, Text: s}
	}
}

// raw is the row as a JSON object, which is what a letter keeps of it.
func (q *Query) raw() string {
	b := []byte{'{'}
	for i, c := range q.columns {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, jsonText(c)...), ':')
		v := value(q.cells[i], q.types[i])
		if v.Kind == row.JSON { // a document of a JSON column stays a text
			v.Kind = row.Text
		}
		b = appendValue(b, v)
	}
	return string(append(b, '}'))
}

// Layout implements Laid.
func (q *Query) Layout() Layout {
	return Layout{Format: "query", Columns: q.columns, Types: q.types}
}

func jsonText(s string) []byte {
	out, err := json.Marshal(s)
	if err != nil {
		return []byte(`""`)
	}
	return out
}
