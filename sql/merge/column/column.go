package column

import (
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/airlock-dag/airlock/sql/merge/row"
)

// Column is one column of a step: where its value comes from, its type and its
// rules.
type Column struct {
	// Name in the target; From in the source, Name when empty.
	Name, From string
	Type       Type
	Required   bool
	// Default is used where the source has nothing; nil for none.
	Default *row.Value
	// Values are the allowed values, nil for any.
	Values []string
	// Pattern must match the text, nil for any.
	Pattern *regexp.Regexp
	// Computed gives the value instead of the source, nil for none.
	Computed *Expression
	// Check is an expression over this and other columns, nil for none.
	Check *Check
	// Format is how a date or timestamp is written; ISO 8601 when nil.
	Format *Format
	// Zone is the place that a time without a zone is in; nil to refuse it.
	Zone *time.Location
	// Trim removes spaces around the value before anything else.
	Trim bool
	// StagedOnly columns serve conditions and are not written to the target.
	StagedOnly bool
	// Fit is the target column's own type, a second limit; nil when unknown.
	Fit *Type
	// Affinity numeric is set for a SQLite column that turns texts into numbers.
	NumericAffinity bool
}

// Source is the name of the column in the source.
func (c *Column) Source() string {
	if c.From != "" {
		return c.From
	}
	return c.Name
}

// Convert gives the value as it is stored: nil, int64, string, float64 or
// []byte. Decimals, dates and timestamps are texts in one fixed form, which
// compare as they are meant.
func (c *Column) Convert(v row.Value) (any, *row.Fault) {
	if c.Trim && v.Kind == row.Text {
		v.Text = strings.TrimSpace(v.Text)
	}
	if v.Absent() && c.Default != nil {
		v = *c.Default
	}
	if v.Absent() {
		if c.Required {
			return nil, c.fault(row.RequiredMissing, "a value is required, there is %s", v.Kind)
		}
		return nil, nil
	}
	out, f := c.typed(v)
	if f != nil {
		return nil, f
	}
	if c.Values != nil && !slices.Contains(c.Values, plain(out)) {
		return nil, c.fault(row.NotInValues, "%s is not one of %s", show(v.Text), strings.Join(c.Values, ", "))
	}
	if c.Pattern != nil && !c.Pattern.MatchString(plain(out)) {
		return nil, c.fault(row.PatternMismatch, "%s does not match %s", show(v.Text), c.Pattern)
	}
	if c.Fit != nil {
		if f := c.fits(out, v); f != nil {
			return nil, f
		}
	}
	return out, nil
}

func (c *Column) typed(v row.Value) (any, *row.Fault) {
	switch c.Type.Kind {
	case Integer:
		return c.integer(v, c.Type)
	case Decimal:
		return c.decimal(v, c.Type)
	case Double:
		return c.double(v)
	case Text:
		return c.textValue(v)
	case Date:
		return c.date(v)
	case Timestamp:
		return c.timestamp(v)
	case Boolean:
		return c.boolean(v)
	case JSON:
		return c.json(v)
	case Blob:
		if v.Kind != row.Bytes && v.Kind != row.Text {
			return nil, c.wrong(v, "binary data")
		}
		return []byte(v.Text), nil
	default:
		return v.Text, nil
	}
}

func (c *Column) textValue(v row.Value) (any, *row.Fault) {
	if v.Kind != row.Text && v.Kind != row.Time && v.Kind != row.Bytes {
		return nil, c.wrong(v, "a text")
	}
	if strings.IndexByte(v.Text, 0) >= 0 {
		return nil, c.fault(row.NulCharacter, "the text has a NUL character")
	}
	if v.Kind == row.Bytes && !utf8.ValidString(v.Text) {
		return nil, c.fault(row.InvalidUTF8, "the value is not UTF-8")
	}
	return v.Text, c.length(v.Text, c.Type.Length)
}

func (c *Column) length(text string, limit int) *row.Fault {
	if limit > 0 && len(text) > limit {
		if n := utf8.RuneCountInString(text); n > limit {
			return c.fault(row.TooLong, "%s has %d characters, the column takes %d", show(text), n, limit)
		}
	}
	return nil
}

// fits holds a converted value against the target column's own type.
func (c *Column) fits(out any, v row.Value) *row.Fault {
	switch x := out.(type) {
	case int64:
		switch c.Fit.Kind {
		case Integer:
			return c.inRange(x, *c.Fit, v)
		case Decimal:
			_, f := c.decimal(row.Value{Kind: row.Number, Text: plain(x)}, *c.Fit)
			return f
		case Double:
			if x > 1<<53 || x < -(1<<53) {
				return c.fault(row.PrecisionLost, "%d does not fit a floating point column exactly", x)
			}
		}
	case string:
		switch {
		case c.Type.Kind == Decimal && c.Fit.Kind == Decimal:
			_, f := c.decimal(row.Value{Kind: row.Number, Text: x}, *c.Fit)
			return f
		case c.Type.Kind == Text && c.Fit.Kind == Text:
			return c.length(x, c.Fit.Length)
		case c.Type.Kind == Timestamp && c.Fit.Kind == Timestamp:
			return c.fraction(x, c.Fit.Scale)
		}
	}
	return nil
}
