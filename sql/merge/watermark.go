package merge

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge/column"
	"github.com/airlock-dag/airlock/sql/merge/row"
)

// watermarkKind says how values of a watermark column compare.
type watermarkKind uint8

const (
	markTime watermarkKind = iota + 1
	markDate
	markNumber
	markText
)

// Defaults that make late commits safe for queries; files are merged whole.
const (
	defaultLookback      = 10 * time.Minute
	defaultLookbackCount = 1000
)

func watermarkKindOf(t column.Type) watermarkKind {
	switch t.Kind {
	case column.Timestamp:
		return markTime
	case column.Date:
		return markDate
	case column.Integer:
		return markNumber
	case column.Text:
		return markText
	default:
		return 0
	}
}

// less compares two watermarks in their stored form.
func (k watermarkKind) less(a, b string) bool {
	if k == markNumber {
		x, errX := strconv.ParseInt(a, 10, 64)
		y, errY := strconv.ParseInt(b, 10, 64)
		if errX == nil && errY == nil {
			return x < y
		}
	}
	return a < b
}

// back moves a watermark back by the step's lookback.
func (k watermarkKind) back(value string, w *WatermarkSpec) (string, error) {
	switch k {
	case markTime, markDate:
		d := w.Lookback
		if !w.LookbackSet {
			d = defaultLookback
		}
		layout := column.TimestampLayout
		if k == markDate {
			layout = column.DateLayout
		}
		t, err := time.Parse(layout, value)
		if err != nil {
			return "", fmt.Errorf("the stored watermark %q of %s is not of the form %s", value, w.Name, layout)
		}
		return t.Add(-d).Format(layout), nil
	case markNumber:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return "", fmt.Errorf("the stored watermark %q of %s is not a number", value, w.Name)
		}
		by := w.LookbackCount
		if !w.LookbackSet {
			by = defaultLookbackCount
		}
		return strconv.FormatInt(n-by, 10), nil
	default:
		return value, nil
	}
}

// format writes an instant as a watermark of the kind.
func (k watermarkKind) format(t time.Time) string {
	if k == markDate {
		return t.UTC().Format(column.DateLayout)
	}
	return t.UTC().Format(column.TimestampLayout)
}

// canonical writes a value that a person gave in the stored form; times without
// a zone are UTC.
func (k watermarkKind) canonical(value string, w *WatermarkSpec) (string, error) {
	c := column.Column{Zone: time.UTC}
	switch k {
	case markTime:
		c.Type = column.Type{Kind: column.Timestamp, Scale: 6}
	case markDate:
		c.Type = column.Type{Kind: column.Date}
	case markNumber:
		c.Type = column.Type{Kind: column.Integer, Bits: 64}
	default:
		return value, nil
	}
	if value == "" {
		return "", nil
	}
	out, f := c.Convert(row.Value{Kind: row.Text, Text: value})
	if f != nil && k == markTime {
		// A date alone is its beginning.
		out, f = c.Convert(row.Value{Kind: row.Text, Text: value + " 00:00:00"})
	}
	if f != nil {
		return "", problem(codeWatermark, "the watermark %s cannot begin at %q: %s", w.Name, value, f.Message)
	}
	return storedText(out), nil
}

// compare writes a comparison of a source column with a parameter. SQLite keeps
// times as texts of many forms that do not sort as instants: it compares their
// instants there, and lets through what it cannot read, so that no row is
// skipped for its writing. A row without a value is let through everywhere.
func (k watermarkKind) compare(db *dialect.DB, col, op string) string {
	if k == markTime && db.IsSQLite() {
		slack := "-0.001"
		if op == "<=" {
			slack = "+0.001"
		}
		return fmt.Sprintf("(julianday(%s) IS NULL OR julianday(%s) %s julianday(?, '%s seconds'))", col, col, op, slack)
	}
	return "(" + col + " " + op + " ? OR " + col + " IS NULL)"
}

func (k watermarkKind) parameter(v string) any {
	if k == markNumber {
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return n
		}
	}
	return v
}

// parameters are the values of :watermark_from and :watermark_to; a bound that
// is not there is beyond everything.
func (b Bounds) parameters() (from, to any) {
	lo, hi := any(""), any("\U0010FFFF")
	switch b.Kind {
	case markTime:
		lo, hi = "1000-01-01 00:00:00.000000", "9999-12-31 23:59:59.999999"
	case markDate:
		lo, hi = "1000-01-01", "9999-12-31"
	case markNumber:
		lo, hi = int64(-1<<63), int64(1<<63-1)
	}
	if b.From != "" {
		lo = b.Kind.parameter(b.From)
	}
	if b.To != "" {
		hi = b.Kind.parameter(b.To)
	}
	return lo, hi
}

type querier interface {
	QueryRowxContext(ctx context.Context, query string, args ...any) *sqlx.Row
}

// readMark reads a pipeline's watermark; nil when there is none.
func readMark(ctx context.Context, q querier, suffix string, w *WatermarkSpec) (*mark, error) {
	var columnName string
	var value, tie sql.NullString
	err := q.QueryRowxContext(ctx, "SELECT column_name, value, tie_breaker FROM airlock_watermark WHERE pipeline = ?"+suffix, w.Name).
		Scan(&columnName, &value, &tie)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the watermark %s: %w", w.Name, err)
	case columnName != w.Column:
		return nil, problem(codeWatermark, "the watermark %q belongs to the column %q, the step says %q", w.Name, columnName, w.Column).
			hint("give the step's watermark another name, or delete the old row of airlock_watermark")
	}
	return &mark{value: value.String, tie: tie.String}, nil
}
